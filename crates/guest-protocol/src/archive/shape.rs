// SPDX-License-Identifier: Apache-2.0
//! What makes a row of steps one tree within its limits; the same for who writes it and who reads
//! it.

use super::{ARCHIVE_DEPTH_MAX, ARCHIVE_ENTRIES_MAX, ArchiveError, ArchivePiece, FileName};
use crate::message::PATH_BYTES_MAX;

/// What an entry counts besides its name, and what content is rounded up to: what a file system of
/// the host takes for it, whichever of many small files there are.
const ENTRY_BYTES: u64 = 256;
const BLOCK_BYTES: u64 = 4096;

/// How far a tree has come.
#[derive(Debug)]
pub(super) struct Shape {
    bytes_max: u64,
    bytes_left: u64,
    entries_left: u64,
    /// The directories that are open, the top first; empty once the tree is over.
    open: Vec<Directory>,
    is_in_file: bool,
    /// Bytes of the last block of the file that is open, which were counted already.
    block_left: u64,
}

#[derive(Debug, Default)]
struct Directory {
    /// The name that came last in it.
    last: Option<FileName>,
    /// Bytes of its own path.
    path_bytes: usize,
}

impl Shape {
    pub(super) fn new(bytes_max: u64) -> Self {
        Self {
            bytes_max,
            bytes_left: bytes_max,
            entries_left: ARCHIVE_ENTRIES_MAX,
            open: vec![Directory::default()],
            is_in_file: false,
            block_left: 0,
        }
    }

    /// What was counted.
    pub(super) const fn bytes(&self) -> u64 {
        self.bytes_max - self.bytes_left
    }

    pub(super) fn is_over(&self) -> bool {
        self.open.is_empty()
    }

    pub(super) fn is_in_file(&self) -> bool {
        self.is_in_file
    }

    /// Counts a step, or refuses it.
    // ATTACK: 169, 172
    pub(super) fn step(&mut self, piece: &ArchivePiece) -> Result<(), ArchiveError> {
        let is_of_file = matches!(piece, ArchivePiece::Content(_) | ArchivePiece::FileEnd);
        if is_of_file != self.is_in_file {
            return Err(ArchiveError::Nesting);
        }
        match piece {
            ArchivePiece::Directory(name) => {
                let path_bytes = self.enter(name)?;
                self.spend_bytes(BLOCK_BYTES)?;
                if self.open.len() > ARCHIVE_DEPTH_MAX {
                    return Err(ArchiveError::Depth);
                }
                self.open.push(Directory {
                    last: None,
                    path_bytes,
                });
            }
            ArchivePiece::File { name, .. } => {
                self.enter(name)?;
                self.is_in_file = true;
                self.block_left = 0;
            }
            ArchivePiece::Link { name, target } => {
                self.enter(name)?;
                let is_plain = !target.is_empty() && !target.contains(&0);
                if !is_plain || target.len() >= PATH_BYTES_MAX {
                    return Err(ArchiveError::Target);
                }
                self.spend(target.len())?;
            }
            ArchivePiece::Content(bytes) if bytes.is_empty() => return Err(ArchiveError::Kind),
            ArchivePiece::Content(bytes) => self.spend_content(bytes.len())?,
            ArchivePiece::FileEnd => self.is_in_file = false,
            ArchivePiece::Leave | ArchivePiece::End => {
                let is_at_top = self.open.len() == 1;
                if is_at_top != (*piece == ArchivePiece::End) {
                    return Err(ArchiveError::Nesting);
                }
                self.open.pop();
            }
        }
        Ok(())
    }

    /// Counts an entry of the innermost directory; gives the length of its path.
    fn enter(&mut self, name: &FileName) -> Result<usize, ArchiveError> {
        self.entries_left = self
            .entries_left
            .checked_sub(1)
            .ok_or(ArchiveError::Entries)?;
        let bytes = name.as_bytes().len();
        let directory = self.open.last_mut().ok_or(ArchiveError::Trailing)?;
        if directory.last.as_ref().is_some_and(|last| last >= name) {
            return Err(ArchiveError::Order);
        }
        let path_bytes = directory.path_bytes + bytes + 1;
        if path_bytes > PATH_BYTES_MAX {
            return Err(ArchiveError::Path);
        }
        directory.last = Some(name.clone());
        self.spend(bytes)?;
        self.spend_bytes(ENTRY_BYTES)?;
        Ok(path_bytes)
    }

    /// Counts the blocks that content begins.
    fn spend_content(&mut self, bytes: usize) -> Result<(), ArchiveError> {
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        let beyond = bytes.saturating_sub(self.block_left);
        let blocks = beyond.div_ceil(BLOCK_BYTES).saturating_mul(BLOCK_BYTES);
        self.spend_bytes(blocks)?;
        self.block_left = self.block_left.saturating_add(blocks).saturating_sub(bytes);
        Ok(())
    }

    fn spend(&mut self, bytes: usize) -> Result<(), ArchiveError> {
        self.spend_bytes(u64::try_from(bytes).unwrap_or(u64::MAX))
    }

    fn spend_bytes(&mut self, bytes: u64) -> Result<(), ArchiveError> {
        let bytes_max = self.bytes_max;
        self.bytes_left = self
            .bytes_left
            .checked_sub(bytes)
            .ok_or(ArchiveError::Bytes { bytes_max })?;
        Ok(())
    }
}
