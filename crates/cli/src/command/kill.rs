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
use torno_control_api::request::{ApiReply, ApiRequest, KillReceipt};
use torno_policy::names::SessionId;

/// LIMIT: the supervisor's byte comes once the gates' processes are gone: milliseconds. After this
/// the desk's answer alone counts.
const SUPERVISOR_WAIT: Duration = Duration::from_secs(5);
/// Bytes of a session in the supervisor's fixed-size packet.
const SESSION_BYTES: usize = 26;
/// The packet: kind, session, two numbers that a kill does not use.
const PACKET_BYTES: usize = 1 + SESSION_BYTES + 8 + 4;
/// The kind of a kill.
const KILL: u8 = 4;

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
    let Ok(channel) = Channel::connect(&context.paths.kill_socket()) else {
        return false;
    };
    let Some(packet) = packet(session) else {
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

fn packet(session: Option<&SessionId>) -> Option<[u8; PACKET_BYTES]> {
    let mut packet = [0; PACKET_BYTES];
    let (kind, rest) = packet.split_first_mut()?;
    *kind = KILL;
    if let Some(session) = session {
        let name = session.as_str().as_bytes();
        rest.get_mut(..SESSION_BYTES)?
            .get_mut(..name.len())?
            .copy_from_slice(name);
    }
    Some(packet)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_packet_is_the_supervisors_and_all_is_an_empty_name() {
        assert_eq!(packet(None).unwrap()[..3], [4, 0, 0]);
        let session = SessionId::parse("abcdefghijklmnopqrstuvwxyz").unwrap();
        let packet = packet(Some(&session)).unwrap();
        assert_eq!(&packet[1..27], session.as_str().as_bytes());
        assert_eq!((packet.len(), packet[27]), (39, 0));
    }

    #[test]
    fn a_name_that_does_not_fit_is_not_cut_into_another() {
        let long = SessionId::parse("abcdefghijklmnopqrstuvwxyz1").unwrap();
        assert!(packet(Some(&long)).is_none());
    }
}
