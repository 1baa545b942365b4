// SPDX-License-Identifier: Apache-2.0
//! A bound workspace: the person's directory and the sandbox's copy of it are kept alike, one round
//! after the other. What one side alone changed goes to the other, by the rules of either way: in
//! goes what the front door lets in, out goes what `apply` would write without asking. The rest
//! waits for the person.
//!
//! ```text
//!   original ─┐                    ┌─ Inward ──▶ copy       (searched, hidden)
//!             ├─ three-way look ───┼─ Outward ─▶ original   (beneath, through no link)
//!   copy ─────┤                    └─ Held                  (`session diff`, `session apply`)
//!   agreed ───┘
//! ```

mod decide;
mod state;

use super::changes;
use super::copy::{self, Found};
use super::diff::open_beneath;
use super::place::{self, BENEATH, Content, parent};
use super::tree;
use crate::front_door::search::Searcher;
use crate::orders::{Baseline, BaselineEntry, PorterReply, SyncRules};
use crate::role_channel::exactly;
use anyhow::Context;
use decide::{Repositories, Step, Three};
use rustix::fs::{AtFlags, Mode, OFlags};
use state::{Known, State};
use std::collections::BTreeSet;
use std::ffi::CString;
use std::fs::File;
use std::io::{BufWriter, Read, Seek, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;

/// What a name and its inode take beside a file's content.
const ENTRY_BYTES: u64 = 512;

/// What goes out may make the person's directory this many times as large as the copy may be. All
/// of it went into the copy once, so it is at most once that large before.
const ORIGINAL_TIMES: u64 = 2;

/// One round's descriptors.
pub(super) struct Round {
    pub(super) original: OwnedFd,
    pub(super) copy: OwnedFd,
    /// What both sides had last, and where it is written anew.
    pub(super) agreed: OwnedFd,
    pub(super) agreed_next: OwnedFd,
    /// What was known of files by their looks, and where that is written anew.
    pub(super) known: OwnedFd,
    pub(super) known_next: OwnedFd,
}

impl Round {
    /// In the job's order.
    pub(super) fn of(descriptors: Vec<OwnedFd>) -> anyhow::Result<Self> {
        let [original, copy, agreed, agreed_next, known, known_next] = exactly(descriptors)?;
        Ok(Self {
            original,
            copy,
            agreed,
            agreed_next,
            known,
            known_next,
        })
    }
}

/// One round.
pub(super) fn round(round: Round, rules: &SyncRules) -> anyhow::Result<PorterReply> {
    let agreed = changes::read_baseline(round.agreed)?;
    let known = Known::read(round.known, rules.thorough);
    let most = rules.bytes_max.saturating_mul(ORIGINAL_TIMES);
    let original = state::of(&round.original, &known.original, (true, most));
    let (original, original_known) = original.context("the directory")?;
    let copy = state::of(&round.copy, &known.copy, (false, most));
    let (copy, copy_known) = copy.context("the sandbox's copy")?;
    let searcher = Searcher::new(&rules.fingerprints);
    let repositories = Repositories::changed_inside(&copy.entries, &agreed);
    let paths: BTreeSet<&String> = original
        .entries
        .keys()
        .chain(copy.entries.keys())
        .chain(agreed.keys())
        .collect();
    let mut work = Work {
        original_at: &round.original,
        copy_at: &round.copy,
        original: &original,
        copy: &copy,
        searcher,
        rules,
        bytes: copy.bytes,
        original_bytes: original.bytes,
        found: Found::default(),
        agreed: agreed.clone(),
        refused: Baseline::new(),
        counts: Counts::default(),
    };
    // What goes makes room for what comes.
    for removes in [true, false] {
        for path in &paths {
            let three = Three {
                original: original.entries.get(*path),
                copy: copy.entries.get(*path),
                agreed: agreed.get(*path),
            };
            if three.removes() == removes {
                let step = decide::step(path, &three, &rules.files, &repositories);
                work.take(path, step, &three, &known.refused)?;
            }
        }
    }
    let next = Known {
        original: original_known,
        copy: copy_known,
        refused: work.refused,
    };
    next.write(round.known_next)?;
    let mut agreed_next = BufWriter::new(File::from(round.agreed_next));
    serde_json::to_writer(&mut agreed_next, &work.agreed).context("baseline")?;
    agreed_next.flush().context("baseline")?;
    let Counts {
        inward,
        outward,
        held,
    } = work.counts;
    Ok(work.found.synced(inward, outward, held))
}

#[derive(Default)]
struct Counts {
    inward: u32,
    outward: u32,
    held: u32,
}

/// A round under way.
struct Work<'a> {
    original_at: &'a OwnedFd,
    copy_at: &'a OwnedFd,
    original: &'a State,
    copy: &'a State,
    searcher: Searcher<'a>,
    rules: &'a SyncRules,
    /// Of the copy, and of the person's directory.
    bytes: u64,
    original_bytes: u64,
    found: Found,
    agreed: Baseline,
    /// What may not go in, as it is now.
    refused: Baseline,
    counts: Counts,
}

impl Work<'_> {
    fn take(
        &mut self,
        path: &str,
        step: Step,
        three: &Three<'_>,
        refused: &Baseline,
    ) -> anyhow::Result<()> {
        let moved = match step {
            Step::Same => return Ok(()),
            Step::Agree => {
                self.agree(path, three.original.cloned());
                return Ok(());
            }
            Step::Inward => match three.original {
                Some(entry) if refused.get(path) == Some(entry) => {
                    self.refused.insert(path.to_owned(), entry.clone());
                    Ok(false)
                }
                Some(_) => self.bring_in(path, three),
                None => self.remove_inside(path, three),
            },
            Step::Outward => self.bring_out(path, three),
            Step::Held => Ok(false),
        };
        let count = match (step, &moved) {
            (Step::Inward, Ok(true)) => &mut self.counts.inward,
            (_, Ok(true)) => &mut self.counts.outward,
            (_, Ok(false)) => &mut self.counts.held,
            // One path that can't be written keeps no other from its place.
            (_, Err(error)) => {
                tracing::debug!("{path:?}: {error:#}");
                &mut self.counts.held
            }
        };
        *count = count.saturating_add(1);
        Ok(())
    }

    fn agree(&mut self, path: &str, entry: Option<BaselineEntry>) {
        match entry {
            Some(entry) => self.agreed.insert(path.to_owned(), entry),
            None => self.agreed.remove(path),
        };
    }

    /// The person's file goes in, unless the front door keeps it out.
    fn bring_in(&mut self, path: &str, three: &Three<'_>) -> anyhow::Result<bool> {
        if three.original.is_some_and(|entry| entry.link) {
            let to = link_beneath(self.original_at, path)?;
            let to = to.into_string().map_err(|_| anyhow::anyhow!("no UTF-8"))?;
            return self.put_inside(path, Content::Link(&to), three);
        }
        let mut file = open_beneath(self.original_at, path)?;
        let about = file.metadata()?;
        anyhow::ensure!(about.is_file(), "it changed while it was read");
        let before = self.copy.sizes.get(path).copied().unwrap_or_default();
        let bytes = self.bytes.saturating_sub(before);
        let bytes = bytes.saturating_add(about.len().saturating_add(ENTRY_BYTES));
        if bytes > self.rules.bytes_max {
            self.found.hide(path, "larger than limits.disk".to_owned());
            return Ok(false);
        }
        let admitted = copy::admit(path, &mut file, &self.searcher, &mut self.found)?;
        if let Some((place, credential)) = self.found.vault_value.take() {
            let what = format!("holds the value of `{credential}` (kept out)");
            self.found.hide(&place, what);
        }
        if !admitted {
            let entry = three.original.cloned();
            self.refused
                .extend(entry.map(|entry| (path.to_owned(), entry)));
            return Ok(false);
        }
        let mode = if about.mode() & 0o100 == 0 {
            0o600
        } else {
            0o700
        };
        let mode = Mode::from_raw_mode(mode);
        let clean = copy::without_userinfo(path, &mut file, &mut self.found)?;
        let mut clean = clean.as_deref().map(str::as_bytes);
        file.rewind()?;
        // What it is found to be longer than may not go in after all.
        let mut limited = file.take(about.len());
        let from: &mut dyn Read = match &mut clean {
            Some(clean) => clean,
            None => &mut limited,
        };
        let content = Content::File {
            from,
            mode,
            durable: false,
        };
        let put = self.put_inside(path, content, three)?;
        if put {
            self.bytes = bytes;
        }
        Ok(put)
    }

    fn put_inside(
        &mut self,
        path: &str,
        content: Content<'_>,
        three: &Three<'_>,
    ) -> anyhow::Result<bool> {
        let (directory, name) = parent(self.copy_at, path)?;
        let put = place::put((directory.as_fd(), name), content, three.copy)?;
        let is_put = put.is_some();
        if is_put {
            self.agree(path, put);
        }
        Ok(is_put)
    }

    /// The person removed it, and with it perhaps its directories.
    fn remove_inside(&mut self, path: &str, three: &Three<'_>) -> anyhow::Result<bool> {
        let Some(expected) = three.copy else {
            return Ok(false);
        };
        let (directory, name) = parent(self.copy_at, path)?;
        let is_gone = place::take_away((directory.as_fd(), name), expected)?;
        if !is_gone {
            return Ok(false);
        }
        self.agree(path, None);
        let mut below = path;
        while let Some((above, _)) = below.rsplit_once('/') {
            if self.original.directories.contains(above) {
                break;
            }
            let (directory, name) = parent(self.copy_at, above)?;
            if rustix::fs::unlinkat(&directory, name, AtFlags::REMOVEDIR).is_err() {
                // Something of the sandbox's own lies in it.
                break;
            }
            below = above;
        }
        Ok(true)
    }

    /// What the session wrote goes out.
    fn bring_out(&mut self, path: &str, three: &Three<'_>) -> anyhow::Result<bool> {
        let file = open_beneath(self.copy_at, path)?;
        let about = file.metadata()?;
        anyhow::ensure!(about.is_file(), "only regular files come back");
        // By its length: a sparse file, and each name of one that has several, is whole out there.
        let before = self.original.sizes.get(path).copied().unwrap_or_default();
        let bytes = self.original_bytes.saturating_sub(before);
        let bytes = bytes.saturating_add(about.len().saturating_add(ENTRY_BYTES));
        let most = self.rules.bytes_max.saturating_mul(ORIGINAL_TIMES);
        anyhow::ensure!(bytes <= most, "more than twice limits.disk");
        let content = Content::File {
            // Not what is written meanwhile.
            from: &mut file.take(about.len()),
            mode: Mode::from_raw_mode(0o644),
            durable: true,
        };
        let (directory, name) = parent(self.original_at, path)?;
        let put = place::put((directory.as_fd(), name), content, three.original)?;
        let is_put = put.is_some();
        if is_put {
            self.original_bytes = bytes;
            self.agree(path, put);
        }
        Ok(is_put)
    }
}

/// What a link says, beneath the directory and through no other link (openat2(2)).
fn link_beneath(directory: &OwnedFd, path: &str) -> rustix::io::Result<CString> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let link = rustix::fs::openat2(directory, path, flags, Mode::empty(), BENEATH)?;
    rustix::fs::readlinkat(&link, "", Vec::new())
}

/// What a file of the person's says to the sandbox.
fn digest_inside(path: &str, file: &mut File) -> anyhow::Result<String> {
    let clean = copy::without_userinfo(path, file, &mut Found::default())?;
    match clean {
        Some(clean) => Ok(tree::text_digest(&clean)),
        None => Ok(tree::digest(file)?),
    }
}

#[cfg(test)]
mod tests;
