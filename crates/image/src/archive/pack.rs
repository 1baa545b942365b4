// SPDX-License-Identifier: Apache-2.0
//! A directory as a layer: entries in the order of their names, owned by root, with their times.
//! The same directory gives the same bytes.

use super::EntryPath;
use super::header::BLOCK;
use crate::limits::{DEPTH_MAX, PATH_BYTES_MAX};
use crate::unpack::WHITEOUT;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat, openat, readlinkat, statat};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use thiserror::Error;

/// Why a directory was not packed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PackError {
    /// One of its entries.
    #[error("`{0}` can't be packed")]
    Entry(String, #[source] io::Error),
    /// A name that means a removal in a layer.
    #[error("`{0}` has a name that means a removal in a layer; rename it")]
    Whiteout(String),
    /// Too deep.
    #[error("`{0}` is nested too deeply for an image")]
    Deep(String),
}

/// What was packed.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Packed {
    /// Entries.
    pub entries: u64,
    /// Sockets, FIFOs and devices, which no image has.
    pub left_out: u64,
}

const DIRECTORY: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// Packs what lies below a directory. No link is followed.
///
/// # Errors
/// [`PackError`].
pub fn pack(root: impl AsFd, to: &mut dyn Write) -> Result<Packed, PackError> {
    let top = EntryPath::parse(b"./").map_err(|_| PackError::Deep(".".to_owned()))?;
    let directory = openat(root, ".", DIRECTORY, Mode::empty());
    let directory = directory.map_err(|error| of_entry(&top, error))?;
    let mut packing = Packing {
        to,
        packed: Packed::default(),
    };
    packing.below(&directory, &top, 0)?;
    // Two blocks of zeros end an archive.
    let end = packing.to.write_all(&[0; 2 * BLOCK]);
    end.map_err(|error| of_entry(&top, error))?;
    Ok(packing.packed)
}

struct Packing<'a> {
    to: &'a mut dyn Write,
    packed: Packed,
}

impl Packing<'_> {
    fn below(
        &mut self,
        directory: &OwnedFd,
        at: &EntryPath,
        depth: usize,
    ) -> Result<(), PackError> {
        if depth >= DEPTH_MAX {
            return Err(PackError::Deep(at.shown()));
        }
        for name in names(directory).map_err(|error| of_entry(at, error))? {
            let path = at.join(&name);
            if name.starts_with(WHITEOUT) {
                return Err(PackError::Whiteout(path.shown()));
            }
            let name = OsStr::from_bytes(&name);
            let found = statat(directory, name, AtFlags::SYMLINK_NOFOLLOW);
            let found = found.map_err(|error| of_entry(&path, error))?;
            let done = self.entry(directory, name, &path, &found);
            done.map_err(|error| of_entry(&path, error))?;
            if kind_of(&found) == FileType::Directory {
                let inner = openat(directory, name, DIRECTORY, Mode::empty());
                let inner = inner.map_err(|error| of_entry(&path, error))?;
                self.below(&inner, &path, depth + 1)?;
            }
        }
        Ok(())
    }

    fn entry(
        &mut self,
        directory: &OwnedFd,
        name: &OsStr,
        path: &EntryPath,
        found: &Stat,
    ) -> io::Result<()> {
        self.packed.entries += 1;
        match kind_of(found) {
            FileType::Directory => self.header(path, b'5', found, &[]),
            FileType::Symlink => {
                let target = readlinkat(directory, name, Vec::new())?;
                self.header(path, b'2', found, target.as_bytes())
            }
            FileType::RegularFile => {
                // Nothing is waited for, should it have become something else.
                let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
                let file = File::from(openat(directory, name, flags, Mode::empty())?);
                let size = u64::try_from(found.st_size).unwrap_or_default();
                self.header(path, b'0', found, &[])?;
                if io::copy(&mut file.take(size), &mut self.to)? != size {
                    return Err(io::Error::other("it became shorter meanwhile"));
                }
                self.pad(size)
            }
            _ => {
                self.packed.entries -= 1;
                self.packed.left_out += 1;
                Ok(())
            }
        }
    }

    /// A header, behind a pax one where a name does not fit or is no plain text.
    fn header(
        &mut self,
        path: &EntryPath,
        kind: u8,
        found: &Stat,
        target: &[u8],
    ) -> io::Result<()> {
        let fits = |text: &[u8]| text.len() <= NAME_FIELD && text.is_ascii();
        let mut pax = Vec::new();
        for (key, text) in [("path", path.as_bytes()), ("linkpath", target)] {
            if !fits(text) {
                record(&mut pax, key, text);
            }
        }
        if !pax.is_empty() {
            let size = u64::try_from(pax.len()).unwrap_or_default();
            self.to
                .write_all(&block(b"pax", b'x', (0o644, size, 0), b""))?;
            self.to.write_all(&pax)?;
            self.pad(size)?;
        }
        let size = match kind {
            b'0' => u64::try_from(found.st_size).unwrap_or_default(),
            _ => 0,
        };
        let mtime = u64::try_from(found.st_mtime).unwrap_or_default();
        let fields = (found.st_mode & 0o777, size, mtime);
        let cut = |text: &'static [u8], long: &[u8]| {
            if fits(long) {
                long.to_vec()
            } else {
                text.to_vec()
            }
        };
        let (name, target) = (cut(b"pax", path.as_bytes()), cut(b"pax", target));
        self.to.write_all(&block(&name, kind, fields, &target))
    }

    fn pad(&mut self, size: u64) -> io::Result<()> {
        let over = usize::try_from(size % BLOCK as u64).unwrap_or_default();
        let zeros = [0; BLOCK];
        let padding = if over == 0 { 0 } else { BLOCK - over };
        self.to.write_all(zeros.get(..padding).unwrap_or_default())
    }
}

/// Bytes of the name's field and the target's.
const NAME_FIELD: usize = 100;

/// A ustar header with mode, size and time.
pub(super) fn block(
    name: &[u8],
    kind: u8,
    (mode, size, mtime): (u32, u64, u64),
    target: &[u8],
) -> [u8; BLOCK] {
    let mut block = [0; BLOCK];
    let mut put = |at: usize, text: &[u8]| {
        let field = block.iter_mut().skip(at);
        for (to, from) in field.zip(text) {
            *to = *from;
        }
    };
    put(0, name.get(..NAME_FIELD).unwrap_or(name));
    put(100, format!("{mode:07o}\0").as_bytes());
    put(108, b"0000000\0");
    put(116, b"0000000\0");
    put(124, &size_field(size));
    put(136, format!("{:011o}\0", mtime & OCTAL_MAX).as_bytes());
    put(148, b"        ");
    put(156, &[kind]);
    put(157, target.get(..NAME_FIELD).unwrap_or(target));
    put(257, b"ustar\x0000");
    let sum: u64 = block.iter().map(|byte| u64::from(*byte)).sum();
    let mut put = |at: usize, text: &[u8]| {
        for (to, from) in block.iter_mut().skip(at).zip(text) {
            *to = *from;
        }
    };
    put(148, format!("{sum:06o}\0 ").as_bytes());
    block
}

/// What eleven octal digits hold.
const OCTAL_MAX: u64 = (1 << 33) - 1;

/// Octal, or GNU's binary for 8 GiB and more.
fn size_field(size: u64) -> Vec<u8> {
    if size <= OCTAL_MAX {
        return format!("{size:011o}\0").into_bytes();
    }
    let mut field = vec![0x80, 0, 0, 0];
    field.extend_from_slice(&size.to_be_bytes());
    field
}

/// One pax record; its length counts itself.
pub(super) fn record(to: &mut Vec<u8>, key: &str, value: &[u8]) {
    let rest = key.len() + value.len() + 3;
    let mut length = rest;
    while length != rest + length.to_string().len() {
        length = rest + length.to_string().len();
    }
    to.extend_from_slice(format!("{length} {key}=").as_bytes());
    to.extend_from_slice(value);
    to.push(b'\n');
}

fn names(directory: &OwnedFd) -> io::Result<Vec<Vec<u8>>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." {
            names.push(name.to_vec());
        }
    }
    names.sort();
    Ok(names)
}

fn kind_of(found: &Stat) -> FileType {
    FileType::from_raw_mode(found.st_mode)
}

fn of_entry(path: &EntryPath, error: impl Into<io::Error>) -> PackError {
    let shown = path.shown();
    let shown = if shown.is_empty() {
        ".".to_owned()
    } else {
        shown
    };
    PackError::Entry(shown, error.into())
}

// Written names are never longer than what is read back.
const _: () = assert!(NAME_FIELD < PATH_BYTES_MAX);
