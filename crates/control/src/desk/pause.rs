// SPDX-License-Identifier: Apache-2.0
//! A person holds a session still, and lets it go on (decision 0057).
//!
//! ```text
//!             notary: may nothing, streams cut, recorded ──▶ launcher: processes stand still
//!   running                                                                          paused
//!             launcher: processes go on ◀── notary: recorded, may again
//! ```
//! Nothing leaves from the first step of a pause to the last but one of a resume. An end or a kill
//! waits for neither.

use super::session::{Life, Session};
use super::start::{internal, of_refusal, out_of_turn};
use super::{Desk, sync};
use crate::orders::{LauncherReply, LauncherRequest};
use std::rc::Rc;
use torno_control_api::request::Failure;
use torno_notary_protocol::desk::{DeskMessage, DeskReply};
use torno_notary_protocol::gate::Ticket;
use torno_policy::decision::Reason;
use torno_policy::names::SessionId;

/// Holds a session still. One that is paused already stays so.
pub(super) async fn pause(desk: &Desk, session: &SessionId) -> Result<(), Failure> {
    let turn = turn(desk, session)?;
    let _turn = turn.lock().await;
    let entered = desk.sessions.with(session, |row| {
        let is_running = row.life == Life::Running;
        row.is_paused |= is_running;
        is_running
    });
    if entered != Some(true) {
        return Err(unknown(session));
    }
    let recorded = tell(desk, |ticket| DeskMessage::Pause {
        ticket,
        session: session.clone(),
    });
    let recorded = match recorded.await {
        // It may nothing all the same, so the rest is done before that is said.
        Err(failure) if failure.code == Reason::RecordUnavailable.code() => Err(failure),
        Err(failure) => {
            desk.sessions.with(session, |row| row.is_paused = false);
            return Err(failure);
        }
        told => told,
    };
    let still = sync::still(desk, session).await;
    still.map_err(|e| internal(&e))?;
    // INVARIANT: between this look and the order nobody else's is sent; an end lets it go after.
    if desk.sessions.with(session, |row| row.life) == Some(Life::Running) {
        hold(desk, session, true).await?;
    }
    recorded
}

/// Lets a paused session go on. What a tripwire froze stays frozen.
pub(super) async fn resume(desk: &Desk, session: &SessionId) -> Result<(), Failure> {
    let turn = turn(desk, session)?;
    let _turn = turn.lock().await;
    check_running(desk, session)?;
    if desk.sessions.with(session, |row| row.is_paused) != Some(true) {
        return Err(Failure {
            code: "session_not_paused".to_owned(),
            message: format!("session `{session}` is not paused"),
            hint: "`torno session list` shows which are".to_owned(),
        });
    }
    tell(desk, |ticket| DeskMessage::Resume {
        ticket,
        session: session.clone(),
    })
    .await?;
    let resumed = desk.sessions.with(session, |row| {
        let is_running = row.life == Life::Running;
        // One that ends meanwhile is let go by its end.
        if is_running {
            row.resumed();
        }
        (is_running, row.is_copied)
    });
    match resumed {
        Some((true, false)) => {}
        // Its copying lets it go.
        Some((true, true)) => return Ok(()),
        Some((false, _)) | None => return Err(unknown(session)),
    }
    let held = hold(desk, session, false).await;
    if held.is_err() {
        // It can be tried again.
        desk.sessions.with(session, |row| row.is_paused = true);
    }
    held
}

/// The agent of a machine that ends has work to do yet. Its way out is closed by now, and the
/// notary allows it nothing.
pub(super) async fn let_go(desk: &Desk, session: &SessionId) -> Result<(), Failure> {
    if desk.sessions.with(session, |row| row.is_paused) == Some(true) {
        hold(desk, session, false).await?;
    }
    Ok(())
}

/// Refuses what a paused session can't do.
pub(super) fn check_awake(desk: &Desk, session: &SessionId) -> Result<(), Failure> {
    if desk.sessions.with(session, |row| row.is_paused) == Some(true) {
        return Err(paused(session));
    }
    Ok(())
}

/// What is said of a paused session.
pub(super) fn paused(session: &SessionId) -> Failure {
    Failure {
        code: Reason::SessionPaused.code().to_owned(),
        message: format!("session `{session}` is paused"),
        hint: format!("`torno session resume {session}` goes on with it"),
    }
}

fn turn(desk: &Desk, session: &SessionId) -> Result<Rc<tokio::sync::Mutex<()>>, Failure> {
    let turn = |row: &mut Session| Rc::clone(&row.pausing);
    let turn = desk.sessions.with(session, turn);
    turn.ok_or_else(|| unknown(session))
}

fn check_running(desk: &Desk, session: &SessionId) -> Result<(), Failure> {
    match desk.sessions.with(session, |row| row.life) {
        Some(Life::Running) => Ok(()),
        _ => Err(unknown(session)),
    }
}

/// Has the notary change what the session may.
async fn tell(desk: &Desk, message: impl FnOnce(Ticket) -> DeskMessage) -> Result<(), Failure> {
    match desk.notary.ask(message).await.map_err(|e| internal(&e))? {
        DeskReply::Done { .. } => Ok(()),
        DeskReply::Refused { refusal, .. } => Err(of_refusal(&refusal)),
        _ => Err(out_of_turn("notary")),
    }
}

/// Has the launcher hold its processes, or let them go on.
pub(super) async fn hold(desk: &Desk, session: &SessionId, held: bool) -> Result<(), Failure> {
    let session = session.clone();
    let request = LauncherRequest::Hold { session, held };
    match desk.launcher.ask_for(&request, &[]).await?.0 {
        LauncherReply::Held => Ok(()),
        _ => Err(out_of_turn("launcher")),
    }
}

/// What is said of a session that does not run.
pub(super) fn unknown(session: &SessionId) -> Failure {
    Failure {
        code: "session_unknown".to_owned(),
        message: format!("no session `{session}` is running"),
        hint: "`torno session list` shows the running ones".to_owned(),
    }
}
