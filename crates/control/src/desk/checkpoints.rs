// SPDX-License-Identifier: Apache-2.0
//! Checkpoints: a session's workspace as it was at one moment, kept under a name, and sessions that
//! begin from one (decision 0058).
//!
//! ```text
//!   begun ─▶ sandbox held ─▶ porter copies, searching ─▶ let go ─▶ recorded ─▶ kept
//!     └───────── whatever fails, an end by kill: given up, nothing stays ──────▲
//! ```
//! What is kept came out of a sandbox: it goes into the next session by the same porter and search
//! as a person's directory does. The new session is one like any other.

use super::pause::{hold, unknown};
use super::session::{Life, Session};
use super::start::{self, internal, of_refusal, out_of_turn};
use super::{Desk, porters, sync, transfer, workspace};
use crate::front_door;
use crate::orders::{
    CheckpointOrder, LauncherReply, LauncherRequest, Order, PorterJob, PorterReply, Returned,
};
use anyhow::Context;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::time::Duration;
use torno_control_api::channel::Peer;
use torno_control_api::request::{Checkpoint, Checkpointed, Failure, StartSession};
use torno_notary_protocol::desk::{CheckpointChange, DeskMessage, DeskReply};
use torno_policy::grant::WorkspaceMode;
use torno_policy::names::{CheckpointName, SessionId};

/// LIMIT: how long a sandbox is held for its copy. What is larger than a porter copies in this time
/// is given up.
const COPY_WAIT: Duration = Duration::from_secs(300);
/// LIMIT: of a baseline in memory, on its way from one file to another.
const PIECE_BYTES: usize = 64 * 1024;

/// Keeps a session's workspace under a name.
pub(super) async fn take(
    desk: &Rc<Desk>,
    session: &SessionId,
    name: Option<CheckpointName>,
) -> Result<Checkpointed, Failure> {
    let name = match name {
        Some(name) => name,
        None => {
            let made = start::new_id()?;
            CheckpointName::parse(made.as_str()).map_err(|e| internal(&e.into()))?
        }
    };
    let owner = check(desk, session)?;
    let begin = CheckpointOrder::Begin {
        name: name.clone(),
        owner: owner.uid,
    };
    let (room, tree) = match order(desk, begin, None).await? {
        (LauncherReply::CheckpointBegun { room }, Some(tree)) => (room, tree),
        _ => return Err(out_of_turn("launcher")),
    };
    let made = make(desk, session, (&name, owner), (&tree, room)).await;
    if made.is_err() {
        let give_up = order(desk, CheckpointOrder::GiveUp { name }, None).await;
        if let Err(failure) = give_up {
            tracing::error!("a checkpoint: {}", failure.message);
        }
    }
    made
}

/// Every checkpoint.
pub(super) async fn list(desk: &Desk) -> Result<Vec<Checkpoint>, Failure> {
    match order(desk, CheckpointOrder::List, None).await?.0 {
        LauncherReply::Checkpoints(all) => Ok(all),
        _ => Err(out_of_turn("launcher")),
    }
}

/// Lets go of one.
pub(super) async fn remove(desk: &Desk, name: CheckpointName) -> Result<(), Failure> {
    // One that is not there is no record.
    let open = CheckpointOrder::Open { name: name.clone() };
    order(desk, open, None).await?;
    let checkpoint = name.clone();
    record(desk, CheckpointChange::Remove { checkpoint }).await?;
    order(desk, CheckpointOrder::Remove { name }, None).await?;
    Ok(())
}

/// Lets go of one that was found before, if it is that one still.
pub(super) async fn remove_found(desk: &Desk, found: Checkpoint) -> Result<(), Failure> {
    let open = CheckpointOrder::Open {
        name: found.name.clone(),
    };
    // What stays is no record.
    match order(desk, open, None).await? {
        (LauncherReply::Checkpoints(now), _) if now.first() == Some(&found) => {}
        (LauncherReply::Checkpoints(_), _) => {
            return Err(Failure {
                code: "checkpoint_changed".to_owned(),
                message: format!("`{}` was made again since it was found", found.name),
                hint: "`torno gc` names what lies about now".to_owned(),
            });
        }
        _ => return Err(out_of_turn("launcher")),
    }
    let checkpoint = found.name.clone();
    record(desk, CheckpointChange::Remove { checkpoint }).await?;
    order(desk, CheckpointOrder::RemoveFound(found), None).await?;
    Ok(())
}

/// What a session that is about to start begins from.
pub(super) struct Origin {
    pub(super) about: Checkpoint,
    pub(super) tree: OwnedFd,
}

/// Opens the checkpoint that a start names, for whose it is.
pub(super) async fn origin(
    desk: &Desk,
    caller: Peer,
    wanted: &StartSession,
) -> Result<Option<Origin>, Failure> {
    let Some(name) = &wanted.from else {
        return Ok(None);
    };
    let granted = start::workspace_mode(wanted)?;
    if granted != WorkspaceMode::Copy {
        return Err(Failure {
            code: "checkpoint_needs_copy".to_owned(),
            message: "a session begins from a checkpoint with a copy of it alone".to_owned(),
            hint: "say `workspace = { mode = \"copy\" }`, or leave `--workspace` out".to_owned(),
        });
    }
    let open = CheckpointOrder::Open { name: name.clone() };
    let (about, tree) = match order(desk, open, None).await? {
        (LauncherReply::Checkpoints(mut all), Some(tree)) => (all.pop(), tree),
        _ => return Err(out_of_turn("launcher")),
    };
    let about = about.ok_or_else(|| out_of_turn("launcher"))?;
    if about.owner != caller.uid {
        return Err(Failure {
            code: "checkpoint_not_yours".to_owned(),
            message: format!("the checkpoint `{name}` has another user's files"),
            hint: "run this as the user whose session it was made of".to_owned(),
        });
    }
    Ok(Some(Origin { about, tree }))
}

/// What the new session's changes are compared with is what its forebear's were. Also the proof
/// that the checkpoint was there as long as it was copied.
pub(super) async fn bring_baseline(
    desk: &Desk,
    session: &SessionId,
    origin: &Checkpoint,
) -> Result<(), Failure> {
    let name = origin.name.clone();
    let kept = match order(desk, CheckpointOrder::OpenBaseline { name }, None).await? {
        (LauncherReply::Checkpoints(all), Some(kept)) if all == [origin.clone()] => kept,
        _ => return Err(not_copied("it was replaced while it was copied".to_owned())),
    };
    let copy = || -> anyhow::Result<()> {
        let (mut from, mut to) = (File::from(kept), File::from(desk.baseline(session, true)?));
        let mut piece = vec![0; PIECE_BYTES];
        loop {
            let count = from.read(&mut piece)?;
            let bytes = piece.get(..count).unwrap_or_default();
            if bytes.is_empty() {
                return Ok(());
            }
            to.write_all(bytes)?;
        }
    };
    copy().context("the baseline").map_err(|e| internal(&e))
}

/// Whose a session's workspace is, where it has one that can be kept.
fn check(desk: &Desk, session: &SessionId) -> Result<Peer, Failure> {
    let about = |row: &mut Session| (row.life, row.workspace, row.owner);
    match desk.sessions.with(session, about) {
        Some((Life::Running | Life::Ended(_), mode, owner)) if mode != WorkspaceMode::None => {
            Ok(owner)
        }
        Some((Life::Running | Life::Ended(_), _, _)) => Err(Failure {
            code: "no_workspace_copy".to_owned(),
            message: format!("session `{session}` has no workspace"),
            hint:
                "checkpoints are of sessions with `workspace = { mode = \"copy\" }` or `\"bind\"`"
                    .to_owned(),
        }),
        _ => Err(unknown(session)),
    }
}

async fn make(
    desk: &Rc<Desk>,
    session: &SessionId,
    (name, owner): (&CheckpointName, Peer),
    (tree, room): (&OwnedFd, u64),
) -> Result<Checkpointed, Failure> {
    let fingerprints = start::fingerprints(desk).await?;
    let job = PorterJob::Checkpoint {
        fingerprints,
        bytes_max: room,
    };
    let (copied, is_still) = copy(desk, session, (owner, &job), tree).await?;
    let (mut hidden, left_out, bytes) = match copied {
        PorterReply::Copied {
            hidden,
            left_out,
            bytes,
        } => (hidden, left_out, bytes),
        PorterReply::VaultValue { place, credential } => {
            return Err(front_door::vault_value(&place, &credential));
        }
        PorterReply::Failed { message } => return Err(not_copied(message)),
        PorterReply::Done { .. } | PorterReply::Synced { .. } => return Err(out_of_turn("porter")),
    };
    let left = |place| (place, "special file, left out".to_owned());
    hidden.extend(left_out.into_iter().map(left));
    check_not_killed(desk, session)?;
    let about = Checkpoint {
        name: name.clone(),
        session: session.clone(),
        owner: owner.uid,
        made_at: start::unix_seconds(),
        bytes,
        is_still,
    };
    keep(desk, session, &about).await?;
    Ok(Checkpointed {
        checkpoint: about,
        hidden,
    })
}

/// Recorded first, then kept. Whatever comes between, a kill too, is recorded as its removal.
async fn keep(desk: &Desk, session: &SessionId, about: &Checkpoint) -> Result<(), Failure> {
    let baseline = desk.baseline(session, false).map_err(|e| internal(&e))?;
    let change = CheckpointChange::Keep {
        session: session.clone(),
        checkpoint: about.name.clone(),
        bytes: about.bytes,
    };
    record(desk, change).await?;
    let keep = CheckpointOrder::Keep(about.clone());
    let kept = match check_not_killed(desk, session) {
        Ok(()) => order(desk, keep, Some(baseline)).await.map(|_| ()),
        Err(killed) => Err(killed),
    };
    // A kill may have come while it was kept.
    let kept = kept.and_then(|()| check_not_killed(desk, session));
    if kept.is_err() {
        let checkpoint = about.name.clone();
        record(desk, CheckpointChange::Remove { checkpoint }).await?;
        let name = about.name.clone();
        // One that was not kept is given up by the caller.
        let _ = order(desk, CheckpointOrder::Remove { name }, None).await;
    }
    kept
}

/// Has a porter copy what the session has. Nothing runs in a sandbox that shares its directory with
/// the host meanwhile; a machine's files come out while it runs. True where it was still.
async fn copy(
    desk: &Rc<Desk>,
    session: &SessionId,
    (owner, job): (Peer, &PorterJob),
    tree: &OwnedFd,
) -> Result<(PorterReply, bool), Failure> {
    let is_held = hold_for_copy(desk, session).await?;
    let copied = copy_held(desk, session, (owner, job), tree).await;
    if is_held {
        let_go_after_copy(desk, session).await?;
    }
    copied
}

async fn copy_held(
    desk: &Rc<Desk>,
    session: &SessionId,
    (owner, job): (Peer, &PorterJob),
    tree: &OwnedFd,
) -> Result<(PorterReply, bool), Failure> {
    let source = workspace::changed(desk, session).await?;
    let is_seen = source.is_seen;
    let give = [source.directory.as_fd(), tree.as_fd()];
    let job = (job, source.within.as_ref());
    let porter = porters::run_within(desk, session, owner, job, &give);
    let copied = tokio::time::timeout(COPY_WAIT, porter).await;
    if is_seen {
        transfer::forget(desk, session, Returned::Seen).await;
    } else {
        // It is moved aside before it is emptied: so it was whole as long as it was copied.
        workspace::changed(desk, session).await?;
    }
    match copied {
        Ok(Ok(copied)) => Ok((copied, !is_seen)),
        Ok(Err(error)) => Err(not_copied(format!("{error:#}"))),
        Err(_) => {
            // It would go on writing into a directory that goes.
            let session = session.clone();
            let ended = desk.order(&Order::EndPorters { session }).await;
            ended.map_err(|e| internal(&e))?;
            Err(not_copied("it took longer than 300 s".to_owned()))
        }
    }
}

/// Holds a running sandbox that shares its workspace with the host; true when that was done.
async fn hold_for_copy(desk: &Desk, session: &SessionId) -> Result<bool, Failure> {
    let must_hold = desk.sessions.with(session, |row| {
        let shares = row.life == Life::Running && row.carried.is_none();
        row.is_copied = shares;
        shares
    });
    if must_hold != Some(true) {
        return Ok(false);
    }
    let still = sync::still(desk, session).await;
    still.map_err(|e| internal(&e))?;
    let held = hold(desk, session, true).await;
    if held.is_err() {
        desk.sessions.with(session, |row| row.is_copied = false);
    }
    held.map(|()| true)
}

/// It goes on, unless a person paused it meanwhile or it is over.
async fn let_go_after_copy(desk: &Desk, session: &SessionId) -> Result<(), Failure> {
    let goes_on = desk.sessions.with(session, |row| {
        row.is_copied = false;
        row.life == Life::Running && !row.is_paused
    });
    if goes_on == Some(true) {
        hold(desk, session, false).await?;
    }
    Ok(())
}

fn check_not_killed(desk: &Desk, session: &SessionId) -> Result<(), Failure> {
    match desk.sessions.with(session, |row| row.is_killed) {
        Some(false) => Ok(()),
        Some(true) | None => Err(Failure {
            code: "session_killed".to_owned(),
            message: format!("session `{session}` was killed meanwhile"),
            hint: "nothing of it is kept".to_owned(),
        }),
    }
}

fn not_copied(message: String) -> Failure {
    Failure {
        code: "checkpoint_failed".to_owned(),
        message,
        hint: "nothing was kept; mend that and try again".to_owned(),
    }
}

async fn record(desk: &Desk, change: CheckpointChange) -> Result<(), Failure> {
    let message = |ticket| DeskMessage::Checkpoint { ticket, change };
    match desk.notary.ask(message).await.map_err(|e| internal(&e))? {
        DeskReply::Done { .. } => Ok(()),
        DeskReply::Refused { refusal, .. } => Err(of_refusal(&refusal)),
        _ => Err(out_of_turn("notary")),
    }
}

/// Orders the launcher; what it could not do is a failure.
async fn order(
    desk: &Desk,
    order: CheckpointOrder,
    give: Option<OwnedFd>,
) -> Result<(LauncherReply, Option<OwnedFd>), Failure> {
    let give: Vec<_> = give.iter().map(AsFd::as_fd).collect();
    let request = LauncherRequest::Checkpoint(order);
    let (reply, given) = desk.launcher.ask_for(&request, &give).await?;
    Ok((reply, given.into_iter().next()))
}
