// SPDX-License-Identifier: Apache-2.0
//! The verifier: needs the files and the public key, changes nothing, and stops at the first fault
//! with its place.
//!
//! It reads every line once and compares the tree with every signed head on the way. Heads that
//! somebody else kept (a witness, an earlier look, a backup) are compared too: two histories can't
//! both pass.

use crate::checkpoint::{Checkpoint, CheckpointError, HistoryError, PublicKey};
use crate::directory::{CHECKPOINT, Directory};
use crate::line::LineError;
use crate::recovery::NOTE_BYTES_MAX;
use crate::tree::TreeHead;
use std::io;
use std::path::Path;
use thiserror::Error;

mod walk;

use walk::{Heads, Walk};

/// The first thing that does not fit.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum VerifyError {
    /// The files can't be read.
    #[error("the record's files can't be read; check the directory and its owner")]
    Files(#[from] io::Error),
    /// There is nothing to verify.
    #[error("the directory holds no record")]
    Empty,
    /// A file has a segment's prefix without its form.
    #[error("the record's directory holds a file that only looks like a segment; move it away")]
    OddFile,
    /// A place in a segment.
    #[error("`{segment}`, line {line}, byte {byte}: {fault}")]
    Segment {
        /// The segment's file.
        segment: String,
        /// The line, from 1.
        line: u64,
        /// Where it starts.
        byte: u64,
        /// What does not fit.
        fault: SegmentFault,
    },
    /// The file of checkpoints.
    #[error("the checkpoints do not count")]
    History(#[from] HistoryError),
    /// The newest checkpoint's own file.
    #[error("the newest checkpoint does not count")]
    Newest(#[source] CheckpointError),
    /// Its file and the history disagree.
    #[error("the newest checkpoint is not the last of the history")]
    NewestDiffers,
    /// Sizes of signed heads went down.
    #[error("a checkpoint of size {size} follows a larger one")]
    Order {
        /// The smaller size.
        size: u64,
    },
    /// There are records of acts and no signed head at all.
    #[error("no record is signed: the checkpoints were removed")]
    Unsigned,
    /// Signed records are not there.
    #[error("{signed} records were signed and {found} are there")]
    Lost {
        /// The signed size.
        signed: u64,
        /// Records that are there.
        found: u64,
    },
    /// Records at the beginning are missing and no record says that they were pruned.
    #[error("records before {first} are missing, and no record says that they were pruned")]
    Gap {
        /// The first record that is there.
        first: u64,
    },
    /// A head that somebody kept has another root, or records that are not here.
    #[error("a kept head of size {size} is of another history")]
    TwoHistories {
        /// The kept head's size.
        size: u64,
    },
    /// A kept head lies among pruned records, and the history has no head of its size.
    #[error("a kept head of size {size} lies among pruned records and can't be compared")]
    Uncomparable {
        /// The kept head's size.
        size: u64,
    },
}

/// What does not fit at a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SegmentFault {
    /// The line itself.
    #[error(transparent)]
    Line(#[from] LineError),
    /// The header's key.
    #[error("the segment belongs to another key")]
    Key,
    /// The header does not go on where the segment before ended.
    #[error("the segment does not go on where the one before it ended")]
    Chain,
    /// The file's name is not the header's place.
    #[error("the file's name is not its first record's place")]
    Name,
    /// A record stands at another's place.
    #[error("record {found} stands where {expected} belongs")]
    Sequence {
        /// What should stand there.
        expected: u64,
        /// What stands there.
        found: u64,
    },
    /// A signed head has another root: a record at or before this place, after the last head that
    /// fitted, was changed.
    #[error("records {after}..{size} are not those that were signed")]
    Root {
        /// Size of the last head that fitted.
        after: u64,
        /// Size of the head that does not.
        size: u64,
    },
    /// A segment in the middle ends without newline.
    #[error("the segment ends in the middle of a line")]
    Unended,
}

/// What was verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Report {
    /// Segments read.
    pub segments: u64,
    /// The first record that is there: over 0 when older ones were pruned.
    pub first: u64,
    /// Records read.
    pub records: u64,
    /// Signed heads that fitted.
    pub checkpoints: u64,
    /// Size and root of what is there.
    pub head: TreeHead,
    /// Records after the newest signed head: written, not yet signed.
    pub unsigned: u64,
    /// Bytes of an unfinished last line: a writer at work, or a crash that the next start repairs.
    pub torn_bytes: u64,
}

/// Verifies a whole record, and that every head in `kept` belongs to it.
///
/// # Errors
/// The first fault, with its place.
pub fn verify(path: &Path, key: &PublicKey, kept: &[TreeHead]) -> Result<Report, VerifyError> {
    let (directory, _) = Directory::open(path)?;
    // In the order in which a writer beside us makes them newer: what was signed is there to read.
    let newest = newest_checkpoint(&directory, key)?;
    let heads = Heads::open(&directory, key)?;
    let (segments, odd) = directory.segments()?;
    if odd {
        return Err(VerifyError::OddFile);
    }
    let Some((&first, &last)) = segments.first().zip(segments.last()) else {
        return Err(VerifyError::Empty);
    };
    // The newest checkpoint's own file is one more kept head.
    let own = newest.as_ref().map(Checkpoint::head);
    let kept = kept.iter().copied().chain(own).collect();
    let mut walk = Walk::new(heads, kept, first.0);
    walk.heads_before(first.0)?;
    for &segment in &segments {
        walk.segment(&directory, segment, segment == last, key)?;
    }
    walk.end(newest.as_ref())
}

fn newest_checkpoint(
    directory: &Directory,
    key: &PublicKey,
) -> Result<Option<Checkpoint>, VerifyError> {
    let Some(note) = directory.read_small(CHECKPOINT, NOTE_BYTES_MAX)? else {
        return Ok(None);
    };
    String::from_utf8(note)
        .map_err(|_| CheckpointError::Form)
        .and_then(|note| Checkpoint::parse(&note, key))
        .map(Some)
        .map_err(VerifyError::Newest)
}

#[cfg(test)]
mod tests;
