// SPDX-License-Identifier: Apache-2.0
//! `torno session`: look at sessions, run in them, bring their changes back, end them.

use crate::changes;
use crate::context::{Context, say};
use crate::desk::{Desk, unexpected};
use crate::execution::{self, Wanted};
use crate::printable;
use crate::stop::{Outcome, Stop};
use crate::values::{self, Variable, level_word};
use std::path::{Path, PathBuf};
use torno_control_api::request::{ApiReply, ApiRequest, SessionRow};
use torno_policy::names::SessionId;

mod checkpoint;
mod commits;
mod watch;

/// Look at sessions, run in them, bring their changes back, end them
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Session {
    /// Every session
    #[command(after_help = "Example: torno session list --output json")]
    List,
    /// One session and its commands
    #[command(after_help = "Example: torno session show 4kq2…")]
    Show {
        /// The session
        #[arg(value_parser = values::session)]
        session: SessionId,
    },
    /// What the record holds of a session
    #[command(after_help = "Example: torno session logs 4kq2…")]
    Logs {
        /// The session
        #[arg(value_parser = values::session)]
        session: SessionId,
    },
    /// Requests as they happen: of one session until it is over, or of all of them
    #[command(after_help = "With `--output json` each line is one object.\n\
Example: torno session watch 4kq2…")]
    Watch {
        /// The session; every session from now on when left out
        #[arg(value_parser = values::session)]
        session: Option<SessionId>,
    },
    /// Run a command in a running session
    #[command(after_help = "Example: torno session exec 4kq2… -- sh -c 'ls; id'")]
    Exec(ExecArguments),
    /// Attach to a running command
    #[command(after_help = "Example: torno session attach 4kq2… 1")]
    Attach {
        /// The session
        #[arg(value_parser = values::session)]
        session: SessionId,
        /// The command's number (`torno session show`); its newest when left out
        exec: Option<u64>,
        /// Write to the terminal unfiltered
        #[arg(long)]
        raw: bool,
    },
    /// What a session changed in its copy of the workspace
    #[command(after_help = "Example: torno session diff 4kq2… > changes.patch")]
    Diff {
        /// The session
        #[arg(value_parser = values::session)]
        session: SessionId,
        /// Compare with this directory; the working directory when left out
        #[arg(long, value_name = "DIR")]
        against: Option<PathBuf>,
    },
    /// Bring a session's changes into a directory; what executes on a host is asked for one by one
    #[command(after_help = "Example: torno session apply 4kq2… --into .")]
    Apply {
        /// The session
        #[arg(value_parser = values::session)]
        session: SessionId,
        /// The target; the working directory when left out
        #[arg(long, value_name = "DIR")]
        into: Option<PathBuf>,
        /// Do not ask; paths that execute on a host are asked for all the same
        #[arg(long, short)]
        yes: bool,
    },
    Commits(commits::Commits),
    /// Hold a session still: its processes stop and what it has under way is cut
    ///
    /// Nothing leaves it until it is resumed, and no command begins. Its wall time goes on; idle
    /// time does not.
    #[command(after_help = "Example: torno session pause 4kq2…")]
    Pause {
        /// The session
        #[arg(value_parser = values::session)]
        session: SessionId,
    },
    /// Let a paused session go on
    ///
    /// A session that a tripwire froze stays frozen.
    #[command(after_help = "Example: torno session resume 4kq2…")]
    Resume {
        /// The session
        #[arg(value_parser = values::session)]
        session: SessionId,
    },
    Checkpoint(checkpoint::Checkpoint),
    /// What is kept of sessions' workspaces
    #[command(after_help = "Example: torno session checkpoints")]
    Checkpoints,
    /// End a session in good order
    #[command(after_help = "Example: torno session stop 4kq2…")]
    Stop {
        /// The session
        #[arg(value_parser = values::session)]
        session: SessionId,
    },
    /// A token for the brain of one session, shown once: it reaches that session and nothing else
    #[command(after_help = "Example: torno session token 4kq2… > brain.token")]
    Token {
        /// The session
        #[arg(value_parser = values::session)]
        session: SessionId,
    },
}

/// Arguments of `session exec`.
#[derive(Debug, clap::Args)]
pub(crate) struct ExecArguments {
    /// The session
    #[arg(value_parser = values::session)]
    session: SessionId,
    /// Working directory inside
    #[arg(long, value_name = "DIR")]
    cwd: Option<String>,
    /// Set a variable for this command
    #[arg(long, value_name = "NAME=VALUE", value_parser = values::variable)]
    env: Vec<Variable>,
    /// Write to the terminal unfiltered
    #[arg(long)]
    raw: bool,
    /// The command and its arguments, after `--`
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<String>,
}

/// Runs it.
pub(crate) async fn run(command: &Session, context: &Context) -> Outcome<u8> {
    if let Session::Logs { session } = command {
        return crate::command::audit::logs(session, context);
    }
    if let Session::Watch { session } = command {
        watch::watch(session.as_ref(), context).await?;
        return Ok(0);
    }
    let desk = Desk::open(context).await?;
    match command {
        Session::Logs { .. } | Session::Watch { .. } => {}
        Session::List => list(&desk, context).await?,
        Session::Show { session } => show(&desk, session, context).await?,
        Session::Exec(arguments) => return exec(&desk, arguments).await,
        Session::Attach { session, exec, raw } => {
            let exec = match exec {
                Some(exec) => *exec,
                None => newest(&desk, session).await?,
            };
            return execution::attach(&desk, session, exec, *raw).await;
        }
        Session::Diff { session, against } => {
            let original = directory(against.as_deref(), context);
            let diff = changes::diff(&desk, session, &original).await?;
            if !changes::print(diff)? {
                changes::say_nothing_changed(context)?;
            }
        }
        Session::Apply { session, into, yes } => {
            let target = directory(into.as_deref(), context);
            let question = format!("Bring the changes of {session} into {}?", target.display());
            if !*yes && !context.confirm(&question)? {
                return Err(Stop::new("nothing was brought back")
                    .next("answer `y` at a terminal, or say `--yes`"));
            }
            changes::bring_back(&desk, session, &target, context).await?;
        }
        Session::Commits(command) => return commits::run(command, &desk, context).await,
        Session::Checkpoint(command) => checkpoint::run(command, &desk, context).await?,
        Session::Checkpoints => checkpoint::list(&desk, context).await?,
        Session::Pause { session } => {
            let request = ApiRequest::Pause {
                session: session.clone(),
            };
            done(&desk, &request, ("paused", session), context).await?;
        }
        Session::Resume { session } => {
            let request = ApiRequest::Resume {
                session: session.clone(),
            };
            done(&desk, &request, ("resumed", session), context).await?;
        }
        Session::Stop { session } => stop(&desk, session, context).await?,
        Session::Token { session } => token(&desk, session, context).await?,
    }
    Ok(0)
}

fn directory(named: Option<&Path>, context: &Context) -> PathBuf {
    named.map_or_else(
        || context.directory.clone(),
        |named| context.directory.join(named),
    )
}

async fn list(desk: &Desk, context: &Context) -> Outcome {
    let rows = desk.sessions(None).await?;
    let mut human = String::new();
    for row in &rows {
        human.push_str(&format!(
            "{:26}  {:10}  {:9}  {}  {} refused\n",
            row.session.as_str(),
            printable::line(&row.state),
            level_word(row.isolation),
            crate::clock::seconds(row.began_at),
            row.refused
        ));
    }
    if rows.is_empty() {
        human.push_str("no session; start one with `torno run -- CMD`\n");
    }
    context.show(&rows, &human)
}

async fn one(desk: &Desk, session: &SessionId) -> Outcome<SessionRow> {
    let rows = desk.sessions(Some(session.clone())).await?;
    rows.into_iter().next().ok_or_else(|| {
        Stop::new(format!("there is no session {session}"))
            .next("give its whole name, as `torno session list` shows it")
    })
}

async fn show(desk: &Desk, session: &SessionId, context: &Context) -> Outcome {
    let row = one(desk, session).await?;
    let cause = row.cause.as_deref().map(printable::line);
    let held = if row.paused && row.state != "paused" {
        ", paused"
    } else {
        ""
    };
    let mut human = format!(
        "session  {}\nstate    {}{held}{}\nlevel    {}\nbegan    {}\nrefused  {}\n",
        row.session,
        printable::line(&row.state),
        cause.map(|cause| format!(" ({cause})")).unwrap_or_default(),
        level_word(row.isolation),
        crate::clock::seconds(row.began_at),
        row.refused
    );
    for command in &row.commands {
        human.push_str(&format!(
            "runs     {}: {}\n",
            command.exec,
            printable::words(&command.argv)
        ));
    }
    context.show(&row, &human)
}

async fn newest(desk: &Desk, session: &SessionId) -> Outcome<u64> {
    let row = one(desk, session).await?;
    let newest = row.commands.iter().map(|command| command.exec).max();
    newest.ok_or_else(|| {
        Stop::new(format!("no command runs in session {session}"))
            .next("start one with `torno session exec`")
    })
}

async fn exec(desk: &Desk, arguments: &ExecArguments) -> Outcome<u8> {
    let variables = arguments.env.iter();
    let wanted = Wanted {
        argv: arguments.command.clone(),
        env: variables
            .map(|v| (v.name.clone(), v.value.clone()))
            .collect(),
        cwd: arguments.cwd.clone(),
        raw: arguments.raw,
    };
    execution::execute(desk, &arguments.session, wanted).await
}

async fn stop(desk: &Desk, session: &SessionId, context: &Context) -> Outcome {
    let request = ApiRequest::Stop {
        session: session.clone(),
    };
    match desk.ask(&request, &[]).await?.0 {
        ApiReply::Stopped(summary) => {
            if context.json {
                context.show(&summary, "")
            } else {
                crate::banner::ended(session, &summary, false, context);
                say(&format!("stopped {session}\n"))
            }
        }
        other => Err(unexpected(&other)),
    }
}

async fn done(
    desk: &Desk,
    request: &ApiRequest,
    (word, session): (&str, &SessionId),
    context: &Context,
) -> Outcome {
    match desk.ask(request, &[]).await?.0 {
        ApiReply::Done => context.show(
            &serde_json::json!({ "session": session, "done": word }),
            &format!("{word} {session}\n"),
        ),
        other => Err(unexpected(&other)),
    }
}

async fn token(desk: &Desk, session: &SessionId, context: &Context) -> Outcome {
    let request = ApiRequest::IssueBrainToken {
        session: session.clone(),
    };
    match desk.ask(&request, &[]).await?.0 {
        ApiReply::Token { token } => context.show(
            &serde_json::json!({ "token": token }),
            &format!("{}\n", printable::line(&token)),
        ),
        other => Err(unexpected(&other)),
    }
}
