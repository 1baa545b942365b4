// SPDX-License-Identifier: Apache-2.0
//! A session's end, by whichever way. Order of a kill: standing durable, gate's process gone (so
//! nothing leaves), sandbox destroyed, census, and only then `killed` is reported.

use super::session::Life;
use super::start::{internal, of_refusal, out_of_turn};
use super::{Desk, leftovers, sync, transfer, workspace};
use crate::orders::{LauncherReply, LauncherRequest, Order};
use std::collections::BTreeMap;
use std::rc::Rc;
use tokio::time::Instant;
use torno_control_api::request::{Failure, KillReceipt, KilledSession, Summary};
use torno_notary_protocol::desk::{DeskMessage, DeskReply, EndCause};
use torno_policy::grant::WorkspaceMode;
use torno_policy::names::SessionId;

/// Undoes a start that failed. When somebody else ended the session meanwhile, what the start made
/// after that is removed as well.
pub(super) async fn undo(desk: &Rc<Desk>, session: &SessionId) {
    if desk.sessions.with(session, |row| row.life) == Some(Life::Starting) {
        end(desk, session, EndCause::StartFailed).await;
    } else {
        desk.sessions.wait_over(session).await;
        destroy(desk, session).await;
        remove(desk, session, false).await;
    }
}

/// Ends a session in good order, unless somebody is at it already.
pub(super) async fn end(desk: &Rc<Desk>, session: &SessionId, cause: EndCause) {
    if !desk.sessions.begin_ending(session) {
        return;
    }
    let began = Instant::now();
    transfer::bring_at_end(desk, session, cause).await;
    let count = destroy(desk, session).await;
    if desk.sessions.with(session, |row| row.is_killed) == Some(true) {
        // A kill came while its files came out: that is its end.
        let count = count.unwrap_or((0, u32::MAX));
        if let Err(failure) = kill_one(desk, session, (None, count), began).await {
            tracing::error!("kill of {session}: {}", failure.message);
            // Nothing of it stays for that.
            remove(desk, session, false).await;
            desk.sessions.over(session, Life::Killed);
        }
        return;
    }
    let end = |ticket| DeskMessage::End {
        ticket,
        session: session.clone(),
        exit_status: None,
        cause,
    };
    let keep = !matches!(cause, EndCause::StartFailed | EndCause::DiskFull);
    if keep {
        sync::last(desk, session).await;
    }
    // Nobody lives in it any more: what is left on disk can go while the end is written down.
    let (recorded, ()) = tokio::join!(desk.notary.ask(end), remove(desk, session, keep));
    if let Err(error) = recorded {
        tracing::error!("end of {session}: {error:#}");
    }
    if keep {
        workspace::count_changes(desk, session).await;
    }
    desk.sessions.over(session, Life::Ended(cause));
}

/// `torno session stop`, or the end of `torno run`.
pub(super) async fn stop(desk: &Rc<Desk>, session: &SessionId) -> Summary {
    end(desk, session, EndCause::Stopped).await;
    desk.sessions.wait_over(session).await;
    desk.sessions
        .with(session, |row| row.summary())
        .unwrap_or_default()
}

/// Kills one session or all. The first who claims a session's end kills it and writes its receipt;
/// who comes second (a kill goes to desk and supervisor at once) waits for that receipt.
pub(super) async fn kill(
    desk: &Rc<Desk>,
    session: Option<SessionId>,
) -> Result<KillReceipt, Failure> {
    let began = Instant::now();
    let is_of_all = session.is_none();
    let mut killed = desk.sessions.receipts(session.as_ref());
    if !is_of_all && !killed.is_empty() {
        return Ok(KillReceipt { sessions: killed });
    }
    let live = desk.sessions.live().into_iter();
    let targets: Vec<_> = live
        .filter(|id| session.as_ref().is_none_or(|s| s == id))
        .collect();
    // Claimed before anything is waited for, so that no other end comes between.
    let mut targets: Vec<_> = targets
        .into_iter()
        .map(|id| (desk.sessions.begin_ending(&id), id))
        .collect();
    let recorded = record_kill(desk, session).await;
    // Whose start reached the notary meanwhile is killed there, and so is killed here.
    for (id, _) in recorded.iter().flat_map(|recorded| &recorded.writes) {
        let is_new = targets.iter().all(|(_, target)| target != id);
        if is_new && desk.sessions.begin_ending(id) {
            targets.push((true, id.clone()));
        }
    }
    // Everything is cut before anything is cleaned up: no session waits for another's files.
    let mut counts = BTreeMap::new();
    for (first, id) in &targets {
        desk.sessions.with(id, |row| row.is_killed = true);
        if !first {
            // Somebody else's end may still be bringing files out.
            cut(desk, id).await;
            continue;
        }
        counts.insert(id.clone(), destroy(desk, id).await.unwrap_or((0, u32::MAX)));
        end_porters(desk, id).await;
    }
    if is_of_all && let Err(error) = desk.launcher.ask(&LauncherRequest::GiveUpSpares, &[]).await {
        tracing::error!("sandboxes made ahead: {error:#}");
    }
    for (first, id) in targets {
        if first {
            let count = counts.remove(&id).unwrap_or((0, u32::MAX));
            killed.push(kill_one(desk, &id, (recorded.as_ref().ok(), count), began).await?);
        } else {
            desk.sessions.wait_over(&id).await;
            let mut told = desk.sessions.receipts(Some(&id));
            if let Ok(recorded) = &recorded {
                told.iter_mut().for_each(|receipt| recorded.tell(receipt));
            }
            killed.extend(told);
        }
    }
    // What could be cut is cut; that it could not be recorded is said now.
    recorded.map(|_| KillReceipt { sessions: killed })
}

/// What the notary says of a kill.
struct Recorded {
    writes: Vec<(SessionId, u64)>,
    placeholders: u32,
}

impl Recorded {
    /// What only the notary knows of a session's end.
    fn tell(&self, receipt: &mut KilledSession) {
        let writes = self.writes.iter().find(|(id, _)| *id == receipt.session);
        receipt.placeholders = self.placeholders;
        receipt.credentialed_writes = writes.map_or(0, |(_, count)| *count);
    }
}

/// Standing first, durably.
async fn record_kill(desk: &Desk, session: Option<SessionId>) -> Result<Recorded, Failure> {
    let kill = |ticket| DeskMessage::Kill { ticket, session };
    match desk.notary.ask(kill).await.map_err(|e| internal(&e))? {
        DeskReply::KillRecorded {
            credentialed_writes,
            placeholders,
            ..
        } => Ok(Recorded {
            writes: credentialed_writes,
            placeholders,
        }),
        DeskReply::Refused { refusal, .. } => Err(of_refusal(&refusal)),
        _ => Err(out_of_turn("notary")),
    }
}

/// Its processes are gone: record, removal; then the session is killed.
async fn kill_one(
    desk: &Desk,
    id: &SessionId,
    (recorded, (processes, survivors)): (Option<&Recorded>, (u32, u32)),
    began: Instant,
) -> Result<KilledSession, Failure> {
    let mut leftovers = Vec::new();
    if survivors != 0 {
        leftovers.push("the launcher could not prove that every process is gone".to_owned());
    }
    let session = id.clone();
    let said = leftovers.clone();
    let note = |ticket| DeskMessage::Killed {
        ticket,
        session,
        processes,
        leftovers: said,
    };
    desk.notary.ask(note).await.map_err(|e| internal(&e))?;
    remove(desk, id, false).await;
    let mut receipt = KilledSession {
        session: id.clone(),
        processes,
        survivors,
        placeholders: 0,
        credentialed_writes: 0,
        leftovers,
        took_ms: u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
    };
    if let Some(recorded) = recorded {
        recorded.tell(&mut receipt);
    }
    desk.sessions.with(id, |row| {
        row.receipt = Some((Instant::now(), receipt.clone()))
    });
    desk.sessions.over(id, Life::Killed);
    Ok(receipt)
}

/// Gate and porters of a session that ends by itself, when a kill comes meanwhile.
async fn cut(desk: &Desk, session: &SessionId) {
    let end = Order::EndGate {
        session: session.clone(),
    };
    if let Err(error) = desk.order(&end).await {
        tracing::error!("gate of {session}: {error:#}");
    }
    end_porters(desk, session).await;
}

/// Nothing of a killed session goes on being copied in or brought back.
async fn end_porters(desk: &Desk, session: &SessionId) {
    // One that is being ordered is ordered by now.
    drop(desk.spawning.lock().await);
    let session = session.clone();
    if let Err(error) = desk.order(&Order::EndPorters { session }).await {
        tracing::error!("porters: {error:#}");
    }
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
    desk.brains.borrow_mut().retain(|_, owner| owner != session);
    let copy = desk
        .sessions
        .with(session, |row| row.workspace != WorkspaceMode::None);
    let keep_workspace = keep && copy.unwrap_or(false);
    if !keep_workspace {
        desk.forget_baseline(session);
    }
    let request = LauncherRequest::Remove {
        session: session.clone(),
        keep_workspace,
    };
    // Before it is asked: whose copy is kept after that is no part of the answer.
    let living = desk.sessions.live();
    match desk.launcher.ask(&request, &[]).await {
        Ok((LauncherReply::Failed { message, .. }, _)) => {
            tracing::error!("removal of {session}: {message}");
        }
        Ok((LauncherReply::Kept(kept), _)) => leftovers::forget_baselines(desk, (kept, living)),
        Ok(_) => {}
        Err(error) => tracing::error!("removal of {session}: {error:#}"),
    }
}
