// SPDX-License-Identifier: Apache-2.0
//! Checkpoints of sessions' workspaces: `<name>/tree` with the files, as the caller's; beside it
//! what lay in the workspace before, and what is known of it. One is made where nobody finds it and
//! renamed once it is whole, so that a crash leaves a whole one or none.
//!
//! ```text
//!   .making-<name> ── filled, on the disk, recorded ──▶ <name> ── remove ──▶ .removed-…
//!        └── given up, or found by the next start: gone
//! ```
//! The tree was written by a workload: nothing here follows a link in it or opens a file of it.

use super::failed::Failed;
use super::places::{make_directory, open_at, open_directory};
use super::removal::{Removals, remove_tree};
use crate::orders::Keeping;
use anyhow::{Context, bail, ensure};
use rustix::fs::{Mode, OFlags, Uid};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use torno_control_api::request::Checkpoint;
use torno_policy::names::CheckpointName;

/// Of a checkpoint's directory: the files.
const TREE: &str = "tree";
/// What is known of it.
const ABOUT: &str = "checkpoint.json";
/// What lay in the workspace when its session began.
const BASELINE: &str = "baseline";
/// How the directory of one that is being made is called. No name begins with a point.
const MAKING: &str = ".making-";
/// And that of one that goes.
const REMOVED: &str = ".removed-";
/// LIMIT: a name, a session and four numbers.
const ABOUT_BYTES_MAX: u64 = 4096;

/// All of them.
pub(super) struct Checkpoints {
    keeping: Keeping,
    /// The launcher is the host's root: see [`super::places::Places`].
    root: bool,
    /// LIMIT: one is made at a time, so that their bytes are counted once.
    making: Option<CheckpointName>,
    /// Number of the next one that is moved aside.
    aside: u64,
    /// What is on its way out.
    removals: Removals,
}

impl Checkpoints {
    /// Takes the directory, and removes what an earlier life did not finish.
    pub(super) fn new(keeping: Keeping, root: bool) -> anyhow::Result<Self> {
        let checkpoints = Self {
            keeping,
            root,
            making: None,
            aside: 0,
            removals: Removals::default(),
        };
        for path in checkpoints.unfinished()? {
            remove_tree(&path).context("a checkpoint that was not finished")?;
        }
        Ok(checkpoints)
    }

    /// What lies in the directory, is no checkpoint and is not being made.
    pub(super) fn unfinished(&self) -> anyhow::Result<Vec<PathBuf>> {
        let making = self.making.as_ref().map(|name| format!("{MAKING}{name}"));
        let mut found = Vec::new();
        for entry in std::fs::read_dir(&self.keeping.directory).context("the checkpoints")? {
            let entry = entry?;
            let name = entry.file_name();
            let name = name.to_string_lossy();
            let is_ours = name.starts_with(MAKING) || name.starts_with(REMOVED);
            let is_busy =
                making.as_deref() == Some(&*name) || self.removals.contains(&entry.path());
            if is_ours && !is_busy {
                found.push(entry.path());
            }
        }
        found.sort();
        Ok(found)
    }

    /// Makes the directory of a new one. Gives what its files go into, and how many bytes may.
    pub(super) fn begin(
        &mut self,
        name: CheckpointName,
        owner: u32,
    ) -> Result<(OwnedFd, u64), Failed> {
        if let Some(other) = &self.making {
            return Err(failed(
                "checkpoint_busy",
                &format!("the checkpoint `{other}` is being made"),
                "one is made at a time: try again",
            ));
        }
        let all = self.list()?;
        if self
            .keeping
            .directory
            .join(name.as_str())
            .symlink_metadata()
            .is_ok()
        {
            return Err(failed(
                "checkpoint_exists",
                &format!("there is a checkpoint `{name}`"),
                "choose another name, or remove it with `torno session checkpoint rm`",
            ));
        }
        let held = all
            .iter()
            .fold(0_u64, |sum, one| sum.saturating_add(one.bytes));
        let room = self.keeping.bytes.saturating_sub(held);
        if all.len() >= self.keeping.most || room == 0 {
            return Err(failed(
                "checkpoints_full",
                &format!("{} checkpoints are kept, with {held} bytes", all.len()),
                "remove one with `torno session checkpoint rm`, or raise `checkpoints` and \
                 `checkpoint_mib` in tornod.toml",
            ));
        }
        let owner = if self.root { owner } else { 0 };
        let make = || -> anyhow::Result<OwnedFd> {
            let all = open_directory(&self.keeping.directory)?;
            let made = format!("{MAKING}{name}");
            remove_tree(&self.keeping.directory.join(&made))?;
            let own = make_directory(all.as_fd(), &made)?;
            let tree = make_directory(own.as_fd(), TREE)?;
            rustix::fs::fchown(&tree, Some(Uid::from_raw(owner)), None)?;
            Ok(tree)
        };
        let tree = make().map_err(|e| Failed::internal(&format!("{e:#}")))?;
        self.making = Some(name);
        Ok((tree, room))
    }

    /// It is whole, and recorded: from here on it is found.
    pub(super) fn keep(&mut self, about: &Checkpoint, baseline: OwnedFd) -> Result<(), Failed> {
        let keep = || -> anyhow::Result<()> {
            ensure!(
                self.making.as_ref() == Some(&about.name),
                "it is not being made"
            );
            let all = open_directory(&self.keeping.directory)?;
            let made = format!("{MAKING}{}", about.name);
            let own = open_at(all.as_fd(), made.as_str())?;
            let mut kept = create(own.as_fd(), BASELINE)?;
            std::io::copy(&mut File::from(baseline), &mut kept).context("its baseline")?;
            kept.sync_all()?;
            let mut kept = create(own.as_fd(), ABOUT)?;
            kept.write_all(&serde_json::to_vec(about)?)?;
            kept.sync_all()?;
            rustix::fs::fsync(&own)?;
            let free = rustix::fs::RenameFlags::NOREPLACE;
            rustix::fs::renameat_with(&all, made.as_str(), &all, about.name.as_str(), free)?;
            Ok(rustix::fs::fsync(&all)?)
        };
        keep().map_err(|e| Failed::internal(&format!("the checkpoint: {e:#}")))?;
        self.making = None;
        Ok(())
    }

    /// It is not wanted after all.
    pub(super) fn give_up(&mut self, name: &CheckpointName) -> Result<(), Failed> {
        if self.making.as_ref() != Some(name) {
            return Ok(());
        }
        self.making = None;
        self.remove_aside(&format!("{MAKING}{name}"), name)
    }

    /// Every one, the oldest first.
    pub(super) fn list(&self) -> Result<Vec<Checkpoint>, Failed> {
        let list = || -> anyhow::Result<Vec<Checkpoint>> {
            let mut all = Vec::new();
            for entry in std::fs::read_dir(&self.keeping.directory)? {
                let name = entry?.file_name();
                let name = name
                    .to_str()
                    .and_then(|name| CheckpointName::parse(name).ok());
                match name.map(|name| self.about(&name)) {
                    Some(Ok(about)) => all.push(about),
                    // One that can't be read keeps nobody from the others.
                    Some(Err(error)) => tracing::warn!("a checkpoint: {error:#}"),
                    None => {}
                }
            }
            all.sort_by(|a, b| (a.made_at, &a.name).cmp(&(b.made_at, &b.name)));
            Ok(all)
        };
        list().map_err(|e| Failed::internal(&format!("the checkpoints: {e:#}")))
    }

    /// Those that are older than they are kept for, at this time.
    pub(super) fn forgotten(&self, now: u64) -> Result<Vec<Checkpoint>, Failed> {
        let mut all = self.list()?;
        all.retain(|one| now.saturating_sub(one.made_at) > self.keeping.age);
        Ok(all)
    }

    /// What is known of one, and its files.
    pub(super) fn open(&self, name: &CheckpointName) -> Result<(Checkpoint, OwnedFd), Failed> {
        let open = || Ok((self.about(name)?, open_at(self.own(name)?.as_fd(), TREE)?));
        open().map_err(|e: anyhow::Error| missing(name, &e))
    }

    /// What lay in the workspace of its session when that began.
    pub(super) fn baseline(&self, name: &CheckpointName) -> Result<(Checkpoint, OwnedFd), Failed> {
        let open = || {
            Ok((
                self.about(name)?,
                read_only(self.own(name)?.as_fd(), BASELINE)?,
            ))
        };
        open().map_err(|e: anyhow::Error| missing(name, &e))
    }

    /// Lets go of one.
    pub(super) fn remove(&mut self, name: &CheckpointName) -> Result<(), Failed> {
        self.own(name).map_err(|e| missing(name, &e))?;
        self.remove_aside(name.as_str(), name)
    }

    /// Lets go of one that was found before; another one that has its name now stays.
    pub(super) fn remove_found(&mut self, found: &Checkpoint) -> Result<(), Failed> {
        let about = self.about(&found.name);
        if about.map_err(|e| missing(&found.name, &e))? != *found {
            return Err(failed(
                "checkpoint_changed",
                &format!(
                    "`{}` is another checkpoint than the one that was found",
                    found.name
                ),
                "`torno gc` names what lies about now",
            ));
        }
        self.remove(&found.name)
    }

    /// Moves a directory aside at once, and empties it beside us.
    fn remove_aside(&mut self, from: &str, name: &CheckpointName) -> Result<(), Failed> {
        self.aside += 1;
        let aside = format!("{REMOVED}{name}-{}", self.aside);
        let aside = self.keeping.directory.join(aside);
        let moved = std::fs::rename(self.keeping.directory.join(from), &aside);
        moved.map_err(|e| Failed::internal(&format!("`{name}`: {e}")))?;
        // Nobody waits for it.
        drop(self.removals.begin(aside, remove_tree));
        Ok(())
    }

    /// Removes what [`Self::unfinished`] found.
    pub(super) fn remove_unfinished(&self, path: PathBuf) {
        drop(self.removals.begin(path, remove_tree));
    }

    fn own(&self, name: &CheckpointName) -> anyhow::Result<OwnedFd> {
        let all = open_directory(&self.keeping.directory)?;
        Ok(open_at(all.as_fd(), name.as_str())?)
    }

    fn about(&self, name: &CheckpointName) -> anyhow::Result<Checkpoint> {
        let file = read_only(self.own(name)?.as_fd(), ABOUT)?;
        let mut text = Vec::new();
        File::from(file)
            .take(ABOUT_BYTES_MAX)
            .read_to_end(&mut text)?;
        let about: Checkpoint = serde_json::from_slice(&text)
            .with_context(|| format!("`{name}` is not what this version writes"))?;
        if about.name != *name {
            bail!("`{name}` says that it is `{}`", about.name);
        }
        Ok(about)
    }
}

fn create(at: BorrowedFd<'_>, name: &str) -> anyhow::Result<File> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let made = rustix::fs::openat(at, name, flags, Mode::from_raw_mode(0o600));
    Ok(File::from(made.with_context(|| format!("`{name}`"))?))
}

fn read_only(at: BorrowedFd<'_>, name: &str) -> anyhow::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(at, name, flags, Mode::empty())?)
}

fn missing(name: &CheckpointName, error: &anyhow::Error) -> Failed {
    failed(
        "checkpoint_unknown",
        &format!("there is no checkpoint `{name}`: {error:#}"),
        "`torno session checkpoints` shows what is kept",
    )
}

fn failed(code: &str, message: &str, hint: &str) -> Failed {
    Failed {
        code: code.to_owned(),
        message: message.to_owned(),
        hint: hint.to_owned(),
    }
}

#[cfg(test)]
mod tests;
