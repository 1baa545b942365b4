// SPDX-License-Identifier: Apache-2.0
//! The way back: changed files are written into the person's directory, beneath it and through no
//! link. A file that changed on both sides is left; a file that a host would run is written only
//! when the person confirmed that very path; no file of a repository is written at all.
//!
//! The report has one line for each path: `wrote P`, `deleted P`, `asks P`, `conflict P`,
//! `left P: why`.

use super::changes::{self, Change, Kind, Repositories};
use super::diff::open_beneath;
use super::place::{self, Content, parent};
use crate::orders::{BaselineEntry, PorterReply};
use anyhow::Context;
use rustix::fs::Mode;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::os::fd::{AsFd, OwnedFd};

/// What the person wants back.
pub(super) struct Wanted {
    pub(super) paths: Option<Vec<String>>,
    pub(super) confirmed: Vec<String>,
}

/// Writes what is wanted and reports.
pub(super) fn bring_back(
    target: &OwnedFd,
    changed: &OwnedFd,
    baseline: OwnedFd,
    pipe: OwnedFd,
    wanted: &Wanted,
) -> anyhow::Result<PorterReply> {
    let baseline = changes::read_baseline(baseline)?;
    let mut out = BufWriter::new(File::from(pipe));
    let mut written = 0_u32;
    let mut repositories = Repositories::default();
    for change in changes::of(changed, &baseline)? {
        let path = &change.path;
        if wanted
            .paths
            .as_ref()
            .is_some_and(|paths| !paths.contains(path))
        {
            continue;
        }
        if repositories.count(path) {
            continue;
        }
        let shown = changes::shown(path);
        if shown != *path {
            writeln!(out, "left {shown}: its name has control characters")?;
            continue;
        }
        if changes::runs_on_host(path) && !wanted.confirmed.contains(path) {
            writeln!(out, "asks {path}")?;
            continue;
        }
        match bring_one((target, changed), &change, baseline.get(path)) {
            Ok(verb) => {
                written = written.saturating_add(u32::from(verb != CONFLICT));
                writeln!(out, "{verb} {path}")?;
            }
            Err(error) => writeln!(out, "left {path}: {error:#}")?,
        }
    }
    for line in repositories.lines() {
        writeln!(out, "left {line}")?;
    }
    out.flush().context("the reader of the report went away")?;
    Ok(PorterReply::Done { changed: written })
}

fn bring_one(
    (target, changed): (&OwnedFd, &OwnedFd),
    change: &Change,
    expected: Option<&BaselineEntry>,
) -> anyhow::Result<&'static str> {
    let (directory, name) = parent(target, &change.path)?;
    let directory = directory.as_fd();
    if change.kind == Kind::Deleted {
        let gone = match expected {
            Some(expected) => place::take_away((directory, name), expected)?,
            None => false,
        };
        return Ok(if gone { "deleted" } else { CONFLICT });
    }
    let mut file = open_beneath(changed, &change.path)
        .context("a link or special file; only regular files come back")?;
    let about = file.metadata()?;
    anyhow::ensure!(about.is_file(), "only regular files come back");
    let executable = std::os::unix::fs::MetadataExt::mode(&about) & 0o100 != 0;
    let content = Content::File {
        from: &mut file,
        mode: Mode::from_raw_mode(if executable { 0o755 } else { 0o644 }),
        durable: true,
    };
    let put = place::put((directory, name), content, expected)?;
    Ok(if put.is_some() { "wrote" } else { CONFLICT })
}

/// What the line of a path says whose file on the person's side is no longer what was copied in.
const CONFLICT: &str = "conflict";

#[cfg(test)]
mod tests;
