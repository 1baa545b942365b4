// SPDX-License-Identifier: Apache-2.0
//! Layers → one directory: each in its order over what the earlier ones left, with their removals.
//! Everything happens beneath the handle of that directory.

mod tree;
mod wall;

pub use wall::behind_a_wall;

use crate::archive::{ArchiveError, Entry, EntryPath, Kind, Reader};
use crate::layer;
use crate::limits::Limits;
use std::collections::BTreeSet;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use thiserror::Error;
use torno_policy::names::ImageDigest;
use tree::Tree;

/// A name that begins so says that another is gone.
pub(crate) const WHITEOUT: &[u8] = b".wh.";
/// And this one that everything of the lower layers is, in its directory.
const OPAQUE: &[u8] = b".wh..wh..opq";
/// Names of a union file system that is no more, and whose use of them is nowhere written down.
const AUFS: &[u8] = b".wh..wh.";

/// Why a layer was not unpacked.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum UnpackError {
    /// The archive.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// An entry that can't be made.
    #[error("`{path}` can't be made")]
    Entry {
        /// Where.
        path: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A way through something that is no directory, or a link to something that is no file.
    #[error("`{0}` leads through a link, or to what is no file: a layer may not have that")]
    Through(String),
    /// Two entries of one layer at one place.
    #[error("`{0}` stands in one layer twice")]
    Twice(String),
    /// A removal that is none.
    #[error("`{0}` is no removal that layers may have")]
    Whiteout(String),
    /// Too much.
    #[error("the image has more {0} than an image may have")]
    Limit(&'static str),
    /// What came out is not what the configuration says.
    #[error("a layer unpacks to {found}, and the image's configuration says {said}")]
    Other {
        /// What came out.
        found: ImageDigest,
        /// What was said.
        said: ImageDigest,
    },
    /// The thread.
    #[error("no thread to unpack in")]
    Thread(#[source] io::Error),
}

/// What was unpacked, of all layers.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Unpacked {
    /// Entries that were made.
    pub entries: u64,
    /// Bytes of files.
    pub bytes: u64,
    /// Devices and FIFOs that were left out.
    pub left_out: u64,
}

/// Unpacks layers into one directory.
#[derive(Debug)]
pub struct Unpacker {
    tree: Tree,
    limits: Limits,
    unpacked: Unpacked,
    /// Bytes of archives so far.
    read: u64,
}

impl Unpacker {
    /// Into this directory, which is empty and nobody else's.
    #[must_use]
    pub fn new(directory: OwnedFd, limits: Limits) -> Self {
        Self {
            tree: Tree::new(directory),
            limits,
            unpacked: Unpacked::default(),
            read: 0,
        }
    }

    /// So far.
    #[must_use]
    pub fn unpacked(&self) -> Unpacked {
        self.unpacked
    }

    /// Adds a layer, packed or not. `said` is the digest of what it unpacks to.
    ///
    /// # Errors
    /// [`UnpackError`]; the directory holds a part of the layer then.
    pub fn add(&mut self, packed: impl Read, said: &ImageDigest) -> Result<(), UnpackError> {
        let spare = self.archive_bytes_max().saturating_sub(self.read);
        let layer = layer::open(packed, &self.limits, spare).map_err(ArchiveError::Read)?;
        let mut archive = Reader::new(layer);
        let mut seen = BTreeSet::new();
        while let Some(entry) = archive.next_entry()? {
            self.unpacked.entries += 1;
            if self.unpacked.entries > self.limits.entries {
                return Err(UnpackError::Limit("entries"));
            }
            self.entry(&entry, &mut archive, &mut seen)?;
        }
        let layer = archive.finish()?;
        self.read += layer.length();
        match layer.digest() {
            Some(found) if found == *said => Ok(()),
            Some(found) => Err(UnpackError::Other {
                found,
                said: said.clone(),
            }),
            None => Err(UnpackError::Limit("bytes")),
        }
    }

    /// Content, and a header and padding for each entry.
    fn archive_bytes_max(&self) -> u64 {
        let headers = self.limits.entries.saturating_mul(HEADER_BYTES);
        self.limits.bytes.saturating_add(headers)
    }

    fn entry(
        &mut self,
        entry: &Entry,
        content: &mut impl Read,
        seen: &mut BTreeSet<EntryPath>,
    ) -> Result<(), UnpackError> {
        let Some((parent, name)) = entry.path.split() else {
            // The root directory's own rights are ours to say.
            return Ok(());
        };
        let name = name.as_encoded_bytes();
        if name.starts_with(WHITEOUT) {
            return self.whiteout(entry, &parent, name, seen);
        }
        let is_new = seen.insert(entry.path.clone());
        // Some packers write a directory again before each of its entries.
        if !is_new && entry.kind != Kind::Directory {
            return Err(UnpackError::Twice(entry.path.shown()));
        }
        match &entry.kind {
            Kind::File(size) => {
                self.unpacked.bytes = self.unpacked.bytes.saturating_add(*size);
                if self.unpacked.bytes > self.limits.bytes {
                    return Err(UnpackError::Limit("bytes"));
                }
                self.tree.file(entry, *size, content)
            }
            Kind::Directory => self.tree.directory(entry, is_new),
            Kind::Link(target) => self.tree.link(entry, target),
            Kind::HardLink(target) => self.tree.hard_link(entry, target),
            Kind::Special => {
                self.unpacked.left_out += 1;
                Ok(())
            }
        }
    }

    /// A removal takes what lower layers have and never what this one brought.
    fn whiteout(
        &mut self,
        entry: &Entry,
        parent: &EntryPath,
        name: &[u8],
        seen: &BTreeSet<EntryPath>,
    ) -> Result<(), UnpackError> {
        let refuse = || Err(UnpackError::Whiteout(entry.path.shown()));
        if !matches!(entry.kind, Kind::File(0)) {
            return refuse();
        }
        if name == OPAQUE {
            return self.tree.empty(parent, seen);
        }
        let hidden = name.strip_prefix(WHITEOUT).unwrap_or_default();
        let is_name = !matches!(hidden, b"" | b"." | b"..");
        if !is_name || name.starts_with(AUFS) || hidden.starts_with(WHITEOUT) {
            return refuse();
        }
        let gone = parent.join(hidden);
        if seen.contains(&gone) || gone.leads_to(seen) {
            return Err(UnpackError::Twice(gone.shown()));
        }
        self.tree.remove(&gone)
    }
}

/// A header, and what pads its content.
const HEADER_BYTES: u64 = 2048;

#[cfg(test)]
mod tests;
