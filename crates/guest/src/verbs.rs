// SPDX-License-Identifier: Apache-2.0
//! What can be done with a place: each verb works on handles, follows no link on its own account,
//! and opens nothing but regular files and directories.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{
    AtFlags, Dir, FileType, Mode, OFlags, RenameFlags, Stat, fcntl_getfl, fcntl_setfl, fstat,
    ftruncate, mkdirat, openat, readlinkat, renameat_with, statat, unlinkat,
};
use rustix::io::Errno;
use torno_guest_protocol::message::{LISTING_BYTES_MAX, LISTING_ENTRIES_MAX};
use torno_guest_protocol::{DirectoryEntry, FileFailure, FileKind, FileMetadata, WriteMode};

use crate::place::{Failure, Place};

/// Opens a regular file to read it.
// ATTACK: 174
pub(crate) fn open_to_read(place: &Place) -> Result<(File, FileMetadata), Failure> {
    // Not blocking: a FIFO must not hold the thread.
    let opened = place.open(OFlags::RDONLY | OFlags::NONBLOCK, Mode::empty())?;
    let (file, stat) = only_regular(opened)?;
    Ok((file, metadata_of(&stat)))
}

/// Opens a regular file to write it, or makes one.
// ATTACK: 174
pub(crate) fn open_to_write(place: &Place, mode: u32, write: WriteMode) -> Result<File, Failure> {
    let flags = match write {
        WriteMode::CreateNew => OFlags::CREATE | OFlags::EXCL,
        // Emptied only once it is known to be a regular file.
        WriteMode::Replace => OFlags::CREATE,
        WriteMode::Append => OFlags::CREATE | OFlags::APPEND,
    };
    let opened = place.open(OFlags::WRONLY | OFlags::NONBLOCK | flags, permissions(mode))?;
    let (file, _) = only_regular(opened)?;
    if write == WriteMode::Replace {
        ftruncate(&file, 0)?;
    }
    Ok(file)
}

/// One page of a directory's names, and whether there are more.
pub(crate) fn list(
    place: &Place,
    after: Option<&str>,
) -> Result<(Vec<DirectoryEntry>, bool), Failure> {
    let directory = place.open(OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty())?;
    let mut names = Vec::new();
    for (count, entry) in Dir::read_from(&directory)?.enumerate() {
        if count >= DIRECTORY_NAMES_MAX {
            return Err(Failure::new(
                FileFailure::TooLarge,
                format!("more than {DIRECTORY_NAMES_MAX} names; list it with a command"),
            ));
        }
        let entry = entry?;
        let name = entry.file_name();
        let shown = name.to_string_lossy();
        if name != c"." && name != c".." && after.is_none_or(|after| *shown > *after) {
            names.push((shown.into_owned(), name.to_owned()));
        }
    }
    names.sort();
    let mut entries = Vec::new();
    let mut bytes = 0;
    for (shown, name) in names {
        // JSON writes at most six bytes for one of these, and about 130 for the rest of an entry.
        bytes += 6 * shown.len() + 200;
        if entries.len() == LISTING_ENTRIES_MAX || bytes > LISTING_BYTES_MAX {
            return Ok((entries, true));
        }
        // Gone meanwhile.
        let Ok(stat) = statat(&directory, &name, AtFlags::SYMLINK_NOFOLLOW) else {
            continue;
        };
        let is_lossy = shown.as_bytes() != name.as_bytes();
        entries.push(DirectoryEntry {
            name: shown,
            is_lossy,
            metadata: metadata_of(&stat),
        });
    }
    Ok((entries, false))
}

/// What a place is, and where it points if it is a link.
pub(crate) fn describe(place: &Place) -> Result<(FileMetadata, Option<String>), Failure> {
    let metadata = metadata_of(&place.stat()?);
    let target = match (metadata.kind, place.parent()) {
        (FileKind::Symlink, Ok((directory, name))) => {
            let target = readlinkat(&directory, name, Vec::new())?;
            Some(target.to_string_lossy().into_owned())
        }
        _ => None,
    };
    Ok((metadata, target))
}

/// Makes a directory.
pub(crate) fn make_directory(place: &Place, mode: u32, parents: bool) -> Result<(), Failure> {
    if !parents {
        let (directory, name) = place.parent()?;
        return Ok(mkdirat(&directory, name, permissions(mode))?);
    }
    for step in place.ancestors()? {
        let (directory, name) = step.parent()?;
        match mkdirat(&directory, name, permissions(mode)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
    }
    // What was there already may be something else.
    place
        .open(OFlags::PATH | OFlags::DIRECTORY, Mode::empty())
        .map(drop)
}

/// Renames within one file system.
// ATTACK: 168
pub(crate) fn rename(from: &Place, to: &Place, replace: bool) -> Result<(), Failure> {
    let (old_directory, old_name) = from.parent()?;
    let (new_directory, new_name) = to.parent()?;
    let flags = if replace {
        RenameFlags::empty()
    } else {
        RenameFlags::NOREPLACE
    };
    match renameat_with(&old_directory, old_name, &new_directory, new_name, flags) {
        // Here it isn't a path that leads out.
        Err(Errno::XDEV) => Err(Failure::new(
            FileFailure::Failed,
            "the two places are on different file systems; copy and remove instead",
        )),
        result => Ok(result?),
    }
}

/// Removes a file, a link itself, or a directory.
// ATTACK: 176
pub(crate) fn remove(place: &Place, recursive: bool) -> Result<(), Failure> {
    let (directory, name) = place.parent()?;
    let kind = FileType::from_raw_mode(place.stat()?.st_mode);
    if kind != FileType::Directory {
        return Ok(unlinkat(&directory, name, AtFlags::empty())?);
    }
    if recursive {
        let device = fstat(&directory)?.st_dev;
        empty(directory.as_fd(), name.as_bytes(), device, 0)?;
    }
    Ok(unlinkat(&directory, name, AtFlags::REMOVEDIR)?)
}

/// Removes all that is in the directory `name`, never through a link and never on another mount.
fn empty(parent: BorrowedFd<'_>, name: &[u8], device: u64, depth: usize) -> Result<(), Failure> {
    if depth > REMOVE_DEPTH_MAX {
        return Err(Failure::new(
            FileFailure::TooLarge,
            format!("directories deeper than {REMOVE_DEPTH_MAX}; remove them with a command"),
        ));
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let directory: OwnedFd = openat(parent, name, flags, Mode::empty())?;
    if fstat(&directory)?.st_dev != device {
        return Err(Failure::new(
            FileFailure::Denied,
            "another mount lies within; it stays",
        ));
    }
    for entry in Dir::read_from(&directory)? {
        let entry = entry?;
        let name = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        match unlinkat(&directory, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(Errno::ISDIR) => {
                empty(directory.as_fd(), name.to_bytes(), device, depth + 1)?;
                unlinkat(&directory, name, AtFlags::REMOVEDIR)?;
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Refuses everything that isn't a regular file, and makes it an ordinary blocking one.
fn only_regular(opened: OwnedFd) -> Result<(File, Stat), Failure> {
    let stat = fstat(&opened)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(Failure::new(
            FileFailure::NotAFile,
            "not a regular file; use a command for FIFOs, sockets, devices and directories",
        ));
    }
    fcntl_setfl(&opened, fcntl_getfl(&opened)? - OFlags::NONBLOCK)?;
    Ok((File::from(opened), stat))
}

fn metadata_of(stat: &Stat) -> FileMetadata {
    let kind = match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => FileKind::File,
        FileType::Directory => FileKind::Directory,
        FileType::Symlink => FileKind::Symlink,
        _ => FileKind::Special,
    };
    let bytes = match kind {
        FileKind::File => u64::try_from(stat.st_size).unwrap_or(0),
        FileKind::Directory | FileKind::Symlink | FileKind::Special => 0,
    };
    FileMetadata {
        kind,
        bytes,
        mode: stat.st_mode & 0o7777,
        modified: stat.st_mtime,
    }
}

/// No set-user-id, set-group-id or sticky bits through the link.
fn permissions(mode: u32) -> Mode {
    Mode::from_bits_truncate(mode & 0o777)
}

// LIMIT: 100,000 names are about 25 MiB at their longest.
const DIRECTORY_NAMES_MAX: usize = 100_000;
// LIMIT: each level holds two descriptors and some stack; real trees stay far below.
const REMOVE_DEPTH_MAX: usize = 200;
