// SPDX-License-Identifier: Apache-2.0
//! Tar archives as layers of images have them: POSIX ustar with pax headers, and GNU's long names.
//! Read by our own loop, with every buffer bounded; what could be read in two ways is refused.

mod header;
mod pack;
mod path;
mod pax;
mod reader;

pub use pack::{PackError, Packed, pack};
pub use path::EntryPath;
pub use reader::Reader;

use std::io;
use thiserror::Error;

/// What an entry is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// A regular file, with its size.
    File(u64),
    /// A directory.
    Directory,
    /// A symbolic link and its target, which is text to us.
    Link(Vec<u8>),
    /// Another name of an earlier file.
    HardLink(EntryPath),
    /// A device or FIFO: in no image that we unpack.
    Special,
}

/// One entry, before its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Where; nothing for the root directory itself.
    pub path: EntryPath,
    /// What.
    pub kind: Kind,
    /// The rights of owner, group and others; set-id and sticky bits are dropped.
    pub mode: u32,
    /// Unix seconds of the last change, 0 for what is before 1970.
    pub mtime: i64,
}

/// Why an archive is refused.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ArchiveError {
    /// It can't be read.
    #[error("the archive can't be read")]
    Read(#[source] io::Error),
    /// It ends in the middle.
    #[error("the archive ends in the middle of an entry")]
    Short,
    /// A header whose sum is wrong, or whose numbers are none.
    #[error("the archive has a header that is none: {0}")]
    Header(&'static str),
    /// A path that leads out, or could be read in two ways.
    #[error("the archive names `{path}`, which {why}")]
    Path {
        /// As it is spelled, made inert.
        path: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// A pax header.
    #[error("the archive has a pax header that {0}")]
    Pax(&'static str),
    /// A kind of entry that no layer has.
    #[error("the archive has an entry of type `{0}`, which layers of images don't have")]
    Type(char),
}

#[cfg(test)]
pub(crate) mod tests;

/// A file's header of that size with nothing behind it.
#[cfg(test)]
pub(crate) fn tests_block(name: &[u8], size: u64) -> Vec<u8> {
    pack::block(name, b'0', (0o644, size, 0), b"").to_vec()
}
