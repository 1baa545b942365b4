// SPDX-License-Identifier: Apache-2.0
//! What a session changed in its copy of the workspace: shown as a diff, brought back under a
//! person's eye. Paths that execute on a host are asked for one by one.

use crate::command::run::open_directory;
use crate::context::{Context, note, say};
use crate::desk::{Desk, unexpected};
use crate::printable;
use crate::stop::{Outcome, Stop};
use crate::terminal::is_terminal;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{BufRead, BufReader, IsTerminal, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use torno_control_api::request::{ApiReply, ApiRequest};
use torno_policy::names::SessionId;

/// LIMIT: a line of a diff on a terminal; a longer one is shown in pieces.
const LINE_BYTES_MAX: u64 = 64 * 1024;
/// LIMIT: a report has one short line for each changed file; this is some 100,000 of them.
const REPORT_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// One line of the report that `Apply` gives.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Applied {
    /// The path, relative to the workspace.
    pub(crate) path: String,
    /// What was done with it.
    pub(crate) action: Action,
    /// Why it was left.
    #[serde(default)]
    pub(crate) reason: Option<String>,
}

/// What was done with a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Action {
    /// It is in the target directory now.
    Written,
    /// It is gone from the target directory now.
    Removed,
    /// It executes on a host, and nobody confirmed it.
    Executes,
    /// It was left for another reason.
    Left,
}

/// Shows the diff and asks whether to bring everything back.
pub(crate) async fn offer(
    desk: &Desk,
    session: &SessionId,
    target: &PathBuf,
    context: &Context,
) -> Outcome {
    if !show(diff(desk, session).await?, &mut std::io::stderr(), true)? {
        note("torno: nothing changed in the copied workspace\n");
        return Ok(());
    }
    if context.confirm(&format!("Bring these changes into {}?", target.display()))? {
        bring_back(desk, session, target, context).await
    } else {
        note(&format!(
            "torno: nothing was brought back; `torno session apply {session}` still can\n"
        ));
        Ok(())
    }
}

/// The pipe from which the diff is read.
pub(crate) async fn diff(desk: &Desk, session: &SessionId) -> Outcome<OwnedFd> {
    let request = ApiRequest::Diff {
        session: session.clone(),
    };
    stream(desk.ask(&request, &[]).await?)
}

/// Prints a diff: inert on a terminal (what a person approves is what is shown), else byte for byte.
pub(crate) fn print(diff: OwnedFd) -> Outcome<bool> {
    let inert = is_terminal(rustix::stdio::stdout());
    show(diff, &mut std::io::stdout(), inert)
}

/// Whether there was anything to show.
fn show(diff: OwnedFd, to: &mut dyn Write, inert: bool) -> Outcome<bool> {
    let failed =
        |error: std::io::Error| Stop::new("the diff can't be carried to its end").because(&error);
    let mut from = BufReader::new(File::from(diff));
    let mut any = false;
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = (&mut from)
            .take(LINE_BYTES_MAX)
            .read_until(b'\n', &mut line);
        if read.map_err(failed)? == 0 {
            return Ok(any);
        }
        any = true;
        let written = if inert {
            to.write_all(printable::bytes(&line).as_bytes())
        } else {
            to.write_all(&line)
        };
        match written {
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => return Ok(any),
            written => written.map_err(failed)?,
        }
    }
}

/// Brings changes back: first all that execute nowhere, then what a person confirms.
pub(crate) async fn bring_back(
    desk: &Desk,
    session: &SessionId,
    target: &PathBuf,
    context: &Context,
) -> Outcome {
    let directory = open_directory(target)?;
    let apply = |paths: Option<Vec<String>>, confirmed: Vec<String>| ApiRequest::Apply {
        session: session.clone(),
        paths,
        confirmed,
    };
    let reply = desk
        .ask(&apply(None, Vec::new()), &[directory.as_fd()])
        .await?;
    let mut report = read_report(stream(reply)?)?;
    let confirmed = confirm_each(&report, context)?;
    if !confirmed.is_empty() {
        let request = apply(Some(confirmed.clone()), confirmed.clone());
        let reply = desk.ask(&request, &[directory.as_fd()]).await?;
        report.retain(|line| !confirmed.contains(&line.path));
        report.extend(read_report(stream(reply)?)?);
    }
    context.show(&report, &lines(&report))
}

/// Asks for each path that executes on a host. Nobody to ask means no.
fn confirm_each(report: &[Applied], context: &Context) -> Outcome<Vec<String>> {
    let mut confirmed = Vec::new();
    let executing = report.iter().filter(|line| line.action == Action::Executes);
    for line in executing {
        let question = format!("`{}` executes on your machine. Write it?", line.path);
        if std::io::stdin().is_terminal() && context.confirm(&question)? {
            confirmed.push(line.path.clone());
        }
    }
    Ok(confirmed)
}

fn lines(report: &[Applied]) -> String {
    let line = |line: &Applied| {
        let path = printable::line(&line.path);
        let reason = line.reason.as_deref().map(printable::line);
        match (line.action, reason) {
            (Action::Written, _) => format!("written   {path}\n"),
            (Action::Removed, _) => format!("removed   {path}\n"),
            (Action::Executes, _) => {
                format!("left      {path}: executes on a host; confirm it at a terminal\n")
            }
            (Action::Left, Some(reason)) => format!("left      {path}: {reason}\n"),
            (Action::Left, None) => format!("left      {path}\n"),
        }
    };
    report.iter().map(line).collect()
}

/// The one descriptor of a `Stream` reply.
fn stream((reply, descriptors): (ApiReply, Vec<OwnedFd>)) -> Outcome<OwnedFd> {
    let ApiReply::Stream = reply else {
        return Err(unexpected(&reply));
    };
    match <[OwnedFd; 1]>::try_from(descriptors) {
        Ok([pipe]) => Ok(pipe),
        Err(_) => Err(Stop::new("the desk sent no pipe with its reply")
            .next("run the torno and tornod of one release")),
    }
}

/// One JSON object a line.
fn read_report(pipe: OwnedFd) -> Outcome<Vec<Applied>> {
    let broken = || {
        Stop::new("the report of what was written breaks off")
            .next("compare with `torno session diff` before you apply again")
    };
    let mut text = String::new();
    File::from(pipe)
        .take(REPORT_BYTES_MAX)
        .read_to_string(&mut text)
        .map_err(|error| broken().because(&error))?;
    text.lines()
        .map(|line| serde_json::from_str(line).map_err(|error| broken().because(&error)))
        .collect()
}

/// Says that there is no difference, where nobody is confused by it.
pub(crate) fn say_nothing_changed(context: &Context) -> Outcome {
    if context.json || !is_terminal(rustix::stdio::stdout()) {
        Ok(())
    } else {
        say("nothing changed\n")
    }
}
