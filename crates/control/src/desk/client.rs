// SPDX-License-Identifier: Apache-2.0
//! The desk's ends towards notary and launcher: one request, one reply.

use super::start::internal;
use crate::orders::{LauncherReply, LauncherRequest};
use crate::role_channel::{self, receive};
use anyhow::Context;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::rc::Rc;
use tokio::sync::{mpsc, oneshot};
use torno_control_api::channel::Channel;
use torno_control_api::request::Failure;
use torno_notary_protocol::desk::{DeskMessage, DeskReply};
use torno_notary_protocol::gate::Ticket;

/// Towards the notary: replies carry the ticket of their request.
pub(super) struct Notary {
    channel: Rc<Channel>,
    next: Cell<u64>,
    waiting: Rc<RefCell<BTreeMap<Ticket, oneshot::Sender<DeskReply>>>>,
}

impl Notary {
    /// Takes the channel. The second value resolves when the notary is gone.
    pub(super) fn new(channel: Channel) -> (Self, oneshot::Receiver<()>) {
        let channel = Rc::new(channel);
        let waiting: Rc<RefCell<BTreeMap<Ticket, oneshot::Sender<DeskReply>>>> = Rc::default();
        let (gone, is_gone) = oneshot::channel();
        let (reader, table) = (Rc::clone(&channel), Rc::clone(&waiting));
        tokio::task::spawn_local(async move {
            while let Ok(Some((reply, _))) = receive::<DeskReply>(&reader).await {
                if let Some(waiter) = table.borrow_mut().remove(&ticket_of(&reply)) {
                    // Who no longer waits has been cancelled.
                    let _ = waiter.send(reply);
                }
            }
            let _ = gone.send(());
        });
        (
            Self {
                channel,
                next: Cell::new(1),
                waiting,
            },
            is_gone,
        )
    }

    /// Asks and waits for the reply.
    pub(super) async fn ask(
        &self,
        message: impl FnOnce(Ticket) -> DeskMessage,
    ) -> anyhow::Result<DeskReply> {
        let ticket = Ticket(self.next.replace(self.next.get() + 1));
        let (waiter, reply) = oneshot::channel();
        self.waiting.borrow_mut().insert(ticket, waiter);
        role_channel::send(&self.channel, &message(ticket), &[]).await?;
        reply.await.context("the notary is gone")
    }

    /// Says something that is not answered.
    pub(super) async fn tell(&self, message: &DeskMessage) -> anyhow::Result<()> {
        role_channel::send(&self.channel, message, &[]).await
    }
}

fn ticket_of(reply: &DeskReply) -> Ticket {
    match reply {
        DeskReply::Begun(begun) => begun.ticket,
        DeskReply::Done { ticket, .. }
        | DeskReply::KillRecorded { ticket, .. }
        | DeskReply::Permitted { ticket, .. }
        | DeskReply::Refused { ticket, .. }
        | DeskReply::Explained { ticket, .. }
        | DeskReply::Standings { ticket, .. }
        | DeskReply::FingerprintSet { ticket, .. } => *ticket,
    }
}

type LauncherAnswer = (LauncherReply, Vec<OwnedFd>);

/// Towards the launcher: replies come in the order of the requests, events between them.
pub(super) struct Launcher {
    channel: Rc<Channel>,
    waiting: Rc<RefCell<VecDeque<oneshot::Sender<LauncherAnswer>>>>,
    sending: tokio::sync::Mutex<()>,
}

impl Launcher {
    /// Takes the channel. The second value yields the events.
    pub(super) fn new(channel: Channel) -> (Self, mpsc::UnboundedReceiver<LauncherReply>) {
        let channel = Rc::new(channel);
        let waiting: Rc<RefCell<VecDeque<oneshot::Sender<LauncherAnswer>>>> = Rc::default();
        let (event, events) = mpsc::unbounded_channel();
        let (reader, queue) = (Rc::clone(&channel), Rc::clone(&waiting));
        tokio::task::spawn_local(async move {
            while let Ok(Some((reply, given))) = receive::<LauncherReply>(&reader).await {
                let is_event = matches!(
                    reply,
                    LauncherReply::SandboxEnded { .. } | LauncherReply::DiskSpent { .. }
                );
                if is_event {
                    // The receiver lives as long as the desk.
                    let _ = event.send(reply);
                } else if let Some(waiter) = queue.borrow_mut().pop_front() {
                    let _ = waiter.send((reply, given));
                }
            }
            // Waiters see their senders dropped.
            queue.borrow_mut().clear();
        });
        (
            Self {
                channel,
                waiting,
                sending: tokio::sync::Mutex::default(),
            },
            events,
        )
    }

    /// Asks and waits for the reply.
    pub(super) async fn ask(
        &self,
        request: &LauncherRequest,
        give: &[BorrowedFd<'_>],
    ) -> anyhow::Result<LauncherAnswer> {
        let (waiter, reply) = oneshot::channel();
        {
            // Order on the wire is order in the queue.
            let _turn = self.sending.lock().await;
            self.waiting.borrow_mut().push_back(waiter);
            role_channel::send(&self.channel, request, give).await?;
        }
        reply.await.context("the launcher is gone")
    }

    /// The same for a person, or a program of theirs: what it could not do is their failure.
    pub(super) async fn ask_for(
        &self,
        request: &LauncherRequest,
        give: &[BorrowedFd<'_>],
    ) -> Result<LauncherAnswer, Failure> {
        match self.ask(request, give).await.map_err(|e| internal(&e))? {
            (
                LauncherReply::Failed {
                    code,
                    message,
                    hint,
                },
                _,
            ) => Err(Failure {
                code,
                message,
                hint,
            }),
            answer => Ok(answer),
        }
    }
}
