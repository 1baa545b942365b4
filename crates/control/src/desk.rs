// SPDX-License-Identifier: Apache-2.0
//! The desk: the people's side. Sessions, their begin and end, and the API. It never sees a byte
//! of a workload: a command's stream goes from gate to client by a socket that it only passes on.

mod api;
mod checkpoints;
mod client;
mod finish;
mod gates;
mod leftovers;
mod pause;
mod porters;
mod session;
mod start;
mod sync;
mod transfer;
mod workspace;

use crate::confine::{self, Reach};
use crate::orders::{FromSupervisor, GateEvent, LauncherReply, Order};
use crate::role_channel::{Heard, exactly, hear, receive};
use crate::roles::Role;
use anyhow::{Context, bail};
use client::{Launcher, Notary};
use session::{Life, Sessions};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::rc::Rc;
use torno_control_api::channel::{Channel, Listener};
use torno_notary_protocol::desk::{DeskMessage, EndCause, SessionNote};
use torno_policy::decision::Refusal;
use torno_policy::names::{RuleName, SessionId};
use torno_policy::standing::Phase;

/// What every connection's task shares.
struct Desk {
    notary: Notary,
    launcher: Launcher,
    supervisor: Channel,
    sessions: Sessions,
    operator_digest: [u8; 32],
    /// SHA-256 of a brain's token → its session.
    brains: RefCell<BTreeMap<[u8; 32], SessionId>>,
    /// Baselines of workspace copies lie here.
    directory: PathBuf,
    /// Porters that were ordered and whose channel has not come yet are none: the packet brings it.
    spawning: tokio::sync::Mutex<()>,
}

impl Desk {
    /// Gives the supervisor an order.
    async fn order(&self, order: &Order) -> anyhow::Result<()> {
        self.supervisor
            .send(&order.encode(), &[])
            .await
            .context("the supervisor is gone")
    }
}

/// Runs the role until the supervisor's channel closes.
pub(crate) async fn run(supervisor: Channel) -> anyhow::Result<()> {
    let (start, descriptors) = receive(&supervisor).await?.context("no start")?;
    let FromSupervisor::Start(start) = start else {
        bail!("no start")
    };
    let [api, notary, launcher, _alive] = exactly(descriptors)?;
    let listener = Listener::new(api)?;
    let own = confine::directory(&start.directory)?;
    confine::role(
        Role::Desk,
        &[Reach {
            place: own.as_fd(),
            write: true,
        }],
    )?;
    leftovers::reconcile(&start.directory)?;
    let (notary, notary_gone) = Notary::new(Channel::new(notary)?);
    let (launcher, mut ended) = Launcher::new(Channel::new(launcher)?);
    let desk = Rc::new(Desk {
        notary,
        launcher,
        supervisor,
        sessions: Sessions::default(),
        operator_digest: start.operator_digest.context("no operator's token")?,
        brains: RefCell::default(),
        directory: start.directory,
        spawning: tokio::sync::Mutex::default(),
    });
    tokio::task::spawn_local(api::accept(listener, Rc::clone(&desk)));
    tokio::pin!(notary_gone);
    loop {
        tokio::select! {
            message = receive(&desk.supervisor) => match message? {
                Some((message, descriptors)) => obey(&desk, message, descriptors)?,
                None => return Ok(()),
            },
            Some(reply) = ended.recv() => launcher_event(&desk, &reply),
            _ = &mut notary_gone => bail!("the notary is gone"),
        }
    }
}

/// What the supervisor says.
fn obey(desk: &Rc<Desk>, message: FromSupervisor, descriptors: Vec<OwnedFd>) -> anyhow::Result<()> {
    match message {
        FromSupervisor::GateJoined { session, .. } => {
            let [gate] = exactly(descriptors)?;
            desk.sessions.gate_joined(&session, Channel::new(gate)?);
        }
        FromSupervisor::GateLeft { session, .. } => {
            if desk.sessions.gate_left(&session) == Some(Life::Running) {
                end_later(desk, session, EndCause::RoleDied);
            }
        }
        FromSupervisor::Kill { session } => {
            let desk = Rc::clone(desk);
            tokio::task::spawn_local(async move {
                // The supervisor has cut the gates already; this is the rest of the same kill.
                if let Err(failure) = finish::kill(&desk, session).await {
                    tracing::error!("kill: {}: {}", failure.code, failure.message);
                }
            });
        }
        FromSupervisor::Start(_) | FromSupervisor::Serve => bail!("not for the desk"),
    }
    Ok(())
}

/// What the launcher says unasked: a sandbox's first process ended by itself, or it must end.
fn launcher_event(desk: &Rc<Desk>, reply: &LauncherReply) {
    match reply {
        LauncherReply::SandboxEnded {
            session,
            phase: Phase::Locked,
        } if desk.sessions.sandbox_ended(session) => {
            end_later(desk, session.clone(), EndCause::Exited);
        }
        LauncherReply::DiskSpent { session, low } => {
            let cause = if *low {
                EndCause::DiskFull
            } else {
                EndCause::DiskLimit
            };
            end_later(desk, session.clone(), cause);
        }
        _ => {}
    }
}

fn end_later(desk: &Rc<Desk>, session: SessionId, cause: EndCause) {
    let desk = Rc::clone(desk);
    tokio::task::spawn_local(async move { finish::end(&desk, &session, cause).await });
}

impl Desk {
    /// Reads a gate's events until it is gone.
    async fn follow(&self, id: &SessionId, gate: &gates::Gate) {
        loop {
            let event = match hear::<GateEvent>(&gate.channel).await {
                Heard::Message(event) => event,
                Heard::Fault(_) => {
                    // It was taken over: its end is noticed and recorded like a death.
                    let order = Order::EndGate {
                        session: id.clone(),
                    };
                    if let Err(error) = self.order(&order).await {
                        tracing::error!("{error:#}");
                    }
                    break;
                }
                Heard::Left => break,
            };
            match event {
                GateEvent::ExecEnded { exec, status } => {
                    self.sessions.with(id, |row| row.drop_command(exec));
                    gate.note_ended(exec, status);
                    let note = SessionNote::CommandEnded { exec, status };
                    let message = DeskMessage::Note {
                        session: id.clone(),
                        note,
                    };
                    if let Err(error) = self.notary.tell(&message).await {
                        tracing::error!("{error:#}");
                    }
                }
                GateEvent::Refused { target, refusal } => {
                    let (target, refusal) = bounded(&target, &refusal);
                    let frozen = self.sessions.with(id, |row| {
                        row.note_refused(target, refusal);
                        row.is_frozen
                    });
                    if frozen == Some(true)
                        && let Err(error) = sync::still(self, id).await
                    {
                        tracing::error!("workspace of {id}: {error:#}");
                    }
                }
                other => gate.milestone(other),
            }
        }
        gate.gone();
    }
}

/// LIMIT: characters of a text in a session's summary. A gate keeps to it; one that was taken over
/// must not fill the desk's memory.
const SUMMARY_CHARS_MAX: usize = 256;

fn bounded(target: &str, refusal: &Refusal) -> (String, Refusal) {
    let cut = |text: &str| text.chars().take(SUMMARY_CHARS_MAX).collect::<String>();
    let refusal = Refusal {
        reason: refusal.reason,
        layer: refusal.layer,
        rule: RuleName::new(cut(refusal.rule.as_str())),
        hint: cut(&refusal.hint),
    };
    (cut(target), refusal)
}
