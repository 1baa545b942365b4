// SPDX-License-Identifier: Apache-2.0
//! What lies about and belongs to nobody. Each kind is known from what this launcher made and
//! holds: its directories, its journal, and the desk's word on which sessions live. Nothing is
//! taken for ours by its name alone: another daemon may run beside us, with groups named alike.

use super::failed::Failed;
use super::journal;
use super::places;
use super::removal::remove_tree;
use super::sandboxes::Sandboxes;
use crate::found::Found;
use anyhow::Context;
use rustix::fs::{FlockOperation, Mode, OFlags, flock};
use std::collections::BTreeSet;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use torno_control_api::request::{Checkpoint, Leftover, LeftoverKind};
use torno_policy::names::SessionId;
use torno_sandbox::SandboxId;

/// LIMIT: things that are named in one packet; what is more is found by the next request.
const FOUND_MAX: usize = 100;

/// Something that lies about, as it was found.
enum Thing {
    At(LeftoverKind, Found),
    /// The desk's to remove, which records that.
    Forgotten(Checkpoint),
}

impl Sandboxes {
    /// Finds it, and removes it where that is wanted: what was found, and nothing that has its name
    /// since. What can't be removed says why. Checkpoints come with what is known of them.
    pub(super) fn leftovers(
        &mut self,
        living: &BTreeSet<SessionId>,
        remove: bool,
    ) -> Result<(Vec<Leftover>, Vec<Checkpoint>), Failed> {
        // Whatever the desk says: what runs here is somebody's.
        let living: BTreeSet<SessionId> = living.union(&self.live_sessions()).cloned().collect();
        let mut found = self
            .find(&living)
            .map_err(|e| Failed::internal(&format!("{e:#}")))?;
        found.truncate(FOUND_MAX);
        let (mut told, mut forgotten) = (Vec::new(), Vec::new());
        for thing in found {
            match thing {
                Thing::Forgotten(checkpoint) => {
                    let name = checkpoint.name.to_string();
                    told.push(leftover(LeftoverKind::Checkpoint, name));
                    forgotten.push(checkpoint);
                }
                Thing::At(kind, found) => {
                    let let_go = |path| self.let_go(kind, path);
                    told.push(removed(kind, found, remove.then_some(let_go)));
                }
            }
        }
        Ok((told, forgotten))
    }

    /// Groups first: what runs in one may hold the rest.
    fn find(&self, living: &BTreeSet<SessionId>) -> anyhow::Result<Vec<Thing>> {
        let directory = self.places.directory();
        let mut named = places::sessions(directory)?;
        named.extend(journal::written(directory)?);
        let stale = self.journal.left()?;
        let is_stale = |id: &SandboxId| stale.iter().any(|(stale, _)| stale == id);
        let mut found = Vec::new();
        for id in named.iter().filter_map(|name| SandboxId::parse(name).ok()) {
            let session = SessionId::parse(id.as_str()).ok();
            let is_entry = directory.join(journal::AHEAD).join(id.as_str()).exists();
            let is_owned = if is_entry {
                !is_stale(&id)
            } else {
                session.is_some_and(|session| living.contains(&session))
            };
            let groups = self.cgroups().groups_of(&id).into_iter();
            let groups = groups.filter(|group| !is_owned && group.exists());
            found.extend(groups.map(|group| (LeftoverKind::Group, group)));
        }
        found.extend(
            stale
                .into_iter()
                .map(|(_, path)| (LeftoverKind::Journal, path)),
        );
        found.extend(self.places.left(living)?);
        let unfinished = self.checkpoints.unfinished()?.into_iter();
        found.extend(unfinished.map(|path| (LeftoverKind::Unfinished, path)));
        let forgotten = self.checkpoints.forgotten(unix_seconds());
        let forgotten = forgotten.map_err(|failed| anyhow::anyhow!(failed.message))?;
        let unpacked = unfinished_images(self.images.directory())?;
        if let Some((_lock, left)) = unpacked {
            found.extend(left.into_iter().map(|path| (LeftoverKind::Image, path)));
        }
        let mounted = mounts_below(directory)?.into_iter();
        found.extend(mounted.map(|path| (LeftoverKind::Mount, path)));
        let mut things = Vec::new();
        for (kind, path) in found {
            // What is gone by now lies about no more.
            let found = if kind == LeftoverKind::Group {
                Found::group(path)?
            } else {
                Found::at(path)?
            };
            things.extend(found.map(|found| Thing::At(kind, found)));
        }
        things.extend(forgotten.into_iter().map(Thing::Forgotten));
        Ok(things)
    }

    fn let_go(&mut self, kind: LeftoverKind, place: PathBuf) -> anyhow::Result<()> {
        let said = |failed: Failed| anyhow::anyhow!(failed.message);
        match kind {
            LeftoverKind::Group => {
                torno_sandbox::end_group(&place)?;
                Ok(())
            }
            LeftoverKind::Journal => Ok(remove_tree(&place)?),
            LeftoverKind::Session | LeftoverKind::Removal => {
                self.places.remove_left(kind, place).map_err(said)
            }
            LeftoverKind::Unfinished => {
                self.checkpoints.remove_unfinished(place);
                Ok(())
            }
            LeftoverKind::Image => {
                let free = unfinished_images(self.images.directory())?;
                let (_lock, left) = free.context("a `torno image` is at work")?;
                anyhow::ensure!(left.contains(&place), "it is not there any more");
                remove_any(&place)
            }
            LeftoverKind::Mount => anyhow::bail!("unmount it by hand: it was not made by Torno"),
            // The desk's, which records what it removes.
            LeftoverKind::Checkpoint | LeftoverKind::Baseline => Ok(()),
        }
    }
}

/// What broken-off imports left, and the store's lock, so that nobody begins another one meanwhile;
/// nothing while somebody is at work there.
fn unfinished_images(directory: &Path) -> anyhow::Result<Option<(OwnedFd, Vec<PathBuf>)>> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let lock = match rustix::fs::open(directory.join("lock"), flags, Mode::empty()) {
        // Nobody ever brought an image.
        Err(rustix::io::Errno::NOENT) => return Ok(None),
        lock => lock.context("the lock of the images")?,
    };
    if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
        return Ok(None);
    }
    let mut left = Vec::new();
    for part in ["unfinished", "blobs"] {
        let entries = match std::fs::read_dir(directory.join(part)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            entries => entries.context("the images")?,
        };
        for entry in entries {
            left.push(entry?.path());
        }
    }
    left.sort();
    Ok(Some((lock, left)))
}

fn remove_any(path: &Path) -> anyhow::Result<()> {
    // Not through a link.
    if path.symlink_metadata()?.is_dir() {
        return Ok(remove_tree(path)?);
    }
    Ok(std::fs::remove_file(path)?)
}

/// Mounts below the sandboxes' directory in our own namespace. A sandbox's mounts are in its own.
fn mounts_below(directory: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").context("the mounts")?;
    let points = mounts.lines().filter_map(|line| line.split(' ').nth(4));
    let below = points
        .map(PathBuf::from)
        .filter(|point| point.starts_with(directory) && point.as_path() != directory);
    Ok(below.collect())
}

/// What is told of one thing, and of its removal where that is wanted.
fn removed(
    kind: LeftoverKind,
    found: Found,
    remove: Option<impl FnOnce(PathBuf) -> anyhow::Result<()>>,
) -> Leftover {
    let told = leftover(kind, found.to_string());
    match remove.map(|remove| found.still().and_then(remove)) {
        None => told,
        Some(Ok(())) => Leftover { gone: true, ..told },
        Some(Err(error)) => Leftover {
            why: Some(format!("{error:#}")),
            ..told
        },
    }
}

fn leftover(kind: LeftoverKind, place: String) -> Leftover {
    Leftover {
        kind,
        place,
        gone: false,
        why: None,
    }
}

fn unix_seconds() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
    u64::try_from(now.tv_sec).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_import_left_is_found_only_while_nobody_imports() {
        let dir = tempfile::tempdir().unwrap();
        assert!(unfinished_images(dir.path()).unwrap().is_none());
        for part in ["unfinished/tree/a", "blobs", "unpacked/ab"] {
            std::fs::create_dir_all(dir.path().join(part)).unwrap();
        }
        let lock = std::fs::File::create(dir.path().join("lock")).unwrap();
        std::fs::write(dir.path().join("blobs/ab"), "x").unwrap();
        flock(&lock, FlockOperation::NonBlockingLockExclusive).unwrap();
        assert!(unfinished_images(dir.path()).unwrap().is_none());
        drop(lock);
        let (_lock, left) = unfinished_images(dir.path()).unwrap().unwrap();
        let right = ["blobs/ab", "unfinished/tree"].map(|part| dir.path().join(part));
        let mut right = right.to_vec();
        right.sort();
        assert_eq!(left, right);
        for path in left {
            remove_any(&path).unwrap();
        }
        assert!(dir.path().join("unpacked/ab").exists());
    }

    #[test]
    fn what_was_made_again_since_it_was_found_stays_and_that_is_said() {
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path().join("session");
        for kind in [
            LeftoverKind::Group,
            LeftoverKind::Journal,
            LeftoverKind::Session,
            LeftoverKind::Removal,
            LeftoverKind::Unfinished,
            LeftoverKind::Image,
        ] {
            std::fs::create_dir_all(at.join("deep")).unwrap();
            let found = || Found::at(at.clone()).unwrap().unwrap();
            let go = |path: PathBuf| Ok(remove_tree(&path)?);
            assert!(!removed(kind, found(), Some(go).filter(|_| false)).gone && at.exists());
            let before = found();
            std::thread::sleep(std::time::Duration::from_millis(20));
            remove_tree(&at).unwrap();
            std::fs::create_dir_all(at.join("deep")).unwrap();
            let told = removed(kind, before, Some(go));
            assert!(!told.gone && at.exists(), "{told:?}");
            assert!(told.why.unwrap().contains("not what was found"));
            assert!(removed(kind, found(), Some(go)).gone && !at.exists());
        }
    }

    #[test]
    fn only_mounts_below_the_directory_are_named() {
        assert_eq!(
            mounts_below(Path::new("/proc")).unwrap(),
            Vec::<PathBuf>::new()
        );
        let all = mounts_below(Path::new("/")).unwrap();
        assert!(all.contains(&PathBuf::from("/proc")), "{all:?}");
        assert!(!all.contains(&PathBuf::from("/")));
    }
}
