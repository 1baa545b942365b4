// SPDX-License-Identifier: Apache-2.0
//! `torno run`: a session for one command, from document to exit code.

use crate::banner;
use crate::context::{Context, note};
use crate::desk::{Desk, unexpected};
use crate::document::{Document, NAME};
use crate::execution::{self, Wanted};
use crate::notary::Notary;
use crate::relay::install::InstallOutput;
use crate::stop::{Outcome, Stop};
use crate::values::{self, SecretVariable};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use torno_control_api::request::{ApiReply, ApiRequest, StartSession, Started};
use torno_policy::grant::WorkspaceMode;
use torno_policy::names::{Authority, CheckpointName};

mod typed;

pub(crate) use typed::Shape;

/// Run a command in a sandbox of its own
///
/// The grant is the torno.toml of the working directory, which must have been accepted with
/// `torno trust`. Without one, it is what you type here. Everything else is denied.
///
/// Exit code: the command's own; 125 when Torno refused or failed, 126 when the command can't be
/// executed, 127 when there is none of that name, 124 at the time limit, 137 when the session was
/// killed.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  torno run -- make test
  torno run --isolation container --allow docs.example.org -- curl https://docs.example.org/
  torno run --secret github=GITHUB_TOKEN --apply ask -- ./agent.sh")]
pub(crate) struct Run {
    #[command(flatten)]
    shape: Shape,
    /// Allow GET and HEAD over https to this host (without torno.toml only)
    #[arg(long, value_name = "HOST[:PORT]", value_parser = values::authority)]
    allow: Vec<Authority>,
    /// Use this credential; the variable holds its placeholder (without torno.toml only)
    #[arg(long, value_name = "NAME=VARIABLE", value_parser = values::secret_variable)]
    secret: Vec<SecretVariable>,
    /// Begin with the files of this checkpoint (`torno session checkpoints`) in place of the
    /// directory's
    #[arg(long, value_name = "CHECKPOINT", value_parser = values::checkpoint)]
    from: Option<CheckpointName>,
    /// At the end, show what changed in the copied workspace and ask whether to bring it back
    #[arg(long, value_name = "WHEN")]
    apply: Option<Apply>,
    /// Start the session without a command, print its id, and leave it running
    #[arg(long, conflicts_with_all = ["command", "apply"])]
    detach: bool,
    /// No banner and no summary
    #[arg(long, short)]
    quiet: bool,
    /// Write to the terminal what the command writes, unfiltered (it can then steer your terminal)
    #[arg(long)]
    raw: bool,
    /// The command and its arguments, after `--`
    #[arg(last = true, required_unless_present = "detach", value_name = "CMD")]
    command: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Apply {
    /// Show the changes and ask
    Ask,
}

/// Runs it.
pub(crate) async fn run(run: &Run, context: &Context) -> Outcome<u8> {
    let document = admit(choose(run, context)?, context).await?;
    let desk = Desk::open(context).await?;
    let how = Beginning {
        detached: run.detach,
        from: run.from.clone(),
    };
    let started = start(&run.shape, how, &document, &desk, context).await?;
    if !run.quiet {
        banner::started(&started, context);
    }
    if run.detach {
        context.show(&started, &format!("{}\n", started.session))?;
        return Ok(0);
    }
    let wanted = Wanted {
        argv: run.command.clone(),
        env: Vec::new(),
        cwd: None,
        raw: run.raw,
    };
    let exit = execution::execute(&desk, &started.session, wanted).await;
    if run.apply.is_some() && exit.is_ok() {
        let brought =
            crate::changes::offer(&desk, &started.session, &context.directory, context).await;
        if let Err(stop) = brought {
            crate::report(&stop, context);
        }
    }
    finish(run, &desk, &started, context).await;
    exit
}

/// The directory's document, or the one that was typed.
fn choose(run: &Run, context: &Context) -> Outcome<Document> {
    let file = context.directory.join(NAME);
    if file.symlink_metadata().is_err() {
        return Document::typed(typed::text(run));
    }
    let widening = [
        ("--allow", !run.allow.is_empty()),
        ("--secret", !run.secret.is_empty()),
        ("--also", !run.shape.also.is_empty()),
    ];
    match widening.iter().find(|(_, given)| *given) {
        Some((flag, _)) => Err(
            Stop::new(format!("`{flag}` can't widen the grant of `{NAME}`"))
                .next(format!("write it into `{NAME}` and run `torno trust`")),
        ),
        None => Document::read(&file),
    }
}

/// A file counts when its digest was accepted. What was typed is accepted by having been typed.
pub(crate) async fn admit(document: Document, context: &Context) -> Outcome<Document> {
    let notary = Notary::open(context).await?;
    let document = document.with_presets(&notary).await?;
    if document.file.is_none() {
        notary.accept(document.digest).await?;
        return Ok(document);
    }
    if notary.accepted(document.digest).await? {
        return Ok(document);
    }
    let presets = if document.presets.is_empty() {
        ""
    } else {
        ", it or a preset that it names"
    };
    Err(Stop::new(format!(
        "this `{NAME}` was not accepted, or it was changed since{presets}"
    ))
    .code("document_not_accepted")
    .next("run `torno trust` to see what it grants and accept it"))
}

/// How a session begins, beside its document.
#[derive(Debug, Default)]
pub(crate) struct Beginning {
    /// It goes on when our connection closes.
    pub(crate) detached: bool,
    /// What it begins from.
    pub(crate) from: Option<CheckpointName>,
}

/// Starts the session; the output of its install phase is shown while it comes up.
pub(crate) async fn start(
    shape: &Shape,
    how: Beginning,
    document: &Document,
    desk: &Desk,
    context: &Context,
) -> Outcome<Started> {
    // A typed document holds them itself.
    let variables = shape.env.iter().filter(|_| document.file.is_some());
    let workspace = shape.workspace.map(Into::into);
    let mode = workspace.unwrap_or(document.grant.sandbox.workspace);
    let also = expanded(&document.grant.sandbox.also, context)?;
    let handed: Outcome<Vec<OwnedFd>> = also.iter().map(|path| open_listed(path)).collect();
    let handed = handed?;
    let start = StartSession {
        document: document.text.clone(),
        isolation: shape.isolation.map(Into::into),
        workspace,
        wall_seconds: shape.wall,
        env: variables
            .map(|v| (v.name.clone(), v.value.clone()))
            .collect(),
        has_workspace: mode != WorkspaceMode::None && how.from.is_none(),
        detached: how.detached,
        has_also: !also.is_empty(),
        also,
        emulation: shape.emulation,
        from: how.from,
    };
    let directory = match mode {
        _ if start.from.is_some() => None,
        WorkspaceMode::None => None,
        WorkspaceMode::Copy | WorkspaceMode::Bind => Some(open_directory(&context.directory)?),
    };
    let output = if document.grant.install.is_some() {
        context.progress("starting the session; its install phase can take minutes");
        let begun = InstallOutput::begin();
        Some(begun.map_err(|e| Stop::new("no stream for the install phase").because(&e))?)
    } else {
        None
    };
    let stream = output.as_ref().map(InstallOutput::stream);
    let descriptors = directory.iter().chain(&handed).chain(stream);
    let descriptors: Vec<_> = descriptors.map(AsFd::as_fd).collect();
    let request = ApiRequest::Start(Box::new(start));
    let reply = desk.ask(&request, &descriptors).await;
    if let Some(output) = output {
        output.finish();
    }
    match reply?.0 {
        ApiReply::Started(started) => Ok(*started),
        other => Err(unexpected(&other)),
    }
}

/// `~` of `also`, in the document's order.
fn expanded(also: &[String], context: &Context) -> Outcome<Vec<String>> {
    also.iter()
        .map(|directory| {
            let Some(below) = directory.strip_prefix('~') else {
                return Ok(directory.clone());
            };
            let home = context.home.as_ref().and_then(|home| home.to_str());
            home.map(|home| format!("{home}{below}")).ok_or_else(|| {
                Stop::new(format!("`{directory}` needs HOME, which is not set"))
                    .next("write the directory's whole path")
            })
        })
        .collect()
}

/// Opens a directory to be handed over.
pub(crate) fn open_directory(path: &Path) -> Outcome<OwnedFd> {
    use rustix::fs::{Mode, OFlags};
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty()).map_err(|error| {
        Stop::new(format!(
            "the directory `{}` can't be opened",
            path.display()
        ))
        .because(&error)
    })
}

/// Opens a directory of `also`, as it is for us; what lies in it is opened by who may read it. The
/// levels that mount it go through no link either.
fn open_listed(path: &str) -> Outcome<OwnedFd> {
    use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    openat2(CWD, path, flags, Mode::empty(), resolve).map_err(|error| {
        Stop::new(format!("the directory `{path}` of `also` can't be opened"))
            .because(&error)
            .next("write its own path, which leads through no link, or leave it out")
    })
}

/// Ends the session and says what was refused.
async fn finish(run: &Run, desk: &Desk, started: &Started, context: &Context) {
    let session = started.session.clone();
    let request = ApiRequest::Stop { session };
    let stopped = tokio::select! {
        stopped = desk.ask(&request, &[]) => stopped,
        // The session ends with our connection, whether somebody waits for it or not.
        _ = tokio::signal::ctrl_c() => return,
    };
    match stopped {
        Ok((ApiReply::Stopped(summary), _)) if !run.quiet => {
            banner::ended(&started.session, &summary, run.apply.is_some(), context)
        }
        Ok(_) => {}
        // A session that was killed or reached its limit is over already. Otherwise it ends with
        // our connection; the workload's exit code stands.
        Err(stop) if stop.code.as_deref() == Some("session_unknown") => {}
        Err(stop) if matches!(stop.exit, crate::stop::KILLED | crate::stop::TIME_LIMIT) => {}
        Err(stop) => note(&format!("torno: no summary: {}\n", stop.message)),
    }
}
