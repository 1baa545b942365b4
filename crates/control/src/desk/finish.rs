// SPDX-License-Identifier: Apache-2.0
//! A session's end, by whichever way. Order of a kill: standing durable, gate's process gone (so
//! nothing leaves), sandbox destroyed, census, and only then `killed` is reported.

use super::Desk;
use super::session::Life;
use super::start::internal;
use crate::orders::{LauncherReply, LauncherRequest, Order};
use std::rc::Rc;
use torno_control_api::request::{Failure, KillReceipt, KilledSession, Summary};
use torno_notary_protocol::desk::{DeskMessage, DeskReply, EndCause};
use torno_policy::grant::WorkspaceMode;
use torno_policy::names::SessionId;

/// Undoes a start that failed.
pub(super) async fn undo(desk: &Rc<Desk>, session: &SessionId) {
    end(desk, session, EndCause::StartFailed).await;
}

/// Ends a session in good order, unless somebody is at it already.
pub(super) async fn end(desk: &Rc<Desk>, session: &SessionId, cause: EndCause) {
    if !desk.sessions.begin_ending(session) {
        return;
    }
    destroy(desk, session).await;
    let end = |ticket| DeskMessage::End {
        ticket,
        session: session.clone(),
        exit_status: None,
        cause,
    };
    if let Err(error) = desk.notary.ask(end).await {
        tracing::error!("end of {session}: {error:#}");
    }
    remove(desk, session, cause != EndCause::StartFailed).await;
    desk.sessions.over(session, Life::Ended(cause));
}

/// `torno session stop`, or the end of `torno run`.
pub(super) async fn stop(desk: &Rc<Desk>, session: &SessionId) -> Summary {
    let summary = desk
        .sessions
        .with(session, |row| row.summary())
        .unwrap_or_default();
    end(desk, session, EndCause::Stopped).await;
    desk.sessions.wait_over(session).await;
    summary
}

/// Kills one session or all.
pub(super) async fn kill(
    desk: &Rc<Desk>,
    session: Option<SessionId>,
) -> Result<KillReceipt, Failure> {
    let began = tokio::time::Instant::now();
    let kill = |ticket| DeskMessage::Kill {
        ticket,
        session: session.clone(),
    };
    let reply = desk.notary.ask(kill).await.map_err(|e| internal(&e))?;
    let (sessions, writes, placeholders) = match reply {
        DeskReply::KillRecorded {
            sessions,
            credentialed_writes,
            placeholders,
            ..
        } => (sessions, credentialed_writes, placeholders),
        DeskReply::Refused { refusal, .. } => return Err(super::start::of_refusal(&refusal)),
        _ => return Err(super::start::out_of_turn("notary")),
    };
    // Whatever the notary had to change, the live ones that were asked for go.
    let live = desk.sessions.live().into_iter();
    let mut targets: Vec<_> = live
        .filter(|id| session.as_ref().is_none_or(|s| s == id))
        .collect();
    targets.extend(sessions);
    targets.sort();
    targets.dedup();
    for id in &targets {
        desk.order(&Order::EndGate {
            session: id.clone(),
        })
        .await
        .map_err(|e| internal(&e))?;
    }
    let mut killed = Vec::new();
    for id in targets {
        let first = desk.sessions.begin_ending(&id);
        let census = destroy(desk, &id).await;
        let (before, after) = census.unwrap_or((0, u32::MAX));
        let mut leftovers = Vec::new();
        if after != 0 {
            leftovers.push("the launcher could not prove that every process is gone".to_owned());
        }
        let note = |ticket| DeskMessage::Killed {
            ticket,
            session: id.clone(),
            processes: before,
            leftovers: leftovers.clone(),
        };
        desk.notary.ask(note).await.map_err(|e| internal(&e))?;
        if first {
            remove(desk, &id, false).await;
            desk.sessions.over(&id, Life::Killed);
        } else {
            desk.sessions.wait_over(&id).await;
        }
        let of_session = writes.iter().find(|(s, _)| *s == id);
        killed.push(KilledSession {
            session: id,
            processes: before,
            survivors: after,
            placeholders,
            credentialed_writes: of_session.map_or(0, |(_, count)| *count),
            leftovers,
            took_ms: u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
        });
    }
    Ok(KillReceipt { sessions: killed })
}

/// Gate gone, every process of the sandbox gone: the census before and after, when there was one.
async fn destroy(desk: &Desk, session: &SessionId) -> Option<(u32, u32)> {
    if let Err(error) = desk
        .order(&Order::EndGate {
            session: session.clone(),
        })
        .await
    {
        tracing::error!("gate of {session}: {error:#}");
    }
    let request = LauncherRequest::Kill {
        session: session.clone(),
    };
    match desk.launcher.ask(&request, &[]).await {
        Ok((LauncherReply::Killed { before, after }, _)) => Some((before, after)),
        Ok((LauncherReply::Failed { message, .. }, _)) => {
            tracing::error!("sandbox of {session}: {message}");
            None
        }
        Ok(_) => None,
        Err(error) => {
            tracing::error!("sandbox of {session}: {error:#}");
            None
        }
    }
}

/// Removes what is left on disk; a workspace copy may stay for `diff` and `apply`.
async fn remove(desk: &Desk, session: &SessionId, keep: bool) {
    let copy = desk
        .sessions
        .with(session, |row| row.workspace == WorkspaceMode::Copy);
    let keep_workspace = keep && copy.unwrap_or(false);
    let request = LauncherRequest::Remove {
        session: session.clone(),
        keep_workspace,
    };
    match desk.launcher.ask(&request, &[]).await {
        Ok((LauncherReply::Failed { message, .. }, _)) => {
            tracing::error!("removal of {session}: {message}");
        }
        Ok(_) => {}
        Err(error) => tracing::error!("removal of {session}: {error:#}"),
    }
}
