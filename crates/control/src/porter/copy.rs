// SPDX-License-Identifier: Apache-2.0
//! The way in: a tree is copied entry by entry, searched on the way. Links are copied as links and
//! never followed (what they point to inside the sandbox is the sandbox's); special files are left
//! out.

use super::tree::{self, Entry};
use crate::front_door::search::Searcher;
use crate::front_door::shape::{self, CONTENT_BYTES_MAX, Shape};
use crate::orders::{Baseline, BaselineEntry, PorterReply};
use anyhow::{Context, ensure};
use rustix::fs::{Mode, OFlags};
use std::fs::File;
use std::io::{Read, Seek, Write};
use std::os::fd::OwnedFd;
use torno_notary_protocol::desk::Fingerprint;

/// What to look for, and how much may be copied.
pub(super) struct Rules {
    pub(super) fingerprints: Vec<Fingerprint>,
    pub(super) bytes_max: u64,
    /// Only these files, all that lies below `dir/**`, and the directories above; nothing means
    /// everything.
    pub(super) only: Option<Vec<String>>,
}

impl Rules {
    fn wants(&self, path: &str) -> bool {
        let Some(only) = &self.only else { return true };
        let is_below = |path: &str, directory: &str| {
            let rest = path.strip_prefix(directory);
            rest.is_some_and(|rest| rest.starts_with('/'))
        };
        only.iter().any(|wanted| match wanted.strip_suffix("/**") {
            Some(tree) => tree == path || is_below(path, tree) || is_below(tree, path),
            None => wanted == path || is_below(wanted, path),
        })
    }
}

/// What was found on the way.
#[derive(Default)]
struct Found {
    hidden: Vec<(String, String)>,
    left_out: Vec<String>,
    baseline: Baseline,
    bytes: u64,
    vault_value: Option<(String, String)>,
}

/// Copies `source` into the empty `target` and writes the baseline.
pub(super) fn copy_in(
    source: &OwnedFd,
    target: &OwnedFd,
    baseline: OwnedFd,
    rules: &Rules,
) -> anyhow::Result<PorterReply> {
    let searcher = Searcher::new(&rules.fingerprints);
    let mut found = Found::default();
    tree::walk(source, &mut |path, entry| {
        if found.vault_value.is_some() || !rules.wants(path) {
            return Ok(());
        }
        match entry {
            Entry::Directory => rustix::fs::mkdirat(target, path, Mode::from_raw_mode(0o700))
                .with_context(|| format!("can't make `{path}`")),
            Entry::Link(to) => {
                found.baseline.insert(path.to_owned(), link_entry(&to));
                rustix::fs::symlinkat(&*to, target, path)
                    .with_context(|| format!("can't link `{path}`"))
            }
            Entry::Special => {
                found.left_out.push(path.to_owned());
                Ok(())
            }
            Entry::File {
                mut file,
                bytes,
                mode,
            } => {
                found.bytes = found.bytes.saturating_add(bytes);
                ensure!(
                    found.bytes <= rules.bytes_max,
                    "the workspace is larger than limits.disk ({} bytes); raise it or work in a \
                     smaller directory",
                    rules.bytes_max
                );
                if admit(path, &mut file, &searcher, &mut found)? {
                    copy_file(path, file, mode, target, &mut found)?;
                }
                Ok(())
            }
        }
    })?;
    if let Some((place, credential)) = found.vault_value {
        return Ok(PorterReply::VaultValue { place, credential });
    }
    let mut baseline = File::from(baseline);
    serde_json::to_writer(&mut baseline, &found.baseline).context("baseline")?;
    Ok(PorterReply::Copied {
        hidden: found.hidden,
        left_out: found.left_out,
    })
}

/// Looks through a tree that is bound, not copied.
pub(super) fn search(
    source: &OwnedFd,
    fingerprints: &[Fingerprint],
) -> anyhow::Result<PorterReply> {
    let searcher = Searcher::new(fingerprints);
    let mut found = Found::default();
    tree::walk(source, &mut |path, entry| {
        match entry {
            Entry::File { mut file, .. } if found.vault_value.is_none() => {
                // A bound file can't be hidden here; mounts do that. Either way it is named.
                admit(path, &mut file, &searcher, &mut found)?;
            }
            Entry::Special => found.left_out.push(path.to_owned()),
            Entry::File { .. } | Entry::Directory | Entry::Link(_) => {}
        }
        Ok(())
    })?;
    match found.vault_value {
        Some((place, credential)) => Ok(PorterReply::VaultValue { place, credential }),
        None => Ok(PorterReply::Copied {
            hidden: found.hidden,
            left_out: found.left_out,
        }),
    }
}

/// Whether a file may enter. Shapes are noted; a vault value ends the job.
fn admit(
    path: &str,
    file: &mut File,
    searcher: &Searcher<'_>,
    found: &mut Found,
) -> anyhow::Result<bool> {
    let about = || format!("can't read `{path}`");
    if let Some(credential) = searcher.find_in(&*file).with_context(about)? {
        found.vault_value = Some((path.to_owned(), credential.to_owned()));
        return Ok(false);
    }
    file.rewind().with_context(about)?;
    let shape = match shape::of_path(path) {
        Some(shape) => Some(shape),
        None => {
            let mut content = Vec::new();
            let limit = u64::try_from(CONTENT_BYTES_MAX).unwrap_or(u64::MAX);
            file.take(limit)
                .read_to_end(&mut content)
                .with_context(about)?;
            file.rewind().with_context(about)?;
            shape::of_content(&content)
        }
    };
    Ok(match shape {
        Some(Shape::Hidden(what)) => {
            found.hidden.push((path.to_owned(), what.to_owned()));
            false
        }
        Some(Shape::Named(what)) => {
            found
                .hidden
                .push((path.to_owned(), format!("{what} (not hidden)")));
            true
        }
        None => true,
    })
}

fn copy_file(
    path: &str,
    mut file: File,
    mode: u32,
    target: &OwnedFd,
    found: &mut Found,
) -> anyhow::Result<()> {
    let about = || format!("can't copy `{path}`");
    // No set-user-id bit, and nobody but the owner: the sandbox has one user.
    let executable = mode & 0o100 != 0;
    let mode = Mode::from_raw_mode(if executable { 0o700 } else { 0o600 });
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = rustix::fs::openat(target, path, flags, mode).with_context(about)?;
    let mut copy = File::from(opened);
    let mut digest = None;
    if path == ".git/config" || path.ends_with("/.git/config") {
        let mut text = String::new();
        file.read_to_string(&mut text).with_context(about)?;
        let (clean, removed) = shape::without_userinfo(&text);
        if removed {
            found.hidden.push((
                path.to_owned(),
                "user information in a URL (removed)".to_owned(),
            ));
        }
        copy.write_all(clean.as_bytes()).with_context(about)?;
        digest = Some(tree::text_digest(&clean));
    } else {
        std::io::copy(&mut file, &mut copy).with_context(about)?;
        file.rewind().with_context(about)?;
    }
    let digest = match digest {
        Some(digest) => digest,
        None => tree::digest(&mut file).with_context(about)?,
    };
    found.baseline.insert(
        path.to_owned(),
        BaselineEntry {
            digest,
            executable,
            link: false,
        },
    );
    Ok(())
}

fn link_entry(target: &str) -> BaselineEntry {
    BaselineEntry {
        digest: tree::text_digest(target),
        executable: false,
        link: true,
    }
}

#[cfg(test)]
mod tests;
