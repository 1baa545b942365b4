// SPDX-License-Identifier: Apache-2.0
//! What the file rules keep from programs, by path. Where a workspace lies in a machine's memory
//! nothing inside is trusted to hold them: what is hidden does not go in, and what may not be
//! written is taken from the copy that stayed outside.

use super::place::{FRESH_FILE, parent};
use super::tree::{self, Entry};
use anyhow::Context;
use rustix::fs::Mode;
use std::fs::File;
use std::os::fd::OwnedFd;
use torno_policy::grant::FileRules;

/// Whether `path` is the place, or lies below it.
fn is_at(path: &str, place: &str) -> bool {
    let rest = path.strip_prefix(place);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn place(rule: &str) -> &str {
    rule.strip_suffix("/**").unwrap_or(rule)
}

/// Whether what lies there is hidden, and its place with it or not.
pub(super) fn is_hidden(path: &str, hide: &[String]) -> Option<Hidden> {
    let is = |rule: &&String| is_at(path, place(rule));
    let rule = hide.iter().find(is)?;
    Some(if place(rule) == path {
        Hidden::Place
    } else {
        Hidden::Below
    })
}

/// How a path is hidden.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hidden {
    /// It is the place of a rule: that it is there may be seen.
    Place,
    /// It lies in such a place.
    Below,
}

/// Whether programs may have changed what lies at a path.
pub(super) fn is_writable(path: &str, is_directory: bool, files: &FileRules) -> bool {
    let is = |rule: &String| match rule.as_str() {
        "**" => true,
        rule => match rule.strip_suffix("/**") {
            Some(tree) => is_at(path, tree) && (path != tree || is_directory),
            None => path == rule && !is_directory,
        },
    };
    let is_written = files
        .write
        .as_ref()
        .is_none_or(|rules| rules.iter().any(is));
    is_written && is_hidden(path, &files.hide).is_none()
}

/// Whether a place that programs may write lies below a directory.
pub(super) fn leads_to_writable(path: &str, files: &FileRules) -> bool {
    let rules = files.write.iter().flatten();
    let leads = |rule: &String| place(rule) != path && is_at(place(rule), path);
    is_hidden(path, &files.hide).is_none() && rules.into_iter().any(leads)
}

/// Copies what programs may not have changed from `before` into `target`.
pub(super) fn restore(target: &OwnedFd, before: &OwnedFd, files: &FileRules) -> anyhow::Result<()> {
    if files.write.is_none() && files.hide.is_empty() {
        return Ok(());
    }
    tree::walk(before, &mut |path, entry| {
        if is_writable(path, matches!(entry, Entry::Directory), files) {
            return Ok(());
        }
        let about = || format!("can't keep `{path}` as it was");
        // Through no link that came out of the machine.
        let (directory, name) = parent(target, path).with_context(about)?;
        match entry {
            Entry::Directory => {
                match rustix::fs::mkdirat(&directory, name, Mode::from_raw_mode(0o700)) {
                    // On the way to a writable place it came out too.
                    Err(rustix::io::Errno::EXIST) => Ok(()),
                    made => made.with_context(about),
                }
            }
            Entry::File { mut file, mode, .. } => {
                let mode = if mode & 0o100 == 0 { 0o600 } else { 0o700 };
                let mode = Mode::from_raw_mode(mode);
                let made = rustix::fs::openat(&directory, name, FRESH_FILE, mode);
                let mut copy = File::from(made.with_context(about)?);
                std::io::copy(&mut file, &mut copy).with_context(about)?;
                Ok(())
            }
            Entry::Link(to) => rustix::fs::symlinkat(&*to, &directory, name).with_context(about),
            // Never copied in.
            Entry::Special => Ok(()),
        }
    })
}
