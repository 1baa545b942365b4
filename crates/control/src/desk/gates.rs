// SPDX-License-Identifier: Apache-2.0
//! The desk's end of one gate: what it is told, and what it has reached.

use crate::orders::{GateEvent, GateRequest, HELLO_WAIT};
use crate::role_channel;
use anyhow::{Context, bail};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::os::fd::BorrowedFd;
use std::time::Duration;
use tokio::sync::Notify;
use torno_control_api::channel::Channel;
use torno_guest_protocol::FileFailure;

/// LIMIT: how long a gate may take to make its CA.
const CA_WAIT: Duration = Duration::from_secs(30);
/// LIMIT: how long it may take to say whether the agent spoke. The gate gives the agent up first.
const GUEST_WAIT: Duration = HELLO_WAIT.saturating_add(Duration::from_secs(5));

/// LIMIT: ends of commands that nobody has asked for; the install phase waits for one at a time.
const ENDED_MAX: usize = 64;

/// How far a gate has come.
#[derive(Debug, Default)]
struct Reached {
    ca_pem: Option<String>,
    guest: bool,
    unusable: Option<String>,
    gone: bool,
    /// Commands that ended: number → status.
    ended: BTreeMap<u64, i32>,
    /// Transfers that ended: number → why it failed, if it did.
    moved: BTreeMap<u64, Option<FileFailure>>,
}

/// One gate.
pub(super) struct Gate {
    pub(super) channel: Channel,
    reached: RefCell<Reached>,
    changed: Notify,
}

impl Gate {
    pub(super) fn new(channel: Channel) -> Self {
        Self {
            channel,
            reached: RefCell::default(),
            changed: Notify::new(),
        }
    }

    /// Tells the gate something.
    pub(super) async fn tell(
        &self,
        request: &GateRequest,
        give: &[BorrowedFd<'_>],
    ) -> anyhow::Result<()> {
        role_channel::send(&self.channel, request, give).await
    }

    /// Notes an event of the start.
    pub(super) fn milestone(&self, event: GateEvent) {
        let mut reached = self.reached.borrow_mut();
        match event {
            GateEvent::Ready { ca_pem } => reached.ca_pem = Some(ca_pem),
            GateEvent::GuestReady => reached.guest = true,
            GateEvent::Unusable { message } => reached.unusable = Some(message),
            GateEvent::WorkspaceMoved { transfer, failure } => {
                reached.moved.insert(transfer, failure);
                if reached.moved.len() > ENDED_MAX {
                    reached.moved.pop_first();
                }
            }
            GateEvent::ExecEnded { .. } | GateEvent::Refused { .. } => {}
        }
        drop(reached);
        self.changed.notify_waiters();
    }

    /// A command ended.
    pub(super) fn note_ended(&self, exec: u64, status: i32) {
        let mut reached = self.reached.borrow_mut();
        reached.ended.insert(exec, status);
        if reached.ended.len() > ENDED_MAX {
            reached.ended.pop_first();
        }
        drop(reached);
        self.changed.notify_waiters();
    }

    /// Waits for a command's end; nothing when the gate is gone before.
    pub(super) async fn exec_ended(&self, exec: u64) -> Option<i32> {
        self.take(|reached| reached.ended.remove(&exec)).await
    }

    /// Waits for a transfer's end, and why it failed; nothing when the gate is gone before.
    pub(super) async fn moved(&self, transfer: u64) -> Option<Option<FileFailure>> {
        self.take(|reached| reached.moved.remove(&transfer)).await
    }

    async fn take<T>(&self, mut take: impl FnMut(&mut Reached) -> Option<T>) -> Option<T> {
        loop {
            let changed = self.changed.notified();
            {
                let mut reached = self.reached.borrow_mut();
                if let Some(taken) = take(&mut reached) {
                    return Some(taken);
                }
                if reached.gone {
                    return None;
                }
            }
            changed.await;
        }
    }

    /// The gate's channel closed.
    pub(super) fn gone(&self) {
        self.reached.borrow_mut().gone = true;
        self.changed.notify_waiters();
    }

    /// Whether its channel has closed.
    pub(super) fn is_gone(&self) -> bool {
        self.reached.borrow().gone
    }

    /// Waits for the session CA's certificate.
    pub(super) async fn ca_pem(&self) -> anyhow::Result<String> {
        self.wait(CA_WAIT, |reached| reached.ca_pem.clone())
            .await
            .context("the session's CA")
    }

    /// Waits for the guest agent.
    pub(super) async fn guest(&self) -> anyhow::Result<()> {
        self.wait(GUEST_WAIT, |reached| reached.guest.then_some(()))
            .await
            .context("the guest agent")
    }

    async fn wait<T>(
        &self,
        within: Duration,
        is: impl Fn(&Reached) -> Option<T>,
    ) -> anyhow::Result<T> {
        let waiting = async {
            loop {
                let changed = self.changed.notified();
                {
                    let reached = self.reached.borrow();
                    if let Some(message) = &reached.unusable {
                        bail!("the gate can't serve: {message}");
                    }
                    if let Some(value) = is(&reached) {
                        return Ok(value);
                    }
                    if reached.gone {
                        bail!("the gate is gone");
                    }
                }
                changed.await;
            }
        };
        tokio::time::timeout(within, waiting)
            .await
            .with_context(|| format!("no answer in {} s", within.as_secs()))?
    }
}
