// SPDX-License-Identifier: Apache-2.0
//! The gate's end towards the dialer: a receipt goes, a connected socket comes.

use crate::role_channel::{self, receive};
use std::collections::BTreeMap;
use std::future::Future;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use torno_control_api::channel::Channel;
use torno_egress::{Dial, Dialed};
use torno_notary_protocol::dial::{Dial as DialMessage, DialReply};
use torno_notary_protocol::gate::Ticket;
use torno_notary_protocol::receipt::Receipt;
use torno_policy::decision::{Layer, Reason, Refusal};
use torno_policy::names::RuleName;

type Table = Mutex<BTreeMap<Ticket, oneshot::Sender<Result<Dialed, Refusal>>>>;

/// The port.
pub(super) struct DialerPort {
    channel: Arc<Channel>,
    waiting: Arc<Table>,
    next: AtomicU64,
}

impl DialerPort {
    /// Takes the channel.
    pub(super) fn new(channel: Channel) -> Self {
        let channel = Arc::new(channel);
        let waiting = Arc::new(Table::default());
        tokio::spawn(read(Arc::clone(&channel), Arc::clone(&waiting)));
        Self {
            channel,
            waiting,
            next: AtomicU64::new(1),
        }
    }
}

impl Dial for DialerPort {
    fn dial<'a>(
        &'a self,
        receipt: &'a Receipt,
    ) -> Pin<Box<dyn Future<Output = Result<Dialed, Refusal>> + Send + 'a>> {
        Box::pin(async move {
            let ticket = Ticket(self.next.fetch_add(1, Ordering::Relaxed));
            let (reply, dialed) = oneshot::channel();
            lock(&self.waiting).insert(ticket, reply);
            let message = DialMessage {
                ticket,
                receipt: receipt.clone(),
            };
            role_channel::send(&self.channel, &message, &[])
                .await
                .map_err(|_| gone())?;
            dialed.await.map_err(|_| gone())?
        })
    }
}

/// Hands sockets to who waits for them, until the dialer is gone.
async fn read(channel: Arc<Channel>, waiting: Arc<Table>) {
    while let Ok(Some((reply, given))) = receive::<DialReply>(&channel).await {
        let (ticket, dialed) = match reply {
            DialReply::Dialed {
                ticket,
                address,
                resolved_by_proxy,
            } => {
                let stream = given
                    .into_iter()
                    .next()
                    .ok_or_else(gone)
                    .and_then(into_stream);
                (
                    ticket,
                    stream.map(|stream| Dialed {
                        stream,
                        address,
                        resolved_by_proxy,
                    }),
                )
            }
            DialReply::DialRefused { ticket, refusal } => (ticket, Err(refusal)),
        };
        if let Some(waiter) = lock(&waiting).remove(&ticket) {
            // Who no longer waits has gone away; the socket is closed.
            let _ = waiter.send(dialed);
        }
    }
    lock(&waiting).clear();
}

fn into_stream(socket: OwnedFd) -> Result<TcpStream, Refusal> {
    let socket = std::net::TcpStream::from(socket);
    socket.set_nonblocking(true).map_err(|_| gone())?;
    TcpStream::from_std(socket).map_err(|_| gone())
}

/// The table is consistent after every statement, so a poisoned lock is still good.
fn lock(
    table: &Table,
) -> std::sync::MutexGuard<'_, BTreeMap<Ticket, oneshot::Sender<Result<Dialed, Refusal>>>> {
    table.lock().unwrap_or_else(PoisonError::into_inner)
}

fn gone() -> Refusal {
    Refusal {
        reason: Reason::RoleUnavailable,
        layer: Layer::Connect,
        rule: RuleName::new("dialer"),
        hint: "the daemon is ending; start the session anew".to_owned(),
    }
}
