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

/// Removes the directory and everything in it; one that is not there is gone already.
pub(super) fn remove_tree(path: &Path) -> io::Result<()> {
    let mut current = match open(rustix::fs::CWD, path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        opened => opened?,
    };
    let mut above: Vec<CString> = Vec::new();
    loop {
        if let Some(directory) = empty_up_to_a_directory(current.as_fd())? {
            current = open(current.as_fd(), &directory)?;
            above.push(directory);
        } else if let Some(name) = above.pop() {
            current = open(current.as_fd(), c"..")?;
            rustix::fs::unlinkat(&current, &name, AtFlags::REMOVEDIR)?;
        } else {
            return std::fs::remove_dir(path);
        }
    }
}

/// Removes entries until one is a directory, and names that.
fn empty_up_to_a_directory(current: BorrowedFd<'_>) -> io::Result<Option<CString>> {
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
            return Ok(Some(name.to_owned()));
        }
        rustix::fs::unlinkat(current, name, AtFlags::empty())?;
    }
    Ok(None)
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
