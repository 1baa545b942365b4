// SPDX-License-Identifier: Apache-2.0
//! A bound workspace: the sandbox has a copy of the person's directory, and porters keep the two
//! alike, a round every few seconds, one after each command, and one when the session ends. A mount
//! of the directory itself could not keep its file rules: what a program on the host renames onto a
//! covered file takes the cover away, in the sandbox too (decision 0065).

use super::session::{Life, Session};
use super::start::fingerprints;
use super::{Desk, porters, workspace};
use crate::orders::{Order, PorterJob, PorterReply, SyncRules};
use anyhow::{Context, anyhow, bail};
use rustix::fs::{MemfdFlags, SeekFrom, memfd_create, seek};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::{Mutex, Notify};
use tokio::time::{Instant, timeout};
use torno_notary_protocol::desk::{DeskMessage, SessionNote};
use torno_policy::grant::{FileRules, SandboxGrant};
use torno_policy::names::SessionId;

/// Between two rounds, unless a command ends.
const PAUSE: Duration = Duration::from_secs(2);
/// A round that takes long comes seldom: porters have a tenth of a processor.
const PAUSE_ROUNDS: u32 = 10;
/// LIMIT: one round, of a directory that answers.
const ROUND_WAIT: Duration = Duration::from_secs(300);
/// LIMIT: places that were kept out, written down for one session.
const NOTED_MAX: usize = 512;

/// A bound workspace.
#[derive(Clone)]
pub(super) struct Bound {
    /// The person's directory.
    original: Rc<OwnedFd>,
    files: FileRules,
    bytes_max: u64,
    /// What the last round knew of files by their looks.
    known: Rc<RefCell<Option<OwnedFd>>>,
    /// What was kept out and is written down.
    noted: Rc<RefCell<BTreeSet<(String, String)>>>,
    /// One round at a time.
    turn: Rc<Mutex<()>>,
    command_ended: Rc<Notify>,
}

impl Bound {
    pub(super) fn new(original: OwnedFd, shape: &SandboxGrant) -> Self {
        Self {
            original: Rc::new(original),
            files: shape.files.clone(),
            bytes_max: shape.limits.disk_bytes,
            known: Rc::default(),
            noted: Rc::default(),
            turn: Rc::default(),
            command_ended: Rc::default(),
        }
    }

    /// The next round comes now.
    pub(super) fn command_ended(&self) {
        self.command_ended.notify_one();
    }
}

/// Keeps the two alike while the session runs.
pub(super) fn begin(desk: &Rc<Desk>, session: &SessionId) {
    let bound = desk.sessions.with(session, |row| row.bound.clone());
    let Some(bound) = bound.flatten() else { return };
    let (desk, session) = (Rc::clone(desk), session.clone());
    tokio::task::spawn_local(async move {
        let mut pause = PAUSE;
        let mut said = String::new();
        loop {
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = bound.command_ended.notified() => {}
                () = desk.sessions.wait_over(&session) => return,
            }
            let began = Instant::now();
            if let Err(error) = now(&desk, &session).await {
                let now = format!("{error:#}");
                if said != now {
                    tracing::warn!("workspace of {session}: {now}");
                    said = now;
                }
            }
            pause = PAUSE.max(began.elapsed().saturating_mul(PAUSE_ROUNDS));
        }
    });
}

/// Before a command: it has what the person saved last. A round that fails keeps nobody from work.
pub(super) async fn before_command(desk: &Desk, session: &SessionId) {
    if let Err(error) = now(desk, session).await {
        tracing::warn!("workspace of {session}: {error:#}");
    }
}

/// Whether nothing may be moved.
fn is_held(row: &Session) -> bool {
    row.is_paused || row.is_copied || row.is_frozen
}

/// A round, while the session runs and nothing holds it.
async fn now(desk: &Desk, session: &SessionId) -> anyhow::Result<()> {
    let may = |row: &mut Session| {
        let runs = row.life == Life::Running;
        row.bound.clone().filter(|_| runs && !is_held(row))
    };
    match desk.sessions.with(session, may).flatten() {
        Some(bound) => round(desk, session, &bound, false).await,
        None => Ok(()),
    }
}

/// The last round, once nothing runs inside. Of a session that a tripwire froze nothing goes out by
/// itself: what it changed waits in its copy.
pub(super) async fn last(desk: &Desk, session: &SessionId) {
    let bound = |row: &mut Session| row.bound.take();
    let Some(bound) = desk.sessions.with(session, bound).flatten() else {
        return;
    };
    if let Err(error) = round(desk, session, &bound, true).await {
        tracing::error!("workspace of {session}: {error:#}; it waits in its copy");
    }
}

/// Whoever forbade rounds waits here until none goes on: what is under way is ended.
pub(super) async fn still(desk: &Desk, session: &SessionId) -> anyhow::Result<()> {
    let bound = desk.sessions.with(session, |row| row.bound.clone());
    let Some(bound) = bound.flatten() else {
        return Ok(());
    };
    if bound.turn.try_lock().is_err() {
        // One that is being ordered is ordered by now.
        drop(desk.spawning.lock().await);
        let session = session.clone();
        desk.order(&Order::EndPorters { session }).await?;
    }
    drop(bound.turn.lock().await);
    Ok(())
}

async fn round(
    desk: &Desk,
    session: &SessionId,
    bound: &Bound,
    thorough: bool,
) -> anyhow::Result<()> {
    let _turn = bound.turn.lock().await;
    // It may have been forbidden while another one went on.
    let may = |row: &mut Session| {
        let runs = row.life == Life::Running && !is_held(row);
        runs || (thorough && !row.is_frozen)
    };
    if desk.sessions.with(session, may) != Some(true) {
        return Ok(());
    }
    let fingerprints = fingerprints(desk).await.map_err(|e| anyhow!(e.message))?;
    let owner = desk.sessions.with(session, |row| row.owner);
    let owner = owner.context("the session is gone")?;
    let copy = workspace::open(desk, session).await;
    let copy = copy.map_err(|e| anyhow!(e.message))?;
    let (agreed, agreed_next) = (desk.baseline(session, false)?, desk.next_baseline(session)?);
    let known = match bound.known.borrow_mut().take() {
        Some(known) => known,
        None => memory()?,
    };
    seek(&known, SeekFrom::Start(0))?;
    let known_next = memory()?;
    let job = PorterJob::Sync(SyncRules {
        fingerprints,
        bytes_max: bound.bytes_max,
        files: bound.files.clone(),
        thorough,
    });
    let give = [
        bound.original.as_fd(),
        copy.directory.as_fd(),
        agreed.as_fd(),
        agreed_next.as_fd(),
        known.as_fd(),
        known_next.as_fd(),
    ];
    let job = (&job, copy.within.as_ref());
    let porter = porters::run_within(desk, session, owner, job, &give);
    let Ok(reply) = timeout(ROUND_WAIT, porter).await else {
        let session = session.clone();
        desk.order(&Order::EndPorters { session }).await?;
        bail!("a round took longer than 300 s");
    };
    match reply? {
        PorterReply::Synced {
            inward,
            outward,
            held,
            hidden,
        } => {
            desk.take_next_baseline(session)?;
            *bound.known.borrow_mut() = Some(known_next);
            tracing::debug!("{session}: {inward} in, {outward} out, {held} held");
            note(desk, session, bound, hidden).await
        }
        PorterReply::Failed { message } => bail!(message),
        other => bail!("the porter answered out of turn: {other:?}"),
    }
}

/// What was kept out is written down once.
async fn note(
    desk: &Desk,
    session: &SessionId,
    bound: &Bound,
    hidden: Vec<(String, String)>,
) -> anyhow::Result<()> {
    for (place, shape) in hidden {
        let is_new = {
            let mut noted = bound.noted.borrow_mut();
            noted.len() < NOTED_MAX && noted.insert((place.clone(), shape.clone()))
        };
        if is_new {
            let note = SessionNote::Hidden { place, shape };
            let session = session.clone();
            desk.notary
                .tell(&DeskMessage::Note { session, note })
                .await?;
        }
    }
    Ok(())
}

/// A file that is nobody's but ours and a porter's.
fn memory() -> anyhow::Result<OwnedFd> {
    memfd_create("torno-known", MemfdFlags::CLOEXEC).context("memory")
}
