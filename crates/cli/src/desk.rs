// SPDX-License-Identifier: Apache-2.0
//! The desk as a command sees it: connected, authenticated as the operator, and every failure of
//! its turned into a [`Stop`].

use crate::context::Context;
use crate::daemon;
use crate::printable;
use crate::stop::{KILLED, Outcome, REFUSED, Stop, TIME_LIMIT};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Duration;
use torno_control_api::client::{CallError, Client};
use torno_control_api::request::{ApiReply, ApiRequest, Failure, SessionRow};
use torno_policy::names::SessionId;

/// LIMIT: the desk answers at once, but for a kill (bounded by itself) and a large diff.
const REPLY_WAIT: Duration = Duration::from_secs(60);
/// LIMIT: a start can copy a large workspace and run the install phase; its own limits end it
/// sooner, so this only bounds a desk that is stuck.
const START_WAIT: Duration = Duration::from_secs(2 * 60 * 60);

/// LIMIT: what a machine sends has 300 s, and so has the copying of it.
const CHECKPOINT_WAIT: Duration = Duration::from_secs(11 * 60);

/// A connection to the desk.
#[derive(Debug)]
pub(crate) struct Desk {
    client: Client,
}

impl Desk {
    /// Connects as the operator; starts the daemon where that is allowed.
    pub(crate) async fn open(context: &Context) -> Outcome<Self> {
        daemon::ensure(context, &context.paths.desk_socket()).await?;
        Self::connect(context).await
    }

    /// Connects to a daemon that runs; never starts one.
    pub(crate) async fn connect(context: &Context) -> Outcome<Self> {
        let path = context.paths.operator_token();
        let token = std::fs::read_to_string(&path).map_err(|error| {
            Stop::new(format!(
                "the operator's token `{}` can't be read",
                path.display()
            ))
            .because(&error)
            .next("run this as the user that runs tornod, or start tornod anew")
        })?;
        let socket = context.paths.desk_socket();
        let connect = Client::connect(&socket, token.trim_end());
        let connected = tokio::time::timeout(REPLY_WAIT, connect).await;
        let client = connected
            .map_err(|_| silent())?
            .map_err(|error| unheard(&error))?;
        Ok(Self { client })
    }

    /// Asks; a reply of `Failed` is a [`Stop`].
    pub(crate) async fn ask(
        &self,
        request: &ApiRequest,
        descriptors: &[BorrowedFd<'_>],
    ) -> Outcome<(ApiReply, Vec<OwnedFd>)> {
        let wait = match request {
            ApiRequest::Start(_) => START_WAIT,
            ApiRequest::Checkpoint { .. } => CHECKPOINT_WAIT,
            _ => REPLY_WAIT,
        };
        let reply = tokio::time::timeout(wait, self.client.call(request, descriptors)).await;
        match reply
            .map_err(|_| silent())?
            .map_err(|error| unheard(&error))?
        {
            (ApiReply::Failed(failure), _) => Err(failed(&failure)),
            reply => Ok(reply),
        }
    }

    /// The rows of every session, or of one.
    pub(crate) async fn sessions(&self, session: Option<SessionId>) -> Outcome<Vec<SessionRow>> {
        match self.ask(&ApiRequest::Sessions { session }, &[]).await?.0 {
            ApiReply::Sessions(rows) => Ok(rows),
            other => Err(unexpected(&other)),
        }
    }
}

/// The exit code for a code of the desk, the gate or the policy.
pub(crate) fn exit_code(code: &str) -> u8 {
    match code {
        "time_limit" | "wall_time" | "idle_time" => TIME_LIMIT,
        "session_killed" | "killed" => KILLED,
        _ => REFUSED,
    }
}

/// A reply of another kind than the request has.
pub(crate) fn unexpected(reply: &ApiReply) -> Stop {
    let kind = serde_json::to_value(reply).ok();
    let kind = kind.as_ref().and_then(|value| match value {
        serde_json::Value::String(name) => Some(name.clone()),
        serde_json::Value::Object(map) => map.keys().next().cloned(),
        _ => None,
    });
    let kind = printable::line(&kind.unwrap_or_default());
    Stop::new(format!(
        "the desk replied with `{kind}`, which is no reply to this request"
    ))
    .next("run the torno and tornod of one release")
}

fn failed(failure: &Failure) -> Stop {
    Stop::new(printable::line(&failure.message))
        .code(printable::line(&failure.code))
        .next(printable::line(&failure.hint))
        .exit(exit_code(&failure.code))
}

fn silent() -> Stop {
    Stop::new("the desk does not answer in time")
        .next("look at `torno doctor`; `torno kill --all` still works through the supervisor")
}

fn unheard(error: &CallError) -> Stop {
    let stop = Stop::new("the desk can't be asked").because(error);
    match error {
        CallError::Unreachable { .. } => stop.next("look at `torno doctor` and the daemon's log"),
        CallError::Version => stop.next("run the torno and tornod of one release"),
        _ => stop.next("run this as the user that runs tornod"),
    }
}
