// SPDX-License-Identifier: Apache-2.0
//! The way in: a tree is copied entry by entry, searched on the way. Links are copied as links and
//! never followed (what they point to inside the sandbox is the sandbox's); special files are left
//! out.

use super::place::FRESH_FILE;
use super::protected::{Hidden, is_hidden};
use super::tree::{self, Entry};
use crate::front_door::search::Searcher;
use crate::front_door::shape::{self, CONTENT_BYTES_MAX, Shape};
use crate::orders::{Baseline, BaselineEntry, PorterReply};
use anyhow::{Context, ensure};
use rustix::fs::Mode;
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
    /// Places that are there and empty. What lies in one never enters: a mount on it would follow
    /// its directory through a rename, and no rule is true of the name that it has then.
    pub(super) hide: Vec<String>,
    /// What bounds the bytes, for who must change it.
    pub(super) limit: &'static str,
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
pub(super) struct Found {
    hidden: Listed<(String, String)>,
    left_out: Listed<String>,
    /// Where one is wanted.
    baseline: Option<Baseline>,
    bytes: u64,
    pub(super) vault_value: Option<(String, String)>,
}

impl Found {
    pub(super) fn hide(&mut self, path: &str, what: String) {
        self.hidden.push(path, (path.to_owned(), what));
    }

    fn keep(&mut self, path: &str, entry: BaselineEntry) {
        if let Some(baseline) = &mut self.baseline {
            baseline.insert(path.to_owned(), entry);
        }
    }

    pub(super) fn leave_out(&mut self, path: &str) {
        self.left_out.push(path, path.to_owned());
    }

    pub(super) fn synced(self, inward: u32, outward: u32, held: u32) -> PorterReply {
        PorterReply::Synced {
            inward,
            outward,
            held,
            hidden: self.hidden.told(|rest| (rest, "not listed".to_owned())),
        }
    }

    pub(super) fn copied(self, bytes: u64) -> PorterReply {
        let not_listed = |rest| (rest, "not listed".to_owned());
        PorterReply::Copied {
            hidden: self.hidden.told(not_listed),
            left_out: self.left_out.told(|rest| rest),
            bytes,
        }
    }
}

/// LIMIT: bytes of what is told of a kind, so that a reply takes it: a packet is 128 KiB, and each
/// path may be told with a reason.
const LISTED_BYTES_MAX: usize = 24 << 10;
/// LIMIT: entries of it, for what each takes beside its text.
const LISTED_MAX: usize = 512;

/// What a person is told of, as far as a reply takes it, and how much more there was.
struct Listed<T> {
    first: Vec<T>,
    bytes: usize,
    more: usize,
}

impl<T> Default for Listed<T> {
    fn default() -> Self {
        Self {
            first: Vec::new(),
            bytes: 0,
            more: 0,
        }
    }
}

impl<T> Listed<T> {
    fn push(&mut self, path: &str, told: T) {
        // As JSON writes them (RFC 8259 §7): a control character takes six times its bytes.
        let written = |byte: u8| {
            if byte < 0x20 || b"\"\\".contains(&byte) {
                6
            } else {
                1
            }
        };
        let bytes: usize = path.bytes().map(written).sum();
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes > LISTED_BYTES_MAX || self.first.len() == LISTED_MAX {
            self.more += 1;
        } else {
            self.first.push(told);
        }
    }

    /// All of it; `rest` writes the last line where it is not.
    fn told(mut self, rest: impl FnOnce(String) -> T) -> Vec<T> {
        if self.more > 0 {
            self.first.push(rest(format!("… and {} more", self.more)));
        }
        self.first
    }
}

/// What a name and its inode take beside a file's content.
const ENTRY_BYTES: u64 = 512;

/// Copies `source` into the empty `target` and writes the baseline, where one is wanted.
pub(super) fn copy_in(
    source: &OwnedFd,
    target: &OwnedFd,
    baseline: Option<OwnedFd>,
    rules: &Rules,
) -> anyhow::Result<PorterReply> {
    let searcher = Searcher::new(&rules.fingerprints);
    let mut found = Found {
        baseline: baseline.is_some().then(Baseline::new),
        ..Found::default()
    };
    tree::walk(source, &mut |path, entry| {
        if found.vault_value.is_some() || !rules.wants(path) {
            return Ok(());
        }
        match (is_hidden(path, &rules.hide), &entry) {
            (None, _) | (Some(Hidden::Place), Entry::Directory) => {}
            (Some(Hidden::Place), Entry::File { .. }) => {
                return make_empty(path, target, &mut found);
            }
            _ => return Ok(()),
        }
        let content = match &entry {
            Entry::File { bytes, .. } => *bytes,
            Entry::Directory | Entry::Link(_) | Entry::Special => 0,
        };
        found.bytes = found
            .bytes
            .saturating_add(content.saturating_add(ENTRY_BYTES));
        ensure!(
            found.bytes <= rules.bytes_max,
            "the workspace is larger than {} ({} bytes); raise it or work in a smaller directory",
            rules.limit,
            rules.bytes_max
        );
        match entry {
            Entry::Directory => rustix::fs::mkdirat(target, path, Mode::from_raw_mode(0o700))
                .with_context(|| format!("can't make `{path}`")),
            Entry::Link(to) => {
                found.keep(path, link_entry(&to));
                rustix::fs::symlinkat(&*to, target, path)
                    .with_context(|| format!("can't link `{path}`"))
            }
            Entry::Special => {
                found.leave_out(path);
                Ok(())
            }
            Entry::File { mut file, mode, .. } => {
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
    if let (Some(file), Some(entries)) = (baseline, &found.baseline) {
        serde_json::to_writer(&mut File::from(file), entries).context("baseline")?;
    }
    let bytes = found.bytes;
    Ok(found.copied(bytes))
}

/// Whether a file may enter. Shapes are noted; a vault value ends the job.
pub(super) fn admit(
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
            found.hide(path, what.to_owned());
            false
        }
        Some(Shape::Named(what)) => {
            found.hide(path, format!("{what} (not hidden)"));
            true
        }
        None => true,
    })
}

/// That a hidden file is there may be seen.
fn make_empty(path: &str, target: &OwnedFd, found: &mut Found) -> anyhow::Result<()> {
    let mode = Mode::from_raw_mode(0o600);
    let made = rustix::fs::openat(target, path, FRESH_FILE, mode);
    made.with_context(|| format!("can't hide `{path}`"))?;
    let entry = BaselineEntry {
        digest: tree::text_digest(""),
        executable: false,
        link: false,
    };
    found.keep(path, entry);
    Ok(())
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
    let opened = rustix::fs::openat(target, path, FRESH_FILE, mode).with_context(about)?;
    let mut copy = File::from(opened);
    let mut digest = None;
    if let Some(clean) = without_userinfo(path, &mut file, found)? {
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
    let entry = BaselineEntry {
        digest,
        executable,
        link: false,
    };
    found.keep(path, entry);
    Ok(())
}

/// What git's configuration says without the credentials that its URLs may have; nothing of any
/// other file.
pub(super) fn without_userinfo(
    path: &str,
    file: &mut File,
    found: &mut Found,
) -> anyhow::Result<Option<String>> {
    if path != ".git/config" && !path.ends_with("/.git/config") {
        return Ok(None);
    }
    let mut text = String::new();
    let read = file.read_to_string(&mut text);
    read.with_context(|| format!("can't copy `{path}`"))?;
    let (clean, removed) = shape::without_userinfo(&text);
    if removed {
        found.hide(path, "user information in a URL (removed)".to_owned());
    }
    Ok(Some(clean))
}

fn link_entry(target: &str) -> BaselineEntry {
    BaselineEntry {
        digest: tree::text_digest(target),
        executable: false,
        link: true,
    }
}

#[cfg(test)]
pub(super) mod tests;
