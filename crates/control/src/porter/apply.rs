// SPDX-License-Identifier: Apache-2.0
//! The way back: changed files are written into the person's directory, beneath it and through no
//! link. A file that changed on both sides is left; a file that a host would run is written only
//! when the person confirmed that very path; no file of a repository is written at all.
//!
//! The report has one line for each path: `wrote P`, `deleted P`, `asks P`, `conflict P`,
//! `left P: why`.

use super::changes::{self, Change, Kind, Repositories};
use super::diff::open_beneath;
use super::tree;
use crate::orders::{Baseline, PorterReply};
use anyhow::Context;
use rustix::fs::{AtFlags, Mode, OFlags, ResolveFlags};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::os::fd::OwnedFd;

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
        if on_both_sides(target, &change, &baseline) {
            writeln!(out, "conflict {path}")?;
            continue;
        }
        match bring_one(target, changed, &change) {
            Ok(verb) => {
                written = written.saturating_add(1);
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

/// Whether the person's own file is no longer what was copied in.
fn on_both_sides(target: &OwnedFd, change: &Change, baseline: &Baseline) -> bool {
    let now = open_beneath(target, &change.path)
        .and_then(tree::digest)
        .ok();
    match baseline.get(&change.path) {
        Some(before) if before.link => false,
        Some(before) => now.as_ref() != Some(&before.digest),
        None => now.is_some(),
    }
}

fn bring_one(target: &OwnedFd, changed: &OwnedFd, change: &Change) -> anyhow::Result<&'static str> {
    let (directory, name) = parent(target, &change.path)?;
    if change.kind == Kind::Deleted {
        rustix::fs::unlinkat(&directory, name, AtFlags::empty())?;
        return Ok("deleted");
    }
    let mut file = open_beneath(changed, &change.path)
        .context("a link or special file; only regular files come back")?;
    anyhow::ensure!(file.metadata()?.is_file(), "only regular files come back");
    let executable = std::os::unix::fs::MetadataExt::mode(&file.metadata()?) & 0o100 != 0;
    let mode = Mode::from_raw_mode(if executable { 0o755 } else { 0o644 });
    // Written beside and renamed, so that a reader sees the old file or the new one.
    let fresh = format!(".{name}.torno");
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut copy = File::from(rustix::fs::openat(&directory, &*fresh, flags, mode)?);
    let copied = std::io::copy(&mut file, &mut copy).and_then(|_| copy.sync_all());
    if let Err(error) = copied {
        rustix::fs::unlinkat(&directory, &*fresh, AtFlags::empty())?;
        return Err(error.into());
    }
    rustix::fs::renameat(&directory, &*fresh, &directory, name)?;
    Ok("wrote")
}

/// The directory of a path beneath `target`, made where it is missing, and the last name.
pub(super) fn parent<'p>(target: &OwnedFd, path: &'p str) -> anyhow::Result<(OwnedFd, &'p str)> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let open =
        |at: &OwnedFd, name: &str| rustix::fs::openat2(at, name, flags, Mode::empty(), resolve);
    let mut directory = open(target, ".")?;
    let (parents, name) = path.rsplit_once('/').unwrap_or(("", path));
    for part in parents.split('/').filter(|part| !part.is_empty()) {
        directory = match open(&directory, part) {
            Err(rustix::io::Errno::NOENT) => {
                rustix::fs::mkdirat(&directory, part, Mode::from_raw_mode(0o755))?;
                open(&directory, part)?
            }
            opened => opened?,
        };
    }
    Ok((directory, name))
}

#[cfg(test)]
mod tests;
