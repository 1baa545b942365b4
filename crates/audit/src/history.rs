// SPDX-License-Identifier: Apache-2.0
//! The file of every signed head: notes of five lines, one after the other. A torn last note is
//! dropped when the record is opened: what it signed is signed again.

use crate::checkpoint::{Checkpoint, CheckpointError, PublicKey};
use std::io::{self, BufRead, Read as _};
use thiserror::Error;

/// Why the history can't be read on.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum HistoryError {
    /// The file can't be read.
    #[error("the file of checkpoints can't be read")]
    Read(#[source] io::Error),
    /// A note does not count.
    #[error("the checkpoint at byte {byte} does not count")]
    Note {
        /// Where it starts.
        byte: u64,
        /// Why.
        #[source]
        source: CheckpointError,
    },
}

/// One step through the history.
#[derive(Debug)]
pub(crate) enum Step {
    /// A note that counts.
    Note(Checkpoint),
    /// A piece of a note at the end of the file, and where it starts.
    Torn(u64),
}

/// Reads notes in order.
#[derive(Debug)]
pub(crate) struct History<'a, R> {
    from: R,
    key: &'a PublicKey,
    byte: u64,
}

impl<'a, R: BufRead> History<'a, R> {
    pub(crate) const fn new(from: R, key: &'a PublicKey) -> Self {
        Self { from, key, byte: 0 }
    }

    /// The next note; `None` at the end of the file.
    pub(crate) fn step(&mut self) -> Result<Option<Step>, HistoryError> {
        let mut note = Vec::new();
        let mut lines = 0;
        while lines < LINES_OF_A_NOTE {
            let before = note.len();
            (&mut self.from)
                .take(LINE_BYTES_MAX)
                .read_until(b'\n', &mut note)
                .map_err(HistoryError::Read)?;
            if note.len() == before && note.is_empty() {
                return Ok(None);
            }
            if note.last() != Some(&b'\n') || note.len() == before {
                return self.piece(&note);
            }
            lines += 1;
        }
        let text = str::from_utf8(&note).map_err(|_| self.fault(CheckpointError::Form))?;
        let checkpoint = Checkpoint::parse(text, self.key).map_err(|error| self.fault(error))?;
        self.byte += byte_count(&note);
        Ok(Some(Step::Note(checkpoint)))
    }

    /// What stands at the end without being a whole note. A line that is too long is no torn note.
    fn piece(&self, note: &[u8]) -> Result<Option<Step>, HistoryError> {
        if byte_count(note) < LINE_BYTES_MAX {
            Ok(Some(Step::Torn(self.byte)))
        } else {
            Err(self.fault(CheckpointError::Form))
        }
    }

    const fn fault(&self, source: CheckpointError) -> HistoryError {
        HistoryError::Note {
            byte: self.byte,
            source,
        }
    }
}

const LINES_OF_A_NOTE: usize = 5;
/// LIMIT: the longest line of a note is its signature, under 200 bytes; a whole note is under 400.
const LINE_BYTES_MAX: u64 = 1024;

fn byte_count(bytes: &[u8]) -> u64 {
    u64::try_from(bytes.len()).unwrap_or(u64::MAX)
}
