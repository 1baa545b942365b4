// SPDX-License-Identifier: Apache-2.0
//! `torno kill`: through the desk and the supervisor's kill-only socket at once, so that one of
//! them being stuck stops nothing. It never starts a daemon: without one nothing runs.

use crate::context::{Context, note};
use crate::desk::Desk;
use crate::printable;
use crate::stop::{FOUND_WANTING, Outcome, Stop};
use crate::values;
use std::time::Duration;
use torno_control_api::channel::Channel;
use torno_control_api::kill_only;
use torno_control_api::request::{ApiReply, ApiRequest, KillReceipt};
use torno_policy::names::SessionId;

/// LIMIT: the supervisor's byte comes once the gates' processes are gone: milliseconds. After this
/// the desk's answer alone counts.
const SUPERVISOR_WAIT: Duration = Duration::from_secs(5);

/// Kill a session, or all: cut its network, end its processes, and prove it
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  torno kill 4kq2…
  torno kill --all")]
pub(crate) struct Kill {
    /// The session
    #[arg(value_parser = values::session, required_unless_present = "all", conflicts_with = "all")]
    session: Option<SessionId>,
    /// Every session
    #[arg(long)]
    all: bool,
}

/// Runs it.
pub(crate) async fn run(kill: &Kill, context: &Context) -> Outcome<u8> {
    let session = kill.session.as_ref();
    let (desk, supervisor) = tokio::join!(
        through_desk(session, context),
        through_supervisor(session, context)
    );
    match (desk, supervisor) {
        (Ok(receipt), _) => {
            context.show(&receipt, &lines(&receipt))?;
            let survivors = receipt.sessions.iter().any(|killed| killed.survivors > 0);
            Ok(if survivors { FOUND_WANTING } else { 0 })
        }
        // The supervisor's byte says no more then: it had nothing to cut.
        (Err(stop), _) if stop.code.as_deref() == Some("session_unknown") => {
            let session = session.map(SessionId::as_str).unwrap_or_default();
            Err(Stop::new(format!("there is no session `{session}`"))
                .code("session_unknown")
                .next("give its whole name, as `torno session list` shows it"))
        }
        (Err(stop), true) => {
            crate::report(&stop, context);
            note(
                "torno: the supervisor has cut every gate concerned; there is no receipt from the \
                 desk, look at `torno audit tail`\n",
            );
            Ok(FOUND_WANTING)
        }
        (Err(stop), false) => Err(stop),
    }
}

async fn through_desk(session: Option<&SessionId>, context: &Context) -> Outcome<KillReceipt> {
    if !crate::daemon::answers(&context.paths.desk_socket())
        && !crate::daemon::answers(&context.paths.kill_socket())
    {
        return Err(Stop::new("tornod is not running, so no session is")
            .next("when processes of a session are left, start `tornod`: it removes them"));
    }
    let desk = Desk::connect(context).await?;
    let request = ApiRequest::Kill {
        session: session.cloned(),
    };
    match desk.ask(&request, &[]).await?.0 {
        ApiReply::Killed(receipt) => Ok(receipt),
        other => Err(crate::desk::unexpected(&other)),
    }
}

/// Whether the supervisor says that the gates are gone.
async fn through_supervisor(session: Option<&SessionId>, context: &Context) -> bool {
    let Ok(channel) = Channel::connect_to_anybody(&context.paths.kill_socket()) else {
        return false;
    };
    let Some(packet) = kill_only::encode(session) else {
        return false;
    };
    let exchange = async {
        channel.send(&packet, &[]).await?;
        channel.receive().await
    };
    matches!(
        tokio::time::timeout(SUPERVISOR_WAIT, exchange).await,
        Ok(Ok(Some(answer))) if answer.bytes == [1]
    )
}

fn lines(receipt: &KillReceipt) -> String {
    let mut text = String::new();
    for killed in &receipt.sessions {
        text.push_str(&format!(
            "killed {} in {} ms: {} processes, {} left, {} placeholders dead, {} credentialed \
             writes had succeeded before\n",
            killed.session,
            killed.took_ms,
            killed.processes,
            killed.survivors,
            killed.placeholders,
            killed.credentialed_writes
        ));
        for leftover in &killed.leftovers {
            text.push_str(&format!("  left: {}\n", printable::line(leftover)));
        }
    }
    if receipt.sessions.is_empty() {
        text.push_str("no session was running\n");
    }
    text
}
