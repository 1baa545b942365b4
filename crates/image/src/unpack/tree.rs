// SPDX-License-Identifier: Apache-2.0
//! The directory that is unpacked into, by handle: every way is opened beneath it (openat2(2)),
//! through directories only. What an archive says of rights is cut down, its owners and attributes
//! are never looked at.

use super::UnpackError;
use crate::archive::{Entry, EntryPath};
use rustix::fs::{
    AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags, Timespec, Timestamps, UTIME_OMIT, fchmod,
    futimens, linkat, mkdirat, openat, openat2, statat, symlinkat, unlinkat,
};
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

/// Rights of a file that come out of an archive. Not set-id bits, and nobody but the store's owner
/// writes.
const FILE_RIGHTS: u32 = 0o755;
/// The owner must be able to read what he unpacked, and to list and remove it.
const FILE_OWNER: u32 = 0o400;
const DIRECTORY_OWNER: u32 = 0o700;

const BENEATH: ResolveFlags = ResolveFlags::BENEATH
    .union(ResolveFlags::NO_SYMLINKS)
    .union(ResolveFlags::NO_MAGICLINKS);
const DIRECTORY: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);
const NEW_FILE: OFlags = OFlags::WRONLY
    .union(OFlags::CREATE)
    .union(OFlags::EXCL)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

#[derive(Debug)]
pub(super) struct Tree {
    root: OwnedFd,
    /// The directory of the last entry: neighbours follow each other.
    last: Option<(EntryPath, OwnedFd)>,
}

impl Tree {
    pub(super) fn new(root: OwnedFd) -> Self {
        Self { root, last: None }
    }

    /// A file with its content, instead of whatever was there.
    pub(super) fn file(
        &mut self,
        entry: &Entry,
        size: u64,
        content: &mut impl Read,
    ) -> Result<(), UnpackError> {
        let (parent, name) = self.place(entry)?;
        let mut write = || -> io::Result<()> {
            let file = openat(parent, name, NEW_FILE, Mode::RUSR | Mode::WUSR)?;
            let mut file = File::from(file);
            if io::copy(&mut content.by_ref().take(size), &mut file)? != size {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            // ATTACK: 171
            fchmod(&file, rights(entry.mode & FILE_RIGHTS | FILE_OWNER))?;
            futimens(&file, &times(entry.mtime))?;
            Ok(())
        };
        write().map_err(|error| made(&entry.path, error))
    }

    /// A directory; one that is there stays, with new rights.
    pub(super) fn directory(&mut self, entry: &Entry, is_new: bool) -> Result<(), UnpackError> {
        let Some((parent, name)) = entry.path.split() else {
            return Ok(());
        };
        let parent = self.parent(&parent)?;
        let there = statat(parent, name, AtFlags::SYMLINK_NOFOLLOW);
        let is_directory = matches!(&there, Ok(found) if kind(found) == FileType::Directory);
        let make = || -> Result<(), Errno> {
            if !is_directory {
                // A lower layer's file or link makes way for it.
                if there.is_ok() && is_new {
                    unlinkat(parent, name, AtFlags::empty())?;
                }
                mkdirat(parent, name, Mode::RWXU)?;
            }
            let directory = openat(parent, name, DIRECTORY, Mode::empty())?;
            fchmod(
                &directory,
                rights(entry.mode & FILE_RIGHTS | DIRECTORY_OWNER),
            )
        };
        make().map_err(|error| made(&entry.path, error))
    }

    /// A symbolic link; its target is text, and nothing here follows it.
    pub(super) fn link(&mut self, entry: &Entry, target: &[u8]) -> Result<(), UnpackError> {
        let (parent, name) = self.place(entry)?;
        let linked = symlinkat(OsStr::from_bytes(target), parent, name);
        linked.map_err(|error| made(&entry.path, error))
    }

    /// Another name for a file that is there already, by whichever layer.
    pub(super) fn hard_link(
        &mut self,
        entry: &Entry,
        target: &EntryPath,
    ) -> Result<(), UnpackError> {
        let through = || UnpackError::Through(target.shown());
        let Some((target_parent, target_name)) = target.split() else {
            return Err(through());
        };
        let holder = self.parent(&target_parent)?.try_clone_to_owned();
        let holder = holder.map_err(|error| made(target, error))?;
        let found = statat(&holder, target_name, AtFlags::SYMLINK_NOFOLLOW);
        // ATTACK: 169
        if found.map(|found| kind(&found)) != Ok(FileType::RegularFile) || *target == entry.path {
            return Err(through());
        }
        let (parent, name) = self.place(entry)?;
        let linked = linkat(&holder, target_name, parent, name, AtFlags::empty());
        linked.map_err(|error| made(&entry.path, error))
    }

    /// Takes away what is there, with all below it; nothing there is no error.
    pub(super) fn remove(&mut self, path: &EntryPath) -> Result<(), UnpackError> {
        let Some((parent, name)) = path.split() else {
            return Ok(());
        };
        let parent = match self.existing(&parent) {
            Ok(parent) => parent,
            Err(Errno::NOENT) => return Ok(()),
            Err(error) => return Err(way(&parent, error)),
        };
        let removed = remove_at(parent.as_fd(), name);
        // What is kept open may be what went.
        self.last = None;
        removed.map_err(|error| made(path, error))
    }

    /// Takes away what lower layers have in a directory.
    pub(super) fn empty(
        &mut self,
        path: &EntryPath,
        ours: &BTreeSet<EntryPath>,
    ) -> Result<(), UnpackError> {
        self.last = None;
        let directory = match self.existing(path) {
            Ok(directory) => directory,
            Err(Errno::NOENT) => return Ok(()),
            Err(error) => return Err(way(path, error)),
        };
        let emptied = empty_at(&directory, path, ours);
        emptied.map_err(|error| made(path, error))
    }

    /// The parent of an entry that is no directory, and its name there, where nothing is now.
    fn place<'a>(&mut self, entry: &'a Entry) -> Result<(BorrowedFd<'_>, &'a OsStr), UnpackError> {
        let Some((parent_path, name)) = entry.path.split() else {
            return Err(UnpackError::Through(entry.path.shown()));
        };
        let parent = self.parent(&parent_path)?;
        let removed = remove_at(parent, name);
        removed.map_err(|error| made(&entry.path, error))?;
        Ok((parent, name))
    }

    /// A directory of the tree, made where it is missing: some packers leave parents out.
    fn parent(&mut self, path: &EntryPath) -> Result<BorrowedFd<'_>, UnpackError> {
        let is_known = matches!(&self.last, Some((last, _)) if last == path);
        if !is_known {
            let directory = match self.existing(path) {
                Err(Errno::NOENT) => self.make_way(path)?,
                found => found.map_err(|error| way(path, error))?,
            };
            self.last = Some((path.clone(), directory));
        }
        match &self.last {
            Some((_, directory)) => Ok(directory.as_fd()),
            None => Err(UnpackError::Through(path.shown())),
        }
    }

    fn existing(&self, path: &EntryPath) -> Result<OwnedFd, Errno> {
        if path.is_root() {
            return openat(&self.root, ".", DIRECTORY, Mode::empty());
        }
        openat2(
            &self.root,
            path.as_path(),
            DIRECTORY,
            Mode::empty(),
            BENEATH,
        )
    }

    fn make_way(&self, path: &EntryPath) -> Result<OwnedFd, UnpackError> {
        let mut at =
            openat(&self.root, ".", DIRECTORY, Mode::empty()).map_err(|error| made(path, error))?;
        for name in path.as_path().iter() {
            let is_new = match mkdirat(&at, name, Mode::RWXU) {
                Ok(()) => true,
                Err(Errno::EXIST) => false,
                Err(error) => return Err(made(path, error)),
            };
            at = openat(&at, name, DIRECTORY, Mode::empty()).map_err(|error| way(path, error))?;
            if is_new {
                fchmod(&at, rights(FILE_RIGHTS)).map_err(|error| made(path, error))?;
            }
        }
        Ok(at)
    }
}

/// Removes an entry, and what is below it, by handles. `DEPTH_MAX` bounds how deep it goes.
fn remove_at(parent: BorrowedFd<'_>, name: &OsStr) -> Result<(), Errno> {
    match unlinkat(parent, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => return Ok(()),
        Err(Errno::ISDIR | Errno::PERM) => {}
        Err(error) => return Err(error),
    }
    let directory = openat(parent, name, DIRECTORY, Mode::empty())?;
    for name in names(&directory)? {
        remove_at(directory.as_fd(), OsStr::from_bytes(&name))?;
    }
    unlinkat(parent, name, AtFlags::REMOVEDIR)
}

/// What of a directory is this layer's own stays, and what leads to it.
fn empty_at(
    directory: &OwnedFd,
    path: &EntryPath,
    ours: &BTreeSet<EntryPath>,
) -> Result<(), Errno> {
    for name in names(directory)? {
        let inner = path.join(&name);
        let is_ours = ours.contains(&inner);
        let leads = inner.leads_to(ours);
        let name = OsStr::from_bytes(&name);
        let is_directory =
            kind(&statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)?) == FileType::Directory;
        if is_directory && (is_ours || leads) {
            let directory = openat(directory, name, DIRECTORY, Mode::empty())?;
            empty_at(&directory, &inner, ours)?;
        } else if !is_ours {
            remove_at(directory.as_fd(), name)?;
        }
    }
    Ok(())
}

fn names(directory: &OwnedFd) -> Result<Vec<Vec<u8>>, Errno> {
    let mut names = Vec::new();
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." {
            names.push(name.to_vec());
        }
    }
    Ok(names)
}

fn kind(found: &rustix::fs::Stat) -> FileType {
    FileType::from_raw_mode(found.st_mode)
}

fn rights(mode: u32) -> Mode {
    Mode::from_raw_mode(mode)
}

/// The last change as the archive says it: Python takes its compiled files for stale otherwise.
fn times(mtime: i64) -> Timestamps {
    Timestamps {
        last_access: Timespec {
            tv_sec: 0,
            tv_nsec: UTIME_OMIT,
        },
        last_modification: Timespec {
            tv_sec: mtime,
            tv_nsec: 0,
        },
    }
}

fn made(path: &EntryPath, error: impl Into<io::Error>) -> UnpackError {
    UnpackError::Entry {
        path: path.shown(),
        source: error.into(),
    }
}

/// A way that does not lead through directories.
fn way(path: &EntryPath, error: Errno) -> UnpackError {
    match error {
        Errno::LOOP | Errno::NOTDIR | Errno::XDEV => UnpackError::Through(path.shown()),
        error => made(path, error),
    }
}
