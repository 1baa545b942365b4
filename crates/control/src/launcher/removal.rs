// SPDX-License-Identifier: Apache-2.0
//! Removal of a tree that a dead workload made: any depth, any names, links never followed. One
//! descriptor is held, whatever the depth; the way back is `..`, which nobody alive can move.

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};
use std::collections::BTreeSet;
use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The trees that are being emptied beside the loop, or will be.
#[derive(Debug, Clone, Default)]
pub(super) struct Removals(Arc<Mutex<BTreeSet<PathBuf>>>);

impl Removals {
    /// Empties a tree in a thread of its own, and does not wait. What fails is left to `torno gc`
    /// and to the next start.
    pub(super) fn begin(&self, path: PathBuf, remove: fn(&Path) -> io::Result<()>) -> Receiver<()> {
        let (done, is_done) = channel();
        let going = self.clone();
        going.all().insert(path.clone());
        std::thread::spawn(move || {
            if let Err(error) = remove(&path) {
                tracing::error!("`{}`: {error}; `torno gc` removes it", path.display());
            }
            going.all().remove(&path);
            // A caller that no longer waits does not need to know.
            let _ = done.send(());
        });
        is_done
    }

    /// Moves a tree aside in one step and empties it, in the caller's own thread.
    pub(super) fn now(&self, from: &Path, aside: &Path) -> io::Result<()> {
        self.all().insert(aside.to_owned());
        let removed = match std::fs::rename(from, aside) {
            // Somebody else was faster.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            moved => moved.and_then(|()| remove_tree(aside)),
        };
        self.all().remove(aside);
        removed
    }

    /// Whether it is being emptied.
    pub(super) fn contains(&self, path: &Path) -> bool {
        self.all().contains(path)
    }

    /// The set is consistent after every statement, so a poisoned lock is still good.
    fn all(&self) -> MutexGuard<'_, BTreeSet<PathBuf>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// LIMIT: directories that are known by name before they are entered, over all levels. A directory
/// with more of them is read again once these are gone.
const KNOWN_MAX: usize = 65_536;
/// LIMIT: and of one directory.
const BATCH_MAX: usize = 1_024;

/// Removes the directory and everything in it; one that is not there is gone already.
pub(super) fn remove_tree(path: &Path) -> io::Result<()> {
    let mut current = match open(rustix::fs::CWD, path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        opened => opened?,
    };
    // The names of the directories that lead here, and of those beside each that are to be entered.
    let mut above: Vec<(CString, Vec<CString>)> = Vec::new();
    let mut here: Vec<CString> = Vec::new();
    let mut known = 0_usize;
    loop {
        if here.is_empty() {
            let room = KNOWN_MAX.saturating_sub(known).clamp(1, BATCH_MAX);
            here = empty_but_directories(current.as_fd(), room)?;
            known = known.saturating_add(here.len());
        }
        if let Some(directory) = here.pop() {
            known = known.saturating_sub(1);
            current = open(current.as_fd(), &directory)?;
            above.push((directory, std::mem::take(&mut here)));
        } else if let Some((name, beside)) = above.pop() {
            current = open(current.as_fd(), c"..")?;
            rustix::fs::unlinkat(&current, &name, AtFlags::REMOVEDIR)?;
            here = beside;
        } else {
            return std::fs::remove_dir(path);
        }
    }
}

/// Removes entries until so many are directories, and names those.
fn empty_but_directories(current: BorrowedFd<'_>, most: usize) -> io::Result<Vec<CString>> {
    let mut directories = Vec::new();
    for entry in Dir::read_from(current)? {
        let entry = entry?;
        let name = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        let kind = match entry.file_type() {
            FileType::Unknown => {
                let stat = rustix::fs::statat(current, name, AtFlags::SYMLINK_NOFOLLOW)?;
                FileType::from_raw_mode(stat.st_mode)
            }
            known => known,
        };
        if kind == FileType::Directory {
            directories.push(name.to_owned());
            if directories.len() == most {
                break;
            }
            continue;
        }
        rustix::fs::unlinkat(current, name, AtFlags::empty())?;
    }
    Ok(directories)
}

fn open<P: rustix::path::Arg>(at: BorrowedFd<'_>, path: P) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(at, path, flags, Mode::empty())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    // ATTACK: 158
    #[test]
    fn a_tree_deeper_than_descriptors_allow_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().join("top");
        std::fs::create_dir(&top).unwrap();
        let mut at = open(rustix::fs::CWD, &top).unwrap();
        for _ in 0..3_000 {
            rustix::fs::mkdirat(&at, "d", Mode::from_raw_mode(0o700)).unwrap();
            at = open(at.as_fd(), "d").unwrap();
        }
        drop(at);
        remove_tree(&top).unwrap();
        assert!(!top.exists());
    }

    // ATTACK: 158
    #[test]
    fn a_tree_that_is_wide_at_every_level_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().join("top");
        // More than one batch holds, at each of three levels.
        let mut at = top.clone();
        for _ in 0..3 {
            for number in 0..=BATCH_MAX {
                std::fs::create_dir_all(at.join(format!("d{number}"))).unwrap();
                std::fs::write(at.join(format!("f{number}")), "x").unwrap();
            }
            at = at.join("d7");
        }
        remove_tree(&top).unwrap();
        assert!(!top.exists());
    }

    // ATTACK: 176
    #[test]
    fn links_are_removed_and_what_they_point_to_stays() {
        let dir = tempfile::tempdir().unwrap();
        let outside = dir.path().join("outside");
        std::fs::create_dir_all(outside.join("kept")).unwrap();
        let top = dir.path().join("top");
        std::fs::create_dir_all(top.join("a/b")).unwrap();
        std::fs::create_dir_all(top.join("c/x")).unwrap();
        std::os::unix::fs::symlink(&outside, top.join("a/link")).unwrap();
        remove_tree(&top).unwrap();
        assert!(!top.exists());
        assert!(outside.join("kept").exists());
        remove_tree(&top).unwrap();
    }
}
