// SPDX-License-Identifier: Apache-2.0
//! Removing old segments. Their tree heads stay in the file of checkpoints, and the frontier at
//! their end stands in the header of the first segment that is kept: what follows still verifies.

use crate::directory::SegmentName;
use crate::reader::Lines;
use crate::record::{Entry, Event};
use crate::recorder::{AppendError, Durability, Recorder};
use crate::recovery::{OpenError, header_of};
use std::io::{self, BufReader};
use thiserror::Error;
use torno_policy::names::RecordSeq;

/// Why nothing (more) was pruned.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PruneError {
    /// The files can't be listed or removed.
    #[error("old segments can't be removed; check the directory and its owner")]
    Files(#[from] io::Error),
    /// The first segment that would stay is damaged: then nothing is removed.
    #[error("the first segment that would stay is damaged; run `torno audit verify`")]
    Kept(#[source] OpenError),
    /// The removal could not be recorded: then nothing is removed.
    #[error("the removal could not be recorded")]
    Record(#[from] AppendError),
}

/// What a prune did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pruned {
    /// Segments that went.
    pub segments: u32,
    /// The first record that is still there.
    pub first_kept: RecordSeq,
}

impl Recorder {
    /// Removes all but the newest `keep` segments (at least one stays). The removal is recorded and
    /// signed first; oldest go first, so a crash leaves a shorter prune and no hole.
    ///
    /// # Errors
    /// See [`PruneError`].
    pub fn prune(&mut self, keep: usize, at_ms: u64) -> Result<Pruned, PruneError> {
        let (segments, _) = self.directory.segments()?;
        let going = segments.len().saturating_sub(keep.max(1));
        let (Some(&oldest), Some(&kept)) = (segments.first(), segments.get(going)) else {
            return Ok(Pruned {
                segments: 0,
                first_kept: RecordSeq(0),
            });
        };
        if going > 0 {
            self.record_prune(oldest, kept, at_ms)?;
        }
        let mut removed = 0;
        for segment in segments.iter().take(going) {
            self.directory.remove(&segment.file())?;
            removed += 1;
        }
        self.directory.sync()?;
        Ok(Pruned {
            segments: removed,
            first_kept: RecordSeq(kept.0),
        })
    }

    fn record_prune(
        &mut self,
        oldest: SegmentName,
        kept: SegmentName,
        at_ms: u64,
    ) -> Result<(), PruneError> {
        let file = self.directory.read(&kept.file())?;
        let file = file.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
        let mut lines = Lines::new(BufReader::new(file));
        let before = header_of(&mut lines, kept, self.public_key()).map_err(PruneError::Kept)?;
        let event = Event::SegmentPruned {
            first: RecordSeq(oldest.0),
            end: RecordSeq(kept.0),
            root: before.head().root,
        };
        let entry = Entry {
            at_ms,
            session: None,
            event,
        };
        self.append(vec![(entry, ())], Durability::Synced)?;
        Ok(self.checkpoint()?)
    }
}

#[cfg(test)]
mod tests;
