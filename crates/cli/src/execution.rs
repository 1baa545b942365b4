// SPDX-License-Identifier: Apache-2.0
//! One command in a session: `run`, `session exec` and `session attach` share it.

use crate::context::note;
use crate::desk::{Desk, unexpected};
use crate::printable;
use crate::relay::{Ended, Manner, relay};
use crate::stop::{KILLED, Outcome, REFUSED, Stop, TIME_LIMIT};
use crate::terminal;
use std::os::fd::OwnedFd;
use std::time::Duration;
use torno_control_api::request::{ApiReply, ApiRequest, Exec};
use torno_policy::names::SessionId;

/// LIMIT: a kill and a time limit are over within this; after it the state is told as it is.
const END_WAIT: Duration = Duration::from_secs(10);
/// LIMIT: between two looks at a session that ends.
const LOOK_EVERY: Duration = Duration::from_millis(20);

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

/// A gate that is gone took the stream with it: the desk knows why, once the session is over.
async fn why_lost(desk: &Desk, session: &SessionId) -> Stop {
    let end = tokio::time::Instant::now() + END_WAIT;
    let mut state = String::from("unknown");
    while tokio::time::Instant::now() < end {
        let rows = desk.sessions(Some(session.clone())).await;
        let row = match rows {
            Ok(rows) => rows.into_iter().next(),
            Err(stop) if stop.exit != REFUSED => return over(stop.exit),
            Err(_) => break,
        };
        let Some(row) = row else { break };
        match (row.state.as_str(), row.cause.as_deref()) {
            ("killed", _) => return over(KILLED),
            ("ended", Some("time_limit")) => return over(TIME_LIMIT),
            ("ended", Some("disk_limit")) => return disk_limit(),
            ("ended", Some("disk_full")) => return disk_full(),
            ("ended", cause) => {
                state = format!("ended ({})", cause.unwrap_or("no cause given"));
                break;
            }
            (other, _) => other.clone_into(&mut state),
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
    Stop::new(format!(
        "the command's stream broke off; the session is {}",
        printable::line(&state)
    ))
    .code("stream_lost")
    .next("look at `torno audit tail` for what happened")
}

fn disk_limit() -> Stop {
    Stop::new("the session wrote more into its workspace than limits.disk allows and was ended")
        .code("disk_limit")
        .next("raise `disk` in [sandbox] limits; `torno session diff` shows what it had made")
}

fn disk_full() -> Stop {
    Stop::new("the disk ran low; this session held most of it and was ended, its copy removed")
        .code("disk_full")
        .next("free space, or put Torno's state on a larger file system")
}

fn over(exit: u8) -> Stop {
    let (what, code) = if exit == KILLED {
        ("the session was killed", "session_killed")
    } else {
        ("the session reached its time limit", "time_limit")
    };
    Stop::new(what).code(code).exit(exit)
}
