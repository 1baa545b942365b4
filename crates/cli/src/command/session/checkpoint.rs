// SPDX-License-Identifier: Apache-2.0
//! `torno session checkpoint`: keep a session's workspace as it is now, to begin others from it.

use crate::context::Context;
use crate::desk::{Desk, unexpected};
use crate::printable;
use crate::stop::Outcome;
use crate::values;
use torno_control_api::request::{self, ApiReply, ApiRequest};
use torno_policy::names::{CheckpointName, SessionId};

/// Keep a session's workspace as it is now, to begin others from it
///
/// Files alone are kept, and searched like all that enters a sandbox: no process, no memory, no
/// placeholder that is worth anything. A session of level `container` or `gvisor` stands still
/// meanwhile; a machine goes on, so its files may be of several moments: pause what writes first.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[command(after_help = "Examples:
  torno session checkpoint 4kq2… --name before-upgrade
  torno run --from before-upgrade -- make test
  torno session checkpoint rm before-upgrade")]
pub(crate) struct Checkpoint {
    /// The session; one that has ended will do as long as its copy is kept
    #[arg(required = true, value_parser = values::session)]
    session: Option<SessionId>,
    /// What it is called; a name is made when left out
    #[arg(long, value_parser = values::checkpoint)]
    name: Option<CheckpointName>,
    #[command(subcommand)]
    verb: Option<Verb>,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    /// Let go of a checkpoint
    #[command(
        name = "rm",
        after_help = "Example: torno session checkpoint rm before-upgrade"
    )]
    Remove {
        /// Its name
        #[arg(value_parser = values::checkpoint)]
        name: CheckpointName,
    },
}

/// Runs it.
pub(super) async fn run(command: &Checkpoint, desk: &Desk, context: &Context) -> Outcome {
    match (&command.verb, &command.session) {
        (Some(Verb::Remove { name }), _) => remove(desk, name, context).await,
        (None, Some(session)) => make(desk, (session, command.name.as_ref()), context).await,
        // Clap wants one of both.
        (None, None) => Ok(()),
    }
}

async fn make(
    desk: &Desk,
    (session, name): (&SessionId, Option<&CheckpointName>),
    context: &Context,
) -> Outcome {
    let request = ApiRequest::Checkpoint {
        session: session.clone(),
        name: name.cloned(),
    };
    context.progress("keeping the workspace");
    match desk.ask(&request, &[]).await?.0 {
        ApiReply::Checkpointed(made) => {
            let mut human = format!("{}\n", made.checkpoint.name);
            for (place, shape) in &made.hidden {
                let (place, shape) = (printable::line(place), printable::line(shape));
                human.push_str(&format!("left out  {place}: {shape}\n"));
            }
            context.show(&made, &human)
        }
        other => Err(unexpected(&other)),
    }
}

async fn remove(desk: &Desk, name: &CheckpointName, context: &Context) -> Outcome {
    let request = ApiRequest::RemoveCheckpoint { name: name.clone() };
    match desk.ask(&request, &[]).await?.0 {
        ApiReply::Done => context.show(
            &serde_json::json!({ "checkpoint": name, "done": "removed" }),
            &format!("removed {name}\n"),
        ),
        other => Err(unexpected(&other)),
    }
}

/// `torno session checkpoints`.
pub(super) async fn list(desk: &Desk, context: &Context) -> Outcome {
    let all = match desk.ask(&ApiRequest::Checkpoints, &[]).await?.0 {
        ApiReply::Checkpoints(all) => all,
        other => return Err(unexpected(&other)),
    };
    let mut human: String = all.iter().map(line).collect();
    if all.is_empty() {
        human.push_str("no checkpoint; keep one with `torno session checkpoint SESSION`\n");
    }
    context.show(&all, &human)
}

fn line(one: &request::Checkpoint) -> String {
    let still = if one.is_still {
        ""
    } else {
        "  taken while it ran"
    };
    format!(
        "{:26}  {:26}  {}  {} bytes{still}\n",
        one.name.as_str(),
        one.session.as_str(),
        crate::clock::seconds(one.made_at),
        one.bytes
    )
}
