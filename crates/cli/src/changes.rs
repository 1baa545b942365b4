// SPDX-License-Identifier: Apache-2.0
//! What a session changed in its copy of the workspace: shown as a diff, brought back under a
//! person's eye. Paths that execute on a host are asked for one by one.

use crate::command::run::open_directory;
use crate::context::{Context, note, say};
use crate::desk::{Desk, unexpected};
use crate::printable;
use crate::stop::{Outcome, Stop};
use crate::terminal::is_terminal;
use serde::Serialize;
use std::fs::File;
use std::io::{BufRead, BufReader, IsTerminal, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use torno_control_api::request::{ApiReply, ApiRequest};
use torno_policy::names::SessionId;

/// LIMIT: a line of a diff on a terminal; a longer one is shown in pieces.
const LINE_BYTES_MAX: u64 = 64 * 1024;
/// LIMIT: a report has one short line for each changed file; this is some 100,000 of them.
const REPORT_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// One line of the report that `Apply` gives.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Applied {
    /// What was done with it.
    pub(crate) action: Action,
    /// The path, relative to the workspace; for `left`, with the reason behind a colon.
    pub(crate) path: String,
}

/// What was done with a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Action {
    /// It is in the target directory now.
    Wrote,
    /// It is gone from the target directory now.
    Deleted,
    /// It executes on a host, and nobody confirmed it.
    Asks,
    /// It changed on both sides and was left.
    Conflict,
    /// It was left for another reason.
    Left,
}

impl Applied {
    fn parse(line: &str) -> Option<Self> {
        let (word, path) = line.split_once(' ')?;
        let action = match word {
            "wrote" => Action::Wrote,
            "deleted" => Action::Deleted,
            "asks" => Action::Asks,
            "conflict" => Action::Conflict,
            "left" => Action::Left,
            _ => return None,
        };
        Some(Self {
            action,
            path: path.to_owned(),
        })
    }
}

/// Shows the diff and asks whether to bring everything back.
pub(crate) async fn offer(
    desk: &Desk,
    session: &SessionId,
    target: &Path,
    context: &Context,
) -> Outcome {
    let shown = show(
        diff(desk, session, target).await?,
        &mut std::io::stderr(),
        true,
    )?;
    if !shown {
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

/// The pipe from which the diff against `original` is read.
pub(crate) async fn diff(desk: &Desk, session: &SessionId, original: &Path) -> Outcome<OwnedFd> {
    let original = open_directory(original)?;
    let request = ApiRequest::Diff {
        session: session.clone(),
    };
    stream(desk.ask(&request, &[original.as_fd()]).await?)
}

/// Prints a diff: inert on a terminal (what is approved is what is shown), else byte for byte.
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
    target: &Path,
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
    let executing = report.iter().filter(|line| line.action == Action::Asks);
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
        match line.action {
            Action::Wrote => format!("wrote     {path}\n"),
            Action::Deleted => format!("deleted   {path}\n"),
            Action::Asks => {
                format!("left      {path}: executes on a host; confirm it at a terminal\n")
            }
            Action::Conflict => {
                format!("left      {path}: it changed here too; merge it by hand\n")
            }
            Action::Left => format!("left      {path}\n"),
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

/// One line for each path.
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
        .map(|line| Applied::parse(line).ok_or_else(broken))
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

#[cfg(test)]
mod tests {
    use super::*;

    // ATTACK: 184
    #[test]
    fn a_report_shows_paths_inert() {
        let report = Applied::parse("wrote a\r\u{1b}[2K\u{202e}b").unwrap();
        let text = lines(&[report]);
        assert!(
            text.trim_end()
                .chars()
                .all(|c| c.is_ascii_graphic() || c == ' '),
            "{text:?}"
        );
        assert_eq!(Applied::parse("ran x"), None);
        assert_eq!(Applied::parse("wrote"), None);
    }
}
