// SPDX-License-Identifier: Apache-2.0
//! One command in a session: `run`, `session exec` and `session attach` share it.

use crate::context::note;
use crate::desk::{Desk, unexpected};
use crate::printable;
use crate::relay::{Ended, Manner, relay};
use crate::stop::{KILLED, Outcome, Stop};
use crate::terminal;
use std::os::fd::OwnedFd;
use torno_control_api::request::{ApiReply, ApiRequest, Exec};
use torno_policy::names::SessionId;

/// A command to run.
#[derive(Debug)]
pub(crate) struct Wanted {
    /// The argument vector.
    pub(crate) argv: Vec<String>,
    /// Environment for it alone.
    pub(crate) env: Vec<(String, String)>,
    /// Its working directory inside.
    pub(crate) cwd: Option<String>,
    /// No filter before our terminal.
    pub(crate) raw: bool,
}

/// Starts a command, carries its streams, and gives the exit code.
pub(crate) async fn execute(desk: &Desk, session: &SessionId, wanted: Wanted) -> Outcome<u8> {
    let terminal = terminal::is_conversation();
    let exec = Exec {
        session: session.clone(),
        argv: wanted.argv,
        env: wanted.env,
        cwd: wanted.cwd,
        terminal: terminal.then(terminal::size),
    };
    let (reply, streams) = desk.ask(&ApiRequest::Exec(Box::new(exec)), &[]).await?;
    let raw = wanted.raw;
    carry(desk, session, (reply, streams), Manner { terminal, raw }).await
}

/// Attaches to a running command. It has a terminal or not; ours goes into raw mode when it is one.
pub(crate) async fn attach(desk: &Desk, session: &SessionId, exec: u64, raw: bool) -> Outcome<u8> {
    let request = ApiRequest::Attach {
        session: session.clone(),
        exec,
    };
    let reply = desk.ask(&request, &[]).await?;
    let terminal = terminal::is_conversation();
    carry(desk, session, reply, Manner { terminal, raw }).await
}

async fn carry(
    desk: &Desk,
    session: &SessionId,
    (reply, streams): (ApiReply, Vec<OwnedFd>),
    manner: Manner,
) -> Outcome<u8> {
    let ApiReply::ExecStarted { .. } = reply else {
        return Err(unexpected(&reply));
    };
    let Ok([stream]) = <[OwnedFd; 1]>::try_from(streams) else {
        return Err(Stop::new("the desk sent no stream for the command")
            .next("run the torno and tornod of one release"));
    };
    let ended = relay(stream, manner).await?;
    match &ended {
        Ended::Failed(code, message) => {
            note(&format!(
                "torno: {} ({})\n",
                printable::line(message),
                printable::line(code)
            ));
        }
        Ended::Lost => return Err(why_lost(desk, session).await),
        Ended::Status(_) | Ended::OutputClosed | Ended::Left(_) => {}
    }
    Ok(ended.exit())
}

/// A gate that is gone took the stream with it: the desk knows why.
async fn why_lost(desk: &Desk, session: &SessionId) -> Stop {
    let rows = desk.sessions(Some(session.clone())).await;
    let state = match &rows {
        Ok(rows) => rows.first().map_or("gone", |row| row.state.as_str()),
        Err(stop) if stop.exit != crate::stop::REFUSED => return killed(stop.exit),
        Err(_) => "unknown",
    };
    if state == "killed" {
        return killed(KILLED);
    }
    Stop::new(format!(
        "the command's stream broke off; the session is {}",
        printable::line(state)
    ))
    .next("look at `torno audit tail` for what happened")
}

fn killed(exit: u8) -> Stop {
    let what = if exit == KILLED {
        "the session was killed"
    } else {
        "the session reached its time limit"
    };
    Stop::new(what).code("session_killed").exit(exit)
}
