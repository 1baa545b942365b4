// SPDX-License-Identifier: Apache-2.0
//! The journal of sandboxes that are made ahead: a directory with the sandbox's name, made before
//! anything of it and gone after everything of it, so that a launcher that starts after a crash
//! finds what the one before it had. At the claim it learns whose the sandbox is.

use super::places::open_directory;
use super::removal::remove_tree;
use super::sandboxes::Failed;
use anyhow::Context;
use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use torno_control_api::images::Held;
use torno_policy::names::SessionId;
use torno_sandbox::{CgroupHost, SandboxId};

/// Beside the sessions' directories; no session is called so.
pub(super) const AHEAD: &str = ".ahead";
/// In an entry: the session that claimed it.
const SESSION: &str = "session";
/// In an entry until the claim: the empty directory that the sandbox has as its workspace.
const WORKSPACE: &str = "workspace";

/// The sandboxes that an earlier life wrote down.
pub(super) fn written(directory: &Path) -> anyhow::Result<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    let entries = match std::fs::read_dir(directory.join(AHEAD)) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(names),
        entries => entries.context("the journal of sandboxes made ahead")?,
    };
    for entry in entries {
        names.extend(entry?.file_name().to_str().map(str::to_owned));
    }
    Ok(names)
}

/// The journal of this life.
pub(super) struct Journal {
    directory: PathBuf,
    cgroups: CgroupHost,
    /// The sandboxes that somebody holds.
    living: Living,
}

type Living = Arc<Mutex<BTreeSet<SandboxId>>>;

/// One sandbox in it, for as long as this lives.
pub(super) struct Entry {
    id: SandboxId,
    path: PathBuf,
    /// Where its group lies while there is anything of it.
    groups: Vec<PathBuf>,
    /// What it is made of.
    image: Option<Held>,
    living: Living,
}

impl Journal {
    /// Begins it, in the sandboxes' directory, which holds nothing of an earlier life any more.
    pub(super) fn begin(directory: &Path, cgroups: CgroupHost) -> anyhow::Result<Self> {
        let own = directory.join(AHEAD);
        make(&own).with_context(|| format!("`{}`", own.display()))?;
        Ok(Self {
            directory: own,
            cgroups,
            living: Living::default(),
        })
    }

    /// Writes a new sandbox down.
    pub(super) fn enter(&self) -> anyhow::Result<Entry> {
        let mut random = [0_u8; 16];
        getrandom::fill(&mut random).context("no random bytes")?;
        let name = data_encoding::BASE32_NOPAD
            .encode(&random)
            .to_ascii_lowercase();
        let id = SandboxId::parse(&name)?;
        let path = self.directory.join(name);
        make(&path).with_context(|| format!("`{}`", path.display()))?;
        let groups = self.cgroups.groups_of(&id);
        lock(&self.living).insert(id.clone());
        Ok(Entry {
            id,
            path,
            groups,
            image: None,
            living: Arc::clone(&self.living),
        })
    }

    /// Entries that nobody holds any more: something of their sandbox could not be ended.
    pub(super) fn left(&self) -> anyhow::Result<Vec<(SandboxId, PathBuf)>> {
        let mut left = Vec::new();
        for entry in std::fs::read_dir(&self.directory).context("the journal")? {
            let entry = entry?;
            let id = entry
                .file_name()
                .to_str()
                .and_then(|name| SandboxId::parse(name).ok());
            // Asked after the listing: one that is entered meanwhile is not in it.
            if let Some(id) = id.filter(|id| !lock(&self.living).contains(id)) {
                left.push((id, entry.path()));
            }
        }
        left.sort();
        Ok(left)
    }
}

impl Entry {
    /// The sandbox's name.
    pub(super) fn id(&self) -> &SandboxId {
        &self.id
    }

    /// Keeps what it is made of where it is, as long as anything of it is left.
    pub(super) fn keep(&mut self, image: Option<Held>) {
        self.image = image;
    }

    /// What it is made of.
    pub(super) fn image(&self) -> Option<&Held> {
        self.image.as_ref()
    }

    /// Where its workspace lies until the claim.
    pub(super) fn workspace(&self) -> PathBuf {
        self.path.join(WORKSPACE)
    }

    /// Makes its workspace, empty, and opens it.
    pub(super) fn make_workspace(&self) -> Result<OwnedFd, Failed> {
        let path = self.workspace();
        let made = make(&path).with_context(|| format!("`{}`", path.display()));
        made.and_then(|()| open_directory(&path))
            .map_err(|e| Failed::internal(&format!("{e:#}")))
    }

    /// Writes down whose it is from now on.
    pub(super) fn claimed_by(&self, session: &SessionId) -> std::io::Result<()> {
        std::fs::write(self.path.join(SESSION), session.as_str())
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.end();
        // Last: until then it is not what somebody forgot.
        lock(&self.living).remove(&self.id);
    }
}

impl Entry {
    fn end(&self) {
        if self.groups.iter().any(|group| group.exists()) {
            // A process of it could not be ended. Forgotten here, nobody would ever look for it.
            tracing::error!(
                "sandbox {} is still there; the next start removes it",
                self.id
            );
            return;
        }
        if let Err(error) = remove_tree(&self.path) {
            tracing::error!(
                "`{}`: {error}; the next start removes it",
                self.path.display()
            );
        }
    }
}

/// The set is consistent after every statement, so a poisoned lock is still good.
fn lock(living: &Living) -> MutexGuard<'_, BTreeSet<SandboxId>> {
    living.lock().unwrap_or_else(PoisonError::into_inner)
}

fn make(path: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    std::fs::DirBuilder::new().mode(0o700).create(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begin(directory: &Path, hierarchy: &Path) -> Journal {
        let cgroups = CgroupHost {
            unified: Some(hierarchy.to_owned()),
            hybrid_mount: None,
            v1: Vec::new(),
        };
        Journal::begin(directory, cgroups).unwrap()
    }

    #[test]
    fn an_entry_stays_for_the_next_start_while_anything_of_its_sandbox_is_left() {
        let (dir, hierarchy) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let journal = begin(dir.path(), hierarchy.path());
        let entry = journal.enter().unwrap();
        let id = entry.id().to_string();
        // What the kernel could not end in time.
        std::fs::create_dir(hierarchy.path().join(format!("torno-{id}"))).unwrap();
        assert_eq!(journal.left().unwrap(), []);
        let named = entry.id().clone();
        drop(entry);
        assert_eq!(written(dir.path()).unwrap(), BTreeSet::from([id]));
        let left = journal.left().unwrap().into_iter();
        assert_eq!(left.map(|(id, _)| id).collect::<Vec<_>>(), [named]);
    }

    #[test]
    fn an_entry_is_there_before_its_sandbox_and_gone_after_it() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(written(dir.path()).unwrap(), BTreeSet::new());
        let journal = begin(dir.path(), &dir.path().join("none"));
        let (kept, other) = (journal.enter().unwrap(), journal.enter().unwrap());
        assert_ne!(kept.id(), other.id());
        kept.claimed_by(&SessionId::parse("s1").unwrap()).unwrap();
        drop(other);
        let names = BTreeSet::from([kept.id().to_string()]);
        assert_eq!(written(dir.path()).unwrap(), names);
        let whose = dir
            .path()
            .join(AHEAD)
            .join(kept.id().as_str())
            .join(SESSION);
        assert_eq!(std::fs::read_to_string(whose).unwrap(), "s1");
        drop(kept);
        assert_eq!(written(dir.path()).unwrap(), BTreeSet::new());
    }
}
