// SPDX-License-Identifier: Apache-2.0
//! The dialer: opens a receipt, resolves its name once, checks every address, dials the checked
//! one and hands the socket to the gate. It reads nothing from that socket but a company proxy's
//! answer to CONNECT, before any byte of a workload or credential is on it.

mod address;
mod connect;
mod route;

use crate::confine;
use crate::orders::{FromSupervisor, Start};
use crate::role_channel::{Heard, exactly, hear, receive, send};
use crate::roles::Role;
use crate::upstreams::Upstreams;
use anyhow::{Context, bail};
use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::rc::Rc;
use std::sync::Arc;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use torno_control_api::channel::Channel;
use torno_notary_protocol::dial::{Dial, DialAlarm, DialReply};
use torno_notary_protocol::gate::Ticket;
use torno_notary_protocol::receipt::{ReceiptClaims, ReceiptKey, VALID_MS};
use torno_policy::decision::{Layer, Reason, Refusal};
use torno_policy::names::{Generation, RecordSeq, RuleName, SessionId};

/// LIMIT: dials under way for one gate; more wait in its channel.
const DIALS_MAX: usize = 64;

/// LIMIT: refused receipts of one gate in a row, each an alarm in the record; then it is cut off.
/// An honest gate's receipts are refused only when two seconds were too few.
const REFUSED_MAX: u32 = 64;

/// What every gate's task shares.
struct Shared {
    key: ReceiptKey,
    upstreams: Upstreams,
    notary: Channel,
    used: std::cell::RefCell<UsedReceipts>,
}

/// Receipts used in the last two seconds; a receipt is named by its record.
#[derive(Default)]
struct UsedReceipts {
    at: BTreeMap<RecordSeq, u64>,
}

impl UsedReceipts {
    /// Marks a receipt as used at `now`; false when it was used before.
    fn take(&mut self, record: RecordSeq, now: u64) -> bool {
        // LIMIT: only receipts that could still be valid are remembered, so the map is bounded by
        // the notary's rate of answers in two seconds.
        self.at
            .retain(|_, used| now.saturating_sub(*used) <= VALID_MS);
        self.at.insert(record, now).is_none()
    }
}

/// Runs the role until the supervisor's channel closes.
pub(crate) async fn run(supervisor: Channel) -> anyhow::Result<()> {
    let (start, descriptors) = receive(&supervisor).await?.context("no start")?;
    let FromSupervisor::Start(start) = start else {
        bail!("no start")
    };
    let Start {
        upstreams,
        receipt_key,
        ..
    } = *start;
    let [notary, _alive] = exactly(descriptors)?;
    let shared = Rc::new(Shared {
        key: ReceiptKey::new(receipt_key.context("no receipt key")?),
        upstreams,
        notary: Channel::new(notary)?,
        used: std::cell::RefCell::default(),
    });
    confine::role(Role::Dialer, &[])?;
    let mut gates: BTreeMap<SessionId, AbortOnDrop> = BTreeMap::new();
    while let Some((message, descriptors)) = receive(&supervisor).await? {
        match message {
            FromSupervisor::GateJoined {
                session,
                generation,
                ..
            } => {
                let [gate] = exactly(descriptors)?;
                let gate = Rc::new(Channel::new(gate)?);
                let asker = Asker {
                    session: session.clone(),
                    generation,
                };
                let service = serve_gate(gate, asker, Rc::clone(&shared));
                gates.insert(session, AbortOnDrop(tokio::task::spawn_local(service)));
            }
            FromSupervisor::GateLeft { session, .. } => {
                gates.remove(&session);
            }
            FromSupervisor::Kill { session } => {
                gates.retain(|id, _| session.as_ref().is_some_and(|killed| killed != id));
            }
            FromSupervisor::Start(_) | FromSupervisor::Serve => bail!("not for the dialer"),
        }
    }
    Ok(())
}

/// A gate's service ends when the supervisor says that the gate did, even if its socket lives on.
struct AbortOnDrop(tokio::task::JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Whose gate it is: known from the socket.
struct Asker {
    session: SessionId,
    generation: Generation,
}

/// Serves one gate until it is gone or does what no honest gate does. Dials under way end with it.
async fn serve_gate(gate: Rc<Channel>, asker: Asker, shared: Rc<Shared>) {
    let places = Arc::new(Semaphore::new(DIALS_MAX));
    let mut dials = JoinSet::new();
    let mut refused = 0;
    while refused < REFUSED_MAX {
        while dials.try_join_next().is_some() {}
        let dial = match hear::<Dial>(&gate).await {
            Heard::Message(dial) => dial,
            Heard::Fault(reason) => {
                shared.alarm(&asker, reason).await;
                break;
            }
            Heard::Left => break,
        };
        let claims = match shared.open(&dial, &asker) {
            Ok(claims) => claims,
            Err(reason) => {
                refused += 1;
                shared.alarm(&asker, reason).await;
                refuse(&gate, dial.ticket, refusal(reason, "ask the notary anew")).await;
                continue;
            }
        };
        refused = 0;
        let Ok(place) = Arc::clone(&places).acquire_owned().await else {
            return;
        };
        let (gate, shared) = (Rc::clone(&gate), Rc::clone(&shared));
        dials.spawn_local(async move {
            match connect::dial(&claims.endpoint, &shared.upstreams).await {
                Ok(dialed) => {
                    let message = DialReply::Dialed {
                        ticket: dial.ticket,
                        address: dialed.address.to_string(),
                        resolved_by_proxy: dialed.by_proxy,
                    };
                    reply(&gate, message, Some(dialed.socket)).await;
                }
                Err(refusal) => refuse(&gate, dial.ticket, refusal).await,
            }
            drop(place);
        });
    }
    gate.close();
}

async fn refuse(gate: &Channel, ticket: Ticket, refusal: Refusal) {
    reply(gate, DialReply::DialRefused { ticket, refusal }, None).await;
}

/// A gate that is gone needs no reply.
async fn reply(gate: &Channel, message: DialReply, socket: Option<std::net::TcpStream>) {
    let give: Vec<_> = socket.iter().map(AsFd::as_fd).collect();
    let _ = send(gate, &message, &give).await;
}

impl Shared {
    /// Opens a receipt for this gate, once.
    fn open(&self, dial: &Dial, asker: &Asker) -> Result<ReceiptClaims, Reason> {
        let now = boot_ms();
        let claims = self
            .key
            .open(&dial.receipt, now)
            .map_err(|_| Reason::ReceiptInvalid)?;
        if claims.session != asker.session {
            return Err(Reason::ReceiptInvalid);
        }
        if claims.generation != asker.generation {
            return Err(Reason::SessionFenced);
        }
        if self.used.borrow_mut().take(claims.record, now) {
            Ok(claims)
        } else {
            Err(Reason::ReceiptInvalid)
        }
    }

    /// Has an attempt recorded that no honest gate makes. A notary that is gone ends us all.
    async fn alarm(&self, asker: &Asker, reason: Reason) {
        let alarm = DialAlarm {
            session: asker.session.clone(),
            generation: asker.generation,
            reason,
        };
        let _ = send(&self.notary, &alarm, &[]).await;
    }
}

/// The clock of receipts: milliseconds since boot, suspend included.
pub(crate) fn boot_ms() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let ms = now
        .tv_sec
        .saturating_mul(1_000)
        .saturating_add(now.tv_nsec / 1_000_000);
    u64::try_from(ms).unwrap_or_default()
}

fn refusal(reason: Reason, hint: &str) -> Refusal {
    Refusal {
        reason,
        layer: Layer::Connect,
        rule: RuleName::new("dialer"),
        hint: hint.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_receipt_is_used_once_and_forgotten_when_it_could_not_be_valid_anyway() {
        let mut used = UsedReceipts::default();
        assert!(used.take(RecordSeq(1), 10));
        assert!(!used.take(RecordSeq(1), 11));
        assert!(used.take(RecordSeq(2), 10 + VALID_MS + 5));
        assert_eq!(used.at.len(), 1);
    }
}
