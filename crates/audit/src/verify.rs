// SPDX-License-Identifier: Apache-2.0
//! The verifier: needs the files and the public key, changes nothing, and stops at the first fault
//! with its place.
//!
//! It reads every line once and compares the tree with every signed head on the way. Heads that
//! somebody else kept (a witness, an earlier look, a backup) are compared too: two histories can't
//! both pass.

use crate::checkpoint::{Checkpoint, CheckpointError, PublicKey};
use crate::directory::{CHECKPOINT, CHECKPOINTS, Directory, SegmentName};
use crate::history::{History, HistoryError, Step};
use crate::line::{self, Header, LINE_BYTES_MAX, LineError};
use crate::reader::{Line, Lines};
use crate::record::Event;
use crate::recovery::NOTE_BYTES_MAX;
use crate::tree::{Frontier, TreeHead, leaf_hash};
use std::fs::File;
use std::io::{self, BufReader};
use std::path::Path;
use thiserror::Error;

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
    let (segments, odd) = directory.segments()?;
    if odd {
        return Err(VerifyError::OddFile);
    }
    let Some((&first, &last)) = segments.first().zip(segments.last()) else {
        return Err(VerifyError::Empty);
    };
    let newest = newest_checkpoint(&directory, key)?;
    // The newest checkpoint's own file is one more kept head.
    let own = newest.as_ref().map(Checkpoint::head);
    let kept = kept.iter().copied().chain(own).collect();
    let mut walk = Walk::new(Heads::open(&directory, key)?, kept, first.0);
    walk.heads_before(first.0)?;
    for &segment in &segments {
        walk.segment(&directory, segment, segment == last, key)?;
    }
    walk.end(newest.as_ref())
}

/// Signed heads in order, with one read ahead.
struct Heads<'a> {
    history: Option<History<'a, BufReader<File>>>,
    next: Option<TreeHead>,
    /// Size of the last one read.
    last: Option<u64>,
}

impl<'a> Heads<'a> {
    fn open(directory: &Directory, key: &'a PublicKey) -> Result<Self, VerifyError> {
        let file = directory.read(CHECKPOINTS)?;
        let history = file.map(|file| History::new(BufReader::new(file), key));
        let mut heads = Self {
            history,
            next: None,
            last: None,
        };
        heads.advance()?;
        Ok(heads)
    }

    fn advance(&mut self) -> Result<(), VerifyError> {
        let before = self.next.take().map_or(0, |head| head.size);
        let Some(history) = &mut self.history else {
            return Ok(());
        };
        match history.step()? {
            Some(Step::Note(checkpoint)) => {
                let head = checkpoint.head();
                if head.size < before {
                    return Err(VerifyError::Order { size: head.size });
                }
                self.next = Some(head);
                self.last = Some(head.size);
            }
            // A torn note is a crash of the writer: the newest checkpoint's file tells more.
            Some(Step::Torn(_)) | None => self.history = None,
        }
        Ok(())
    }
}

struct Walk<'a> {
    heads: Heads<'a>,
    kept: Vec<TreeHead>,
    tree: Frontier,
    report: Report,
    /// Size of the last signed head that fitted.
    fitted: u64,
    /// The furthest end of a recorded prune.
    pruned_to: u64,
}

impl<'a> Walk<'a> {
    fn new(heads: Heads<'a>, mut kept: Vec<TreeHead>, first: u64) -> Self {
        kept.sort_unstable_by_key(|head| std::cmp::Reverse(head.size));
        let tree = Frontier::default();
        let report = Report {
            segments: 0,
            first,
            records: 0,
            checkpoints: 0,
            head: tree.head(),
            unsigned: 0,
            torn_bytes: 0,
        };
        Self {
            heads,
            kept,
            tree,
            report,
            fitted: first,
            pruned_to: 0,
        }
    }

    /// Heads of what was pruned: their signatures count, their leaves are gone.
    fn heads_before(&mut self, first: u64) -> Result<(), VerifyError> {
        while let Some(head) = self.heads.next.filter(|head| head.size < first) {
            self.report.checkpoints += 1;
            while let Some(kept) = self.kept.pop_if(|kept| kept.size <= head.size) {
                if kept.size < head.size {
                    return Err(VerifyError::Uncomparable { size: kept.size });
                }
                if kept != head {
                    return Err(VerifyError::TwoHistories { size: kept.size });
                }
            }
            self.heads.advance()?;
        }
        match self.kept.last().filter(|kept| kept.size < first) {
            Some(kept) => Err(VerifyError::Uncomparable { size: kept.size }),
            None => Ok(()),
        }
    }

    fn segment(
        &mut self,
        directory: &Directory,
        segment: SegmentName,
        newest: bool,
        key: &PublicKey,
    ) -> Result<(), VerifyError> {
        let file = directory.read(&segment.file())?;
        let file = file.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
        let mut lines = Lines::new(BufReader::new(file));
        let mut number = 0;
        while let Some(line) = lines.step()? {
            number += 1;
            if !line.ended && newest && line.bytes.len() <= LINE_BYTES_MAX {
                self.report.torn_bytes = u64::try_from(line.bytes.len()).unwrap_or(u64::MAX);
                break;
            }
            self.line(segment, number, &line, key)
                .map_err(|fault| VerifyError::Segment {
                    segment: segment.file(),
                    line: number,
                    byte: line.byte,
                    fault,
                })?;
            self.heads_here(segment, number, line.byte)?;
        }
        if number == 0 && !newest {
            return Err(VerifyError::Segment {
                segment: segment.file(),
                line: 1,
                byte: 0,
                fault: SegmentFault::Unended,
            });
        }
        self.report.segments += 1;
        Ok(())
    }

    fn line(
        &mut self,
        segment: SegmentName,
        number: u64,
        line: &Line<'_>,
        key: &PublicKey,
    ) -> Result<(), SegmentFault> {
        if number == 1 {
            return self.header(segment, line, key);
        }
        let record = line::parse(line.bytes)?;
        if !line.ended {
            return Err(SegmentFault::Unended);
        }
        let expected = self.tree.size();
        if record.seq.0 != expected {
            return Err(SegmentFault::Sequence {
                expected,
                found: record.seq.0,
            });
        }
        if let Event::SegmentPruned { end, .. } = record.entry.event {
            self.pruned_to = self.pruned_to.max(end.0);
        }
        self.tree.push(leaf_hash(line.bytes));
        self.report.records += 1;
        Ok(())
    }

    fn header(
        &mut self,
        segment: SegmentName,
        line: &Line<'_>,
        key: &PublicKey,
    ) -> Result<(), SegmentFault> {
        let header = Header::parse(line.bytes)?;
        if header.key != key.to_string() {
            return Err(SegmentFault::Key);
        }
        if header.first != segment.0 {
            return Err(SegmentFault::Name);
        }
        let before = Frontier::resume(header.first, header.frontier);
        let before = before.map_err(|_| SegmentFault::Chain)?;
        if self.report.segments == 0 {
            // What was pruned can be told by a signed head at just this size only.
            let head = before.head();
            if head.size > 0 && self.heads.next != Some(head) {
                return Err(SegmentFault::Root {
                    after: 0,
                    size: head.size,
                });
            }
            self.tree = before;
        } else if before != self.tree {
            return Err(SegmentFault::Chain);
        }
        Ok(())
    }

    /// Compares with the signed and kept heads of the size that is reached.
    fn heads_here(
        &mut self,
        segment: SegmentName,
        line: u64,
        byte: u64,
    ) -> Result<(), VerifyError> {
        let size = self.tree.size();
        while let Some(head) = self.heads.next.filter(|head| head.size <= size) {
            if head != self.tree.head() {
                return Err(VerifyError::Segment {
                    segment: segment.file(),
                    line,
                    byte,
                    fault: SegmentFault::Root {
                        after: self.fitted,
                        size,
                    },
                });
            }
            self.fitted = size;
            self.report.checkpoints += 1;
            self.heads.advance()?;
        }
        while let Some(kept) = self.kept.pop_if(|kept| kept.size <= size) {
            if kept != self.tree.head() {
                return Err(VerifyError::TwoHistories { size });
            }
        }
        Ok(())
    }

    fn end(mut self, newest: Option<&Checkpoint>) -> Result<Report, VerifyError> {
        let found = self.tree.size();
        if let Some(head) = self.heads.next {
            let signed = head.size;
            return Err(VerifyError::Lost { signed, found });
        }
        // The newest checkpoint's file holds the last note of the history, or (a writer cut off
        // between the two) an earlier one. Never a later one, and never nothing.
        let in_file = newest.map(|newest| newest.head().size);
        match (in_file, self.heads.last) {
            (None, None) => {}
            (Some(in_file), Some(last)) if in_file <= last => {}
            (None | Some(_), None | Some(_)) => return Err(VerifyError::NewestDiffers),
        }
        if let Some(kept) = self.kept.last() {
            return Err(VerifyError::TwoHistories { size: kept.size });
        }
        let first = self.report.first;
        if first > self.pruned_to {
            return Err(VerifyError::Gap { first });
        }
        self.report.head = self.tree.head();
        self.report.unsigned = found - self.fitted;
        Ok(self.report)
    }
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
