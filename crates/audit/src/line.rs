// SPDX-License-Identifier: Apache-2.0
//! The lines of a segment: one header, then one record each. One spelling: a line counts only if
//! printing what was read gives the same bytes.

use crate::digest::Digest;
use crate::record::{Entry, Event};
use serde::{Deserialize, Serialize};
use thiserror::Error;
use torno_policy::names::{RecordSeq, SessionId};

/// Why bytes are not a line of the record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum LineError {
    /// Longer than [`LINE_BYTES_MAX`].
    #[error("the line is longer than any record")]
    Length,
    /// Not a record this version knows.
    #[error("the line is not a record that this version knows")]
    Form,
    /// A record, but not as it is printed.
    #[error("the line is not in the record's one spelling")]
    Spelling,
}

/// LIMIT: the largest event (32 arguments of 1 KiB, each doubled by JSON's escapes, plus cuts)
/// stays under 80 KiB.
pub const LINE_BYTES_MAX: usize = 128 << 10;

/// The version of segments that this code writes and reads.
const VERSION: u32 = 1;

/// A record at its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Its place.
    pub seq: RecordSeq,
    /// What was written.
    pub entry: Entry,
}

#[derive(Serialize)]
struct PrintedRecord<'a> {
    seq: RecordSeq,
    at: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    session: Option<&'a SessionId>,
    event: &'a Event,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReadRecord {
    seq: RecordSeq,
    at: u64,
    session: Option<SessionId>,
    event: Event,
}

/// Appends the record's line, without newline.
pub(crate) fn print_into(
    line: &mut Vec<u8>,
    seq: RecordSeq,
    entry: &Entry,
) -> Result<(), LineError> {
    let before = line.len();
    let printed = PrintedRecord {
        seq,
        at: entry.at_ms,
        session: entry.session.as_ref(),
        event: &entry.event,
    };
    serde_json::to_writer(&mut *line, &printed).map_err(|_| LineError::Form)?;
    if line.len() - before > LINE_BYTES_MAX {
        return Err(LineError::Length);
    }
    Ok(())
}

/// Bytes of the entry's line at the largest place, without newline.
pub(crate) fn printed_bytes(entry: &Entry) -> Result<u64, LineError> {
    let mut line = Vec::with_capacity(512);
    print_into(&mut line, RecordSeq(u64::MAX), entry)?;
    u64::try_from(line.len()).map_err(|_| LineError::Length)
}

/// Reads one line, without its newline.
///
/// # Errors
/// See [`LineError`].
pub fn parse(line: &[u8]) -> Result<Record, LineError> {
    if line.len() > LINE_BYTES_MAX {
        return Err(LineError::Length);
    }
    let read: ReadRecord = serde_json::from_slice(line).map_err(|_| LineError::Form)?;
    let record = Record {
        seq: read.seq,
        entry: Entry {
            at_ms: read.at,
            session: read.session,
            event: read.event,
        },
    };
    if print(&record) == line {
        Ok(record)
    } else {
        Err(LineError::Spelling)
    }
}

/// The record's line, without newline.
#[must_use]
pub fn print(record: &Record) -> Vec<u8> {
    let mut line = Vec::new();
    // What was read or built from bounded types prints; a failure would give an unequal line.
    let _ = print_into(&mut line, record.seq, &record.entry);
    line
}

/// The first line of a segment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Header {
    torno_record: u32,
    /// The first record's place: the size of the tree before it.
    pub(crate) first: u64,
    /// The tree's frontier at that size: enough to go on from here without what was before.
    pub(crate) frontier: Vec<Digest>,
    /// The key line of the record's checkpoints.
    pub(crate) key: String,
}

impl Header {
    pub(crate) const fn new(first: u64, frontier: Vec<Digest>, key: String) -> Self {
        Self {
            torno_record: VERSION,
            first,
            frontier,
            key,
        }
    }

    pub(crate) fn parse(line: &[u8]) -> Result<Self, LineError> {
        if line.len() > LINE_BYTES_MAX {
            return Err(LineError::Length);
        }
        let header: Self = serde_json::from_slice(line).map_err(|_| LineError::Form)?;
        if header.torno_record != VERSION {
            return Err(LineError::Form);
        }
        match header.print() {
            Ok(printed) if printed == line => Ok(header),
            Ok(_) | Err(_) => Err(LineError::Spelling),
        }
    }

    pub(crate) fn print(&self) -> Result<Vec<u8>, LineError> {
        serde_json::to_vec(self).map_err(|_| LineError::Form)
    }
}
