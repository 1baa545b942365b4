// SPDX-License-Identifier: Apache-2.0
//! The way a person looks at what a session did: a unified diff against the original directory.

use super::changes::{self, Change, Kind, Repositories};
use super::commits;
use crate::orders::PorterReply;
use anyhow::Context;
use rustix::fs::{Mode, OFlags, ResolveFlags};
use std::fs::File;
use std::io::{BufWriter, Read, Write};
use std::os::fd::OwnedFd;

/// LIMIT: a file that is shown line by line; larger ones are named only.
const TEXT_BYTES_MAX: u64 = 2 * 1024 * 1024;

/// Writes the diff to the pipe.
pub(super) fn write(
    original: &OwnedFd,
    changed: &OwnedFd,
    baseline: OwnedFd,
    pipe: OwnedFd,
) -> anyhow::Result<PorterReply> {
    let baseline = changes::read_baseline(baseline)?;
    let changes = changes::of(changed, &baseline)?;
    let mut out = BufWriter::new(File::from(pipe));
    for line in commits::heading(original, changed) {
        writeln!(out, "{line}")?;
    }
    let mut repositories = Repositories::default();
    for change in &changes {
        if !repositories.count(&change.path) {
            write_one(original, changed, change, &mut out)?;
        }
    }
    for line in repositories.lines() {
        writeln!(out, "{line}")?;
    }
    out.flush().context("the reader of the diff went away")?;
    Ok(PorterReply::Done {
        changed: u32::try_from(changes.len()).unwrap_or(u32::MAX),
    })
}

fn write_one(
    original: &OwnedFd,
    changed: &OwnedFd,
    change: &Change,
    out: &mut impl Write,
) -> anyhow::Result<()> {
    let path = &change.path;
    let old = if change.kind == Kind::Added {
        Some(String::new())
    } else {
        text(original, path)?
    };
    let new = if change.kind == Kind::Deleted {
        Some(String::new())
    } else {
        text(changed, path)?
    };
    let kind = match change.kind {
        Kind::Added => "added",
        Kind::Modified => "modified",
        Kind::Deleted => "deleted",
    };
    let host = if changes::runs_on_host(path) {
        "  (runs on a host: asks on apply)"
    } else {
        ""
    };
    let path = &changes::shown(path);
    writeln!(out, "{kind}: {path}{host}")?;
    match (old, new) {
        (Some(old), Some(new)) => {
            let diff = similar::TextDiff::from_lines(&old, &new);
            let shown = diff
                .unified_diff()
                .header(&format!("a/{path}"), &format!("b/{path}"))
                .to_string();
            out.write_all(shown.as_bytes())?;
        }
        _ => writeln!(out, "  not shown: no text, a link, or over 2 MiB")?,
    }
    Ok(())
}

/// The text of a file beneath a directory; nothing when it is none, or none of the size.
fn text(directory: &OwnedFd, path: &str) -> anyhow::Result<Option<String>> {
    let Ok(file) = open_beneath(directory, path) else {
        return Ok(None);
    };
    let meta = file.metadata()?;
    if !meta.is_file() || meta.len() > TEXT_BYTES_MAX {
        return Ok(None);
    }
    let mut text = Vec::new();
    file.take(TEXT_BYTES_MAX).read_to_end(&mut text)?;
    Ok(String::from_utf8(text)
        .ok()
        .filter(|text| !text.contains('\0')))
}

/// Opens a file for reading, beneath the directory and through no link (openat2(2)).
pub(super) fn open_beneath(directory: &OwnedFd, path: &str) -> std::io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    Ok(File::from(rustix::fs::openat2(
        directory,
        path,
        flags,
        Mode::empty(),
        resolve,
    )?))
}
