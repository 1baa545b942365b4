// SPDX-License-Identifier: Apache-2.0
//! Files below one directory → the steps of a tree, by handle: no link is followed, and what is
//! neither file, directory nor link is left out. Nothing that programs made is trusted; the host
//! trusts this less.

use std::ffi::CString;
use std::fs::File;
use std::io::Read as _;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::path::Path;

use bytes::{Bytes, BytesMut};
use rustix::fs::{AtFlags, Stat};
use rustix::fs::{CWD, Dir, FileType, Mode, OFlags, fstat, openat, readlinkat, statat};
use torno_guest_protocol::{
    ARCHIVE_PIECE_BYTES_MAX, ArchivePiece, ArchiveWriter, FileFailure, FileName,
};

use crate::files::Stop;
use crate::place::Failure;

/// Packs a directory. `flow` takes bytes from the front as it sees fit; what is left is returned.
// ATTACK: 164, 174
pub(super) fn pack(
    root: &Path,
    bytes_max: u64,
    flow: &mut dyn FnMut(&mut BytesMut) -> Result<(), Stop>,
) -> Result<BytesMut, Stop> {
    let mut packing = Packing {
        writer: ArchiveWriter::new(bytes_max),
        out: BytesMut::new(),
        flow,
    };
    let root = openat(CWD, root, DIRECTORY, Mode::empty())?;
    packing.directory(root.as_fd())?;
    packing.put(&ArchivePiece::End)?;
    Ok(packing.out)
}

struct Packing<'f> {
    writer: ArchiveWriter,
    out: BytesMut,
    flow: &'f mut dyn FnMut(&mut BytesMut) -> Result<(), Stop>,
}

impl Packing<'_> {
    fn put(&mut self, piece: &ArchivePiece) -> Result<(), Stop> {
        self.writer
            .put(piece, &mut self.out)
            .map_err(Failure::from)?;
        (self.flow)(&mut self.out)
    }

    /// What lies in a directory. The writer bounds how deep that goes.
    fn directory(&mut self, directory: BorrowedFd<'_>) -> Result<(), Stop> {
        for name in names(directory)? {
            let Ok(stat) = statat(directory, &name, AtFlags::SYMLINK_NOFOLLOW) else {
                // Gone since it was listed.
                continue;
            };
            let entry = FileName::parse(name.as_bytes()).map_err(Failure::from)?;
            match FileType::from_raw_mode(stat.st_mode) {
                FileType::Directory => {
                    let below = openat(directory, &name, DIRECTORY, Mode::empty())?;
                    self.put(&ArchivePiece::Directory(entry))?;
                    self.directory(below.as_fd())?;
                    self.put(&ArchivePiece::Leave)?;
                }
                FileType::RegularFile => {
                    let (file, stat) = open_file(directory, &name)?;
                    let is_program = stat.st_mode & 0o100 != 0;
                    let name = entry;
                    self.put(&ArchivePiece::File { name, is_program })?;
                    self.content(file, &stat)?;
                    self.put(&ArchivePiece::FileEnd)?;
                }
                FileType::Symlink => {
                    let target = readlinkat(directory, &name, Vec::new())?.into_bytes();
                    let (name, target) = (entry, target.into());
                    self.put(&ArchivePiece::Link { name, target })?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// A file as long as it was when it was opened: one that grows must not go on for ever.
    fn content(&mut self, file: File, stat: &Stat) -> Result<(), Stop> {
        let mut file = file.take(u64::try_from(stat.st_size).unwrap_or(0));
        let mut buffer = vec![0; ARCHIVE_PIECE_BYTES_MAX];
        loop {
            let count = file.read(&mut buffer)?;
            let bytes = buffer.get(..count).unwrap_or_default();
            if bytes.is_empty() {
                return Ok(());
            }
            self.put(&ArchivePiece::Content(Bytes::copy_from_slice(bytes)))?;
        }
    }
}

/// The names of a directory in the order of an archive.
fn names(directory: BorrowedFd<'_>) -> Result<Vec<CString>, Failure> {
    let mut names = Vec::new();
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        if names.len() >= NAMES_MAX {
            return Err(Failure::new(
                FileFailure::TooLarge,
                format!("a directory has more than {NAMES_MAX} names; remove some"),
            ));
        }
        names.push(name.to_owned());
    }
    names.sort_unstable();
    Ok(names)
}

/// Opens a regular file; what became something else since it was listed is refused.
fn open_file(directory: BorrowedFd<'_>, name: &CString) -> Result<(File, Stat), Failure> {
    let file = openat(directory, name, READ_FILE, Mode::empty())?;
    let stat = fstat(&file)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        let changed = "a file became something else while it was read; try again";
        return Err(Failure::new(FileFailure::NotAFile, changed));
    }
    Ok((File::from(file), stat))
}

// LIMIT: names are held in memory to be sorted; real directories have a few thousand.
const NAMES_MAX: usize = 200_000;
const DIRECTORY: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);
/// Not blocking: a FIFO that took a file's place must not hold the thread.
const READ_FILE: OFlags = OFlags::RDONLY
    .union(OFlags::NOFOLLOW)
    .union(OFlags::NONBLOCK)
    .union(OFlags::CLOEXEC);
