// SPDX-License-Identifier: Apache-2.0
//! The workspace of a machine, which shares no directory with its host: a porter sends the private
//! copy in over the gate's link, and another one unpacks what comes out beside that copy. The desk
//! hands out the ends of a stream and sees nothing of it.
//!
//! ```text
//!   in    copy ── porter packs ── gate ── link ── agent ──▶ /workspace
//!   out   /workspace ── agent ── link ── gate ── porter unpacks ──▶ beside the copy ──▶ the copy
//! ```

use super::gates::Gate;
use super::start::{internal, out_of_turn};
use super::{Desk, pause, porters};
use crate::orders::{
    GateRequest, LauncherReply, LauncherRequest, Order, PorterJob, PorterReply, ReturnOrder,
    Returned, WorkspaceOrder, WorkspaceWay,
};
use anyhow::{Context, anyhow, bail};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::Mutex;
use torno_control_api::channel::Peer;
use torno_control_api::request::Failure;
use torno_guest_protocol::FileFailure;
use torno_notary_protocol::desk::EndCause;
use torno_policy::grant::{FileRules, Isolation, SandboxGrant, WorkspaceMode};
use torno_policy::names::SessionId;
use torno_policy::standing::Phase;

/// LIMIT: the largest workspace that fits into a machine's memory, by an emulated processor on a
/// busy machine. What is late is given up: a start fails, an end goes on without it.
pub(super) const TRANSFER_WAIT: Duration = Duration::from_secs(300);

/// LIMIT: how long one transfer waits for another to end. A guest that lets one crawl loses the
/// last one, and no end waits for it.
const TURN_WAIT: Duration = Duration::from_secs(20);

/// A workspace that is carried in and out.
#[derive(Clone)]
pub(super) struct Carried {
    /// Which phase's machine it lies in.
    phase: Phase,
    files: FileRules,
    bytes_max: u64,
    /// The private copy, as it went in.
    copy: Rc<OwnedFd>,
    /// One transfer at a time.
    turn: Rc<Mutex<()>>,
}

impl Carried {
    /// How a phase's workspace is carried; nothing where the sandbox has the copy itself.
    pub(super) fn of(
        shape: &SandboxGrant,
        (isolation, phase): (Isolation, Phase),
        copy: Option<OwnedFd>,
        shown_bytes: u64,
    ) -> Option<Self> {
        let is_carried = isolation.is_machine() && shape.workspace == WorkspaceMode::Copy;
        let copy = copy.filter(|_| is_carried)?;
        // The directory has a third of the disk limit, and lies in memory beside all that runs and
        // what is shown of the host.
        let limits = &shape.limits;
        let memory = carried_bytes(shape).saturating_sub(shown_bytes);
        Some(Self {
            phase,
            files: shape.files.clone(),
            bytes_max: (limits.disk_bytes / 3).min(memory),
            copy: Rc::new(copy),
            turn: Rc::default(),
        })
    }
}

/// LIMIT: half of a machine's memory, for all that is carried into it.
pub(super) fn carried_bytes(shape: &SandboxGrant) -> u64 {
    shape.limits.memory_bytes / 2
}

/// Fills the workspace of a machine that is up, before anything runs in it.
pub(super) async fn fill(
    desk: &Desk,
    session: &SessionId,
    caller: Peer,
    (gate, carried): (&Gate, Carried),
) -> Result<(), Failure> {
    let files = carried.files.clone();
    let job = PorterJob::Pack {
        bytes_max: carried.bytes_max,
        hide: files.hide.clone(),
    };
    let copy = Rc::clone(&carried.copy);
    let transfer = desk.sessions.with(session, |row| {
        row.carried = Some(carried);
        row.take_number()
    });
    let transfer = transfer.ok_or_else(|| internal(&anyhow!("the session is gone")))?;
    let filling = async {
        let (ours, theirs) = UnixStream::pair()?;
        let way = WorkspaceWay::In { files };
        let order = GateRequest::MoveWorkspace(WorkspaceOrder { transfer, way });
        gate.tell(&order, &[theirs.as_fd()]).await?;
        drop(theirs);
        let give = [copy.as_fd(), ours.as_fd()];
        let packed = porters::run(desk, session, caller, &job, &give).await;
        drop(ours);
        let moved = gate.moved(transfer).await.context("the gate is gone")?;
        anyhow::Ok((packed?, moved))
    };
    let filled = tokio::time::timeout(TRANSFER_WAIT, filling).await;
    let message = match filled {
        Ok(Ok((PorterReply::Done { .. }, None))) => return Ok(()),
        Ok(Ok((PorterReply::Failed { .. }, Some(FileFailure::NoSpace)))) => {
            words(FileFailure::NoSpace).to_owned()
        }
        Ok(Ok((PorterReply::Failed { message }, _))) => message,
        Ok(Ok((PorterReply::Done { .. }, Some(failure)))) => words(failure).to_owned(),
        Ok(Ok(_)) => return Err(out_of_turn("porter")),
        Ok(Err(error)) => return Err(internal(&error)),
        Err(_) => "the machine did not take the workspace in 300 s".to_owned(),
    };
    Err(Failure {
        code: "workspace_unusable".to_owned(),
        message,
        hint: "mend the workspace or the rules, or say `--workspace none`".to_owned(),
    })
}

/// Brings a machine's workspace out for the last time: every process in it is killed first, and
/// what comes takes the place of the private copy. On any failure that stays as it was.
pub(super) async fn bring_last(desk: &Desk, session: &SessionId) -> anyhow::Result<()> {
    let Some(phase) = phase_of(desk, session) else {
        return Ok(());
    };
    let gate = desk.sessions.with(session, |row| row.gate.clone());
    if let Some(gate) = gate.flatten() {
        gate.tell(&GateRequest::CloseWayOut, &[]).await?;
    }
    let awake = pause::let_go(desk, session).await;
    awake.map_err(|failure| anyhow!(failure.message))?;
    let brought = bring(desk, session, Returned::Last).await;
    if let Err(error) = brought {
        forget(desk, session, Returned::Last).await;
        return Err(error);
    }
    let take = LauncherRequest::Return(ReturnOrder::Take {
        session: session.clone(),
        phase,
    });
    match desk.launcher.ask(&take, &[]).await?.0 {
        LauncherReply::Removed => Ok(()),
        LauncherReply::Failed { message, .. } => bail!(message),
        _ => bail!("the launcher answered out of turn"),
    }
}

/// The same at a session's end. What could not be brought out is said to who asks for it.
pub(super) async fn bring_at_end(desk: &Desk, session: &SessionId, cause: EndCause) {
    let brought = match cause {
        // Nothing of it is kept.
        EndCause::StartFailed | EndCause::DiskFull => return,
        EndCause::Exited | EndCause::RoleDied if phase_of(desk, session).is_some() => {
            Err(anyhow!("the machine or its gate ended before that"))
        }
        EndCause::Exited | EndCause::RoleDied => return,
        EndCause::Stopped | EndCause::TimeLimit | EndCause::DiskLimit => {
            bring_last(desk, session).await
        }
    };
    if let Err(error) = brought {
        tracing::warn!("workspace of {session}: {error:#}");
        desk.sessions
            .with(session, |row| row.left_inside = Some(format!("{error:#}")));
    }
}

/// Brings a running machine's workspace out to be looked at. Whoever has looked says [`forget`].
pub(super) async fn bring_seen(desk: &Desk, session: &SessionId) -> Result<OwnedFd, Failure> {
    // Its agent stands still with all the rest.
    pause::check_awake(desk, session)?;
    let claimed = desk
        .sessions
        .with(session, |row| !std::mem::replace(&mut row.is_seen, true));
    if claimed != Some(true) {
        return Err(Failure {
            code: "workspace_busy".to_owned(),
            message: format!("somebody looks at the workspace of `{session}` already"),
            hint: "one diff or apply of a running machine at a time: try again".to_owned(),
        });
    }
    match bring(desk, session, Returned::Seen).await {
        Ok(seen) => Ok(seen),
        Err(error) => {
            forget(desk, session, Returned::Seen).await;
            Err(not_brought(session, &format!("{error:#}")))
        }
    }
}

/// What came out goes.
pub(super) async fn forget(desk: &Desk, session: &SessionId, returned: Returned) {
    let request = LauncherRequest::Return(ReturnOrder::Drop {
        session: session.clone(),
        returned,
    });
    if let Err(error) = desk.launcher.ask(&request, &[]).await {
        tracing::error!("{error:#}");
    }
    if returned == Returned::Seen {
        desk.sessions.with(session, |row| row.is_seen = false);
    }
}

/// What a person is told who asks for changes that are lost.
pub(super) fn not_brought(session: &SessionId, why: &str) -> Failure {
    Failure {
        code: "workspace_not_brought".to_owned(),
        message: format!("what `{session}` changed did not come out of its machine: {why}"),
        hint: "the workspace stays as it was; run it again, or push results from inside".to_owned(),
    }
}

fn phase_of(desk: &Desk, session: &SessionId) -> Option<Phase> {
    let phase = |row: &mut super::session::Session| row.carried.as_ref().map(|c| c.phase);
    desk.sessions.with(session, phase).flatten()
}

async fn bring(desk: &Desk, session: &SessionId, returned: Returned) -> anyhow::Result<OwnedFd> {
    let brought = tokio::time::timeout(TRANSFER_WAIT, unpack(desk, session, returned)).await;
    if let Ok(brought) = brought {
        return brought;
    }
    // It would go on writing into a directory that goes.
    let session = session.clone();
    desk.order(&Order::EndPorters { session }).await?;
    bail!("it took longer than 300 s")
}

async fn unpack(desk: &Desk, session: &SessionId, returned: Returned) -> anyhow::Result<OwnedFd> {
    let known = desk.sessions.with(session, |row| {
        let (gate, carried) = (row.gate.clone()?, row.carried.clone()?);
        Some((gate, carried, row.owner))
    });
    let (gate, carried, owner) = known.flatten().context("the machine is gone")?;
    let turn = tokio::time::timeout(TURN_WAIT, carried.turn.lock()).await;
    let _turn = turn.context("somebody was still looking at it")?;
    let target = prepare(desk, session, returned, owner).await?;
    let (ours, theirs) = UnixStream::pair()?;
    let bytes_max = carried.bytes_max;
    let last = returned == Returned::Last;
    let way = WorkspaceWay::Out { bytes_max, last };
    let in_order = desk.sessions.with(session, |row| Rc::clone(&row.in_order));
    let in_order = in_order.context("the session is gone")?;
    let ordered = in_order.lock().await;
    let transfer = desk.sessions.with(session, |row| row.take_number());
    let transfer = transfer.context("the session is gone")?;
    let order = GateRequest::MoveWorkspace(WorkspaceOrder { transfer, way });
    gate.tell(&order, &[theirs.as_fd()]).await?;
    drop(ordered);
    drop(theirs);
    let files = carried.files.clone();
    let job = PorterJob::Unpack { bytes_max, files };
    let give = [target.as_fd(), carried.copy.as_fd(), ours.as_fd()];
    let unpacked = porters::run(desk, session, owner, &job, &give).await;
    drop(ours);
    let moved = gate.moved(transfer).await.context("the gate is gone")?;
    match (unpacked?, moved) {
        (PorterReply::Done { .. }, None) => Ok(target),
        (_, Some(failure)) => bail!(words(failure)),
        (PorterReply::Failed { message }, None) => bail!(message),
        (other, None) => bail!("the porter answered out of turn: {other:?}"),
    }
}

async fn prepare(
    desk: &Desk,
    session: &SessionId,
    returned: Returned,
    owner: Peer,
) -> anyhow::Result<OwnedFd> {
    let request = LauncherRequest::Return(ReturnOrder::Prepare {
        session: session.clone(),
        returned,
        owner: owner.uid,
    });
    match desk.launcher.ask(&request, &[]).await? {
        (LauncherReply::Prepared, given) => given.into_iter().next().context("no directory came"),
        (LauncherReply::Failed { message, .. }, _) => bail!(message),
        _ => bail!("the launcher answered out of turn"),
    }
}

/// What a guest's word means here.
fn words(failure: FileFailure) -> &'static str {
    match failure {
        FileFailure::NoSpace => {
            "the machine has no room for the workspace; raise limits.disk and limits.memory"
        }
        FileFailure::TooLarge => {
            "the workspace is larger than a third of limits.disk or half of limits.memory, or has \
             too many entries"
        }
        FileFailure::NotADirectory | FileFailure::NotAFile => {
            "a rule of `files` takes a file for a directory or a directory for a file: one is \
             written as its exact path, the other as `dir/**`"
        }
        FileFailure::NotFound | FileFailure::Outside => {
            "a place of `files` can't be made: a directory on its way is missing, or a link"
        }
        FileFailure::Busy => "the machine was busy with another transfer, or would not stand still",
        FileFailure::Exists | FileFailure::NotEmpty | FileFailure::Denied | FileFailure::Failed => {
            "the machine's agent could not do it"
        }
    }
}
