// SPDX-License-Identifier: Apache-2.0
//! `torno session commits`: what a session committed comes into the person's repository, below
//! `refs/torno/SESSION/`, or into a bundle. The session's own repository never lies here: its
//! objects go through a quarantine, and what git does not accept stays there.

mod bring;
mod git;
mod quarantine;
mod wall;

use crate::context::Context;
use crate::desk::Desk;
use crate::printable;
use crate::stop::{FOUND_WANTING, Outcome, Stop};
use crate::values;
use bring::{Brought, Verb};
use git::Git;
use quarantine::Quarantine;
use serde::Serialize;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use torno_control_api::request::{ApiReply, ApiRequest};
use torno_policy::names::SessionId;

/// Bring a session's commits back, under refs of their own
///
/// Branches and tags that are not as your repository has them come as `refs/torno/SESSION/…`,
/// checked as a pack that a stranger sends; nothing else of the session's `.git` does. Your own
/// branches, index and files stay as they are.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  torno session commits 4kq2… && git merge refs/torno/4kq2…/heads/fix
  torno session commits 4kq2… --bundle work.bundle")]
pub(crate) struct Commits {
    /// The session
    #[arg(value_parser = values::session)]
    session: SessionId,
    /// Your repository; the working directory when left out
    #[arg(long, value_name = "DIR")]
    into: Option<PathBuf>,
    /// Write a bundle (git-bundle(1)) to this new file, and nothing into your repository
    #[arg(long, value_name = "FILE")]
    bundle: Option<PathBuf>,
}

/// What is told at the end.
#[derive(Debug, Serialize)]
struct Report<'a> {
    session: &'a SessionId,
    bundle: Option<&'a Path>,
    #[serde(flatten)]
    brought: &'a Brought,
}

/// Runs it.
pub(super) async fn run(command: &Commits, desk: &Desk, context: &Context) -> Outcome<u8> {
    let target = super::directory(command.into.as_deref(), context);
    let bundle = command
        .bundle
        .as_ref()
        .map(|file| context.directory.join(file));
    let quarantine = Quarantine::make(&context.paths.state().join("commits"), &command.session)?;
    let git = Git::find(context.search_path.as_deref(), quarantine.path())?;
    let request = ApiRequest::Commits {
        session: command.session.clone(),
    };
    wall::limit()?;
    let work = bring::Work {
        git: &git,
        quarantine: &quarantine,
        session: &command.session,
        target: &target,
        bundle: bundle.as_deref(),
    };
    // Before anything is asked for: is there a repository at all?
    let repository = work.repository()?;
    context.progress("bringing commits out and checking them");
    let stream = File::from(stream(desk.ask(&request, &[]).await?)?);
    let brought = work.bring(stream, repository.as_ref())?;
    let report = Report {
        session: &command.session,
        bundle: bundle.as_deref(),
        brought: &brought,
    };
    context.show(&report, &lines(&report))?;
    let is_refused = brought.refs.is_empty() && brought.refused > 0;
    Ok(if is_refused { FOUND_WANTING } else { 0 })
}

/// The one descriptor of a `Stream` reply.
fn stream((reply, descriptors): (ApiReply, Vec<OwnedFd>)) -> Outcome<OwnedFd> {
    let ApiReply::Stream = reply else {
        return Err(crate::desk::unexpected(&reply));
    };
    let given = descriptors.into_iter().next();
    given.ok_or_else(|| {
        Stop::new("the desk sent no pipe with its reply")
            .next("run the torno and tornod of one release")
    })
}

fn lines(report: &Report<'_>) -> String {
    let mut human = String::new();
    for one in &report.brought.refs {
        let verb = match one.verb {
            Verb::New => "new   ",
            Verb::Moved => "moved ",
            Verb::There => "there ",
        };
        let name = printable::line(&one.to);
        human.push_str(&format!("{verb}  {name}  {}\n", one.id.as_str()));
    }
    for (what, why) in &report.brought.left {
        let (what, why) = (printable::line(what), printable::line(why));
        human.push_str(&format!("left    {what}: {why}\n"));
    }
    let branch = report.brought.refs.first();
    match (branch, report.bundle) {
        (None, _) => human.push_str("no branch or tag came back\n"),
        (Some(_), Some(bundle)) => {
            let words = [
                "git".to_owned(),
                "fetch".to_owned(),
                bundle.display().to_string(),
            ];
            let from = format!("refs/torno/{0}/*:refs/torno/{0}/*", report.session);
            let words = printable::words(&[&words[..], &[from]].concat());
            human.push_str(&format!("next: {words}\n"));
        }
        (Some(one), None) => {
            let log = [
                "git".to_owned(),
                "log".to_owned(),
                format!("HEAD..{}", one.to),
            ];
            let merge = ["git".to_owned(), "merge".to_owned(), one.to.clone()];
            human.push_str(&format!(
                "next: {}, then {}\n",
                printable::words(&log),
                printable::words(&merge)
            ));
        }
    }
    human
}

#[cfg(test)]
mod tests;
