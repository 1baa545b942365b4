// SPDX-License-Identifier: Apache-2.0
//! One pass over the segments, with the signed heads and the kept heads in step.

use super::{Report, SegmentFault, VerifyError};
use crate::checkpoint::{Checkpoint, History, PublicKey, Step};
use crate::directory::{CHECKPOINTS, Directory, SegmentName};
use crate::line::{self, Header, LINE_BYTES_MAX};
use crate::reader::{Line, Lines};
use crate::record::Event;
use crate::tree::{Frontier, TreeHead, leaf_hash};
use std::fs::File;
use std::io::{self, BufReader, Read as _, Take};

/// Signed heads in order, with one read ahead.
pub(super) struct Heads<'a> {
    history: Option<History<'a, BufReader<Take<File>>>>,
    next: Option<TreeHead>,
    /// Size of the last one read.
    last: Option<u64>,
}

impl<'a> Heads<'a> {
    pub(super) fn open(directory: &Directory, key: &'a PublicKey) -> Result<Self, VerifyError> {
        let file = directory.read(CHECKPOINTS)?;
        let length = match &file {
            Some(file) => file.metadata()?.len(),
            None => 0,
        };
        // What a writer appends from here on is over records that this pass may not see.
        let history = file.map(|file| History::new(BufReader::new(file.take(length)), key, 0));
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
            Some(Step::Older | Step::Torn(_)) | None => self.history = None,
        }
        Ok(())
    }
}

pub(super) struct Walk<'a> {
    heads: Heads<'a>,
    kept: Vec<TreeHead>,
    tree: Frontier,
    report: Report,
    /// Size of the last signed head that fitted.
    fitted: u64,
    /// The furthest end of a recorded prune.
    pruned_to: u64,
    /// A record of more than the opening was seen.
    acts: bool,
}

impl<'a> Walk<'a> {
    pub(super) fn new(heads: Heads<'a>, mut kept: Vec<TreeHead>, first: u64) -> Self {
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
            acts: false,
        }
    }

    /// Heads of what was pruned: their signatures count, their leaves are gone.
    pub(super) fn heads_before(&mut self, first: u64) -> Result<(), VerifyError> {
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

    pub(super) fn segment(
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
        self.acts |= !record.entry.event.is_opening();
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
            // What was pruned is told by the frontier; the signed heads from here on bind it.
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

    pub(super) fn end(mut self, newest: Option<&Checkpoint>) -> Result<Report, VerifyError> {
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
        // The opening is signed before anything else is taken.
        if self.acts && self.report.checkpoints == 0 {
            return Err(VerifyError::Unsigned);
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
