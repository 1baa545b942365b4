// SPDX-License-Identifier: Apache-2.0
//! Results come back under a person's eye: `diff`, `apply` and `commits` of a workspace copy, by a
//! porter.
//! What the porter writes goes to the client by a pipe that the desk only passes on.

use super::session::{Life, Session};
use super::start::internal;
use super::{Desk, porters, transfer};
use crate::orders::{LauncherReply, LauncherRequest, Order, PorterJob, PorterReply, Returned};
use anyhow::{Context, anyhow};
use rustix::pipe::{PipeFlags, pipe_with};
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::time::Duration;
use torno_control_api::channel::Peer;
use torno_control_api::request::Failure;
use torno_policy::grant::WorkspaceMode;
use torno_policy::names::SessionId;

/// LIMIT: an end waits so long for the number of its changes: a sparse file has no end of its own.
const COUNT_WAIT: Duration = Duration::from_secs(60);

/// Starts the job and returns the pipe's reading end at once: a long diff streams.
pub(super) async fn stream(
    desk: &Rc<Desk>,
    caller: Peer,
    session: &SessionId,
    original: Option<OwnedFd>,
    job: PorterJob,
) -> Result<OwnedFd, Failure> {
    let copy = desk
        .sessions
        .with(session, |row| row.workspace != WorkspaceMode::None);
    if copy.is_none() {
        return Err(Failure {
            code: "session_unknown".to_owned(),
            message: format!("there is no session `{session}`"),
            hint: "`torno session list`; copies of sessions are gone once tornod has ended"
                .to_owned(),
        });
    }
    if copy != Some(true) {
        return Err(Failure {
            code: "no_workspace_copy".to_owned(),
            message: format!("session `{session}` has no workspace"),
            hint:
                "diff, apply and commits work for sessions with `workspace = { mode = \"copy\" }` \
                   or `\"bind\"`"
                    .to_owned(),
        });
    }
    let baseline = desk.baseline(session, false).map_err(|e| internal(&e))?;
    let (reader, writer) = pipe_with(PipeFlags::CLOEXEC)
        .context("pipe")
        .map_err(|e| internal(&e))?;
    // Last: what is brought out to be looked at goes by the task below.
    let changed = changed(desk, session).await?;
    let (desk, session) = (Rc::clone(desk), session.clone());
    tokio::task::spawn_local(async move {
        let Opened {
            directory,
            within,
            is_seen,
        } = changed;
        let give = match &original {
            Some(original) => vec![
                original.as_fd(),
                directory.as_fd(),
                baseline.as_fd(),
                writer.as_fd(),
            ],
            None => vec![directory.as_fd(), writer.as_fd()],
        };
        let job = (&job, within.as_ref());
        if let Err(error) = porters::run_within(&desk, &session, caller, job, &give).await {
            tracing::error!("porter: {error:#}");
        }
        if is_seen {
            transfer::forget(&desk, &session, Returned::Seen).await;
        }
    });
    Ok(reader)
}

/// What a session has in its workspace.
pub(super) struct Opened {
    pub(super) directory: OwnedFd,
    /// The user namespace in which its files have owners, where that is not the host's.
    pub(super) within: Option<OwnedFd>,
    /// It was brought out to be looked at once.
    pub(super) is_seen: bool,
}

/// Opens it.
pub(super) async fn changed(desk: &Desk, session: &SessionId) -> Result<Opened, Failure> {
    let about = |row: &mut Session| (row.carried.is_some(), row.life);
    let known = desk.sessions.with(session, about);
    if known == Some((true, Life::Ending)) {
        // What it changed is on its way.
        desk.sessions.wait_over(session).await;
    }
    let lost = desk.sessions.with(session, |row| row.left_inside.clone());
    if let Some(why) = lost.flatten() {
        return Err(transfer::not_brought(session, &why));
    }
    if known == Some((true, Life::Running)) {
        return Ok(Opened {
            directory: transfer::bring_seen(desk, session).await?,
            within: None,
            is_seen: true,
        });
    }
    open(desk, session).await
}

/// Opens the copy that lies on the host.
pub(super) async fn open(desk: &Desk, session: &SessionId) -> Result<Opened, Failure> {
    let open = LauncherRequest::OpenWorkspace {
        session: session.clone(),
    };
    let (reply, given) = desk.launcher.ask_for(&open, &[]).await?;
    let mut given = given.into_iter();
    let directory = match reply {
        LauncherReply::Workspace => given.next(),
        _ => None,
    };
    Ok(Opened {
        directory: directory.ok_or_else(|| internal(&anyhow!("no workspace directory came")))?,
        within: given.next(),
        is_seen: false,
    })
}

/// Counts what an ended session changed in its copy, for its summary. A count that fails is 0 and
/// said in the log: the end of a session does not depend on it.
pub(super) async fn count_changes(desk: &Rc<Desk>, session: &SessionId) {
    let about = desk
        .sessions
        .with(session, |row| (row.workspace, row.owner));
    let Some((WorkspaceMode::Copy | WorkspaceMode::Bind, owner)) = about else {
        return;
    };
    let count = async || -> anyhow::Result<u32> {
        let changed = open(desk, session).await.map_err(|e| anyhow!(e.message))?;
        let baseline = desk.baseline(session, false)?;
        let give = [changed.directory.as_fd(), baseline.as_fd()];
        let job = (&PorterJob::Count, changed.within.as_ref());
        let porter = porters::run_within(desk, session, owner, job, &give);
        let Ok(reply) = tokio::time::timeout(COUNT_WAIT, porter).await else {
            let session = session.clone();
            desk.order(&Order::EndPorters { session }).await?;
            anyhow::bail!("they were not counted in {} s", COUNT_WAIT.as_secs());
        };
        match reply? {
            PorterReply::Done { changed } => Ok(changed),
            other => anyhow::bail!("{other:?}"),
        }
    };
    match count().await {
        Ok(changed) => {
            desk.sessions
                .with(session, |row| row.files_changed = changed);
        }
        Err(error) => tracing::error!("changes of {session}: {error:#}"),
    }
}
