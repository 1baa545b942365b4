// SPDX-License-Identifier: Apache-2.0
//! What stands in the directory when the record is opened.
//!
//! Only one thing is ever repaired: a torn, unacknowledged tail of the newest segment (a last line
//! without newline, a header that never got written, or sectors of a last batch that did not reach
//! the disk while others did). Everything else that does not fit is refused with its place.
//! Segments before the newest are checked by their headers here and whole by [`crate::verify()`].

use crate::checkpoint::{Checkpoint, History, HistoryError, PublicKey, Step};
use crate::digest::Digest;
use crate::directory::{CHECKPOINT, CHECKPOINTS, Directory, SegmentName};
use crate::line::{self, Header, LineError};
use crate::reader::{Line, Lines};
use crate::tree::{Frontier, leaf_hash};
use std::io::{self, BufReader};
use tail::Tail;
use thiserror::Error;

mod tail;

/// Why the record can't be opened. Nothing was changed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The directory or a file in it can't be used.
    #[error("the record's directory can't be used; check its owner and the disk")]
    Files(#[from] io::Error),
    /// Others may enter the directory.
    #[error("the record's directory is open to others; set its mode to 0700")]
    Shared,
    /// Another process writes this record.
    #[error("another process writes this record; stop it first")]
    Locked,
    /// A file has a segment's prefix without its form.
    #[error("the record's directory holds a file that only looks like a segment; move it away")]
    OddFile,
    /// The record belongs to another key.
    #[error("the record was begun with another signing key; restore that key")]
    Key,
    /// The checkpoints don't count.
    #[error("the record's checkpoints can't be trusted; restore the directory from its backup")]
    History(#[from] HistoryError),
    /// Something stands where it can't have been written.
    #[error("`{segment}` is damaged at byte {byte} (record {seq}); run `torno audit verify`")]
    Damaged {
        /// The segment's file.
        segment: String,
        /// Where the line starts.
        byte: u64,
        /// The record that should stand there.
        seq: u64,
        /// What is wrong with the line, when it is its form.
        #[source]
        source: Option<LineError>,
    },
    /// Signed records are not there any more.
    #[error("{signed} records were signed and {found} are there; restore the newest segments")]
    Lost {
        /// Size of the newest checkpoint.
        signed: u64,
        /// Records that are there.
        found: u64,
    },
    /// There are records of acts and no signed head at all.
    #[error("the record's checkpoints were removed; restore the directory from its backup")]
    Unsigned,
    /// The first record of this run could not be written.
    #[error("the record could not be begun")]
    Begin(#[source] crate::recorder::AppendError),
}

/// The state to go on from.
#[derive(Debug)]
pub(crate) struct Recovered {
    pub(crate) tree: Frontier,
    /// The segment to go on with, and its length; nothing when a new one must be made.
    pub(crate) segment: Option<(SegmentName, u64)>,
    /// The newest checkpoint's size.
    pub(crate) signed: Option<Checkpoint>,
    /// Length of the history's whole notes.
    pub(crate) history_bytes: u64,
    pub(crate) dropped: Vec<Dropped>,
}

/// A torn tail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Dropped {
    pub(crate) segment: SegmentName,
    pub(crate) bytes: u64,
    pub(crate) sha256: Digest,
    /// The whole file goes: it never got its header.
    pub(crate) whole: bool,
}

/// Reads, changes nothing.
pub(crate) fn recover(directory: &Directory, key: &PublicKey) -> Result<Recovered, OpenError> {
    let (mut segments, odd) = directory.segments()?;
    if odd {
        return Err(OpenError::OddFile);
    }
    let torn = torn_header(directory, &segments)?;
    if torn.is_some() {
        segments.pop();
    }
    check_chain(directory, &segments, key)?;
    let newest = segments.last().copied();
    let oldest = newest.map_or(0, |segment| segment.0);
    let (checkpoints, history_bytes) = read_checkpoints(directory, key, oldest)?;
    let signed = checkpoints.last().cloned();
    let mut recovered = Recovered {
        tree: Frontier::default(),
        segment: None,
        signed,
        history_bytes,
        dropped: torn.into_iter().collect(),
    };
    if let Some(newest) = newest {
        replay(directory, newest, &checkpoints, &mut recovered)?;
    }
    let found = recovered.tree.size();
    let signed = recovered.signed.as_ref().map_or(0, |c| c.head().size);
    if found < signed || (newest.is_none() && recovered.signed.is_some()) {
        return Err(OpenError::Lost { signed, found });
    }
    match recovered.dropped.iter().find(|dropped| dropped.whole) {
        // A segment is begun where the one before it ends.
        Some(torn) if torn.segment.0 > found => Err(OpenError::Lost {
            signed: torn.segment.0,
            found,
        }),
        Some(_) | None => Ok(recovered),
    }
}

/// Checkpoints of at least `oldest` records, in order, and the length of the history's whole notes.
/// The newest checkpoint's own file is written after the history, so it is never ahead of it.
fn read_checkpoints(
    directory: &Directory,
    key: &PublicKey,
    oldest: u64,
) -> Result<(Vec<Checkpoint>, u64), OpenError> {
    let mut checkpoints: Vec<Checkpoint> = Vec::new();
    let mut bytes = 0;
    if let Some(file) = directory.read(CHECKPOINTS)? {
        let length = file.metadata()?.len();
        let mut history = History::new(BufReader::new(file), key, oldest);
        bytes = length;
        while let Some(step) = history.step()? {
            match step {
                Step::Note(checkpoint) => checkpoints.push(checkpoint),
                Step::Older => {}
                Step::Torn(byte) => {
                    bytes = byte;
                    break;
                }
            }
        }
    }
    if let Some(note) = directory.read_small(CHECKPOINT, NOTE_BYTES_MAX)? {
        let note = String::from_utf8(note).unwrap_or_default();
        let newest = Checkpoint::parse(&note, key)
            .map_err(|source| HistoryError::Note { byte: 0, source })?;
        let known = checkpoints.last().map_or(0, |known| known.head().size);
        if checkpoints.is_empty() || newest.head().size > known {
            return Err(OpenError::Lost {
                signed: newest.head().size,
                found: known,
            });
        }
    }
    Ok((checkpoints, bytes))
}

/// The newest segment when it has no whole header.
fn torn_header(
    directory: &Directory,
    segments: &[SegmentName],
) -> Result<Option<Dropped>, OpenError> {
    let Some(&newest) = segments.last() else {
        return Ok(None);
    };
    let Some(file) = directory.read(&newest.file())? else {
        return Ok(None);
    };
    let mut lines = Lines::new(BufReader::new(file));
    match lines.step()? {
        Some(line) if line.ended || line.bytes.len() > line::LINE_BYTES_MAX => Ok(None),
        Some(line) => Ok(Some(dropped(newest, line.bytes, true))),
        None => Ok(Some(dropped(newest, b"", true))),
    }
}

fn dropped(segment: SegmentName, bytes: &[u8], whole: bool) -> Dropped {
    Dropped {
        segment,
        bytes: u64::try_from(bytes.len()).unwrap_or(u64::MAX),
        sha256: Digest::of(bytes),
        whole,
    }
}

/// Each header names its file's place and the record's key.
fn check_chain(
    directory: &Directory,
    segments: &[SegmentName],
    key: &PublicKey,
) -> Result<(), OpenError> {
    for &segment in segments {
        let file = directory.read(&segment.file())?;
        let file = file
            .ok_or(io::ErrorKind::NotFound)
            .map_err(io::Error::from)?;
        let mut lines = Lines::new(BufReader::new(file));
        header_of(&mut lines, segment, key)?;
    }
    Ok(())
}

/// Reads a segment's header: the tree before it.
pub(crate) fn header_of<R: io::BufRead>(
    lines: &mut Lines<R>,
    segment: SegmentName,
    key: &PublicKey,
) -> Result<Frontier, OpenError> {
    let damaged = |source| damaged(segment, 0, segment.0, source);
    let line = lines.step()?.ok_or_else(|| damaged(None))?;
    let header = Header::parse(line.bytes).map_err(|error| damaged(Some(error)))?;
    if header.key != key.to_string() {
        return Err(OpenError::Key);
    }
    let frontier = Frontier::resume(header.first, header.frontier).map_err(|_| damaged(None))?;
    if frontier.size() == segment.0 && line.ended {
        Ok(frontier)
    } else {
        Err(damaged(None))
    }
}

/// Reads the newest segment whole and compares it with every checkpoint that falls into it.
fn replay(
    directory: &Directory,
    segment: SegmentName,
    checkpoints: &[Checkpoint],
    recovered: &mut Recovered,
) -> Result<(), OpenError> {
    let file = directory.read(&segment.file())?;
    let file = file
        .ok_or(io::ErrorKind::NotFound)
        .map_err(io::Error::from)?;
    let mut lines = Lines::new(BufReader::new(file));
    let header = lines.step()?.map(|line| Header::parse(line.bytes));
    let Some(Ok(header)) = header else {
        return Err(damaged(segment, 0, segment.0, None));
    };
    let mut tree = Frontier::resume(header.first, header.frontier)
        .map_err(|_| damaged(segment, 0, segment.0, None))?;
    let mut heads = checkpoints
        .iter()
        .map(Checkpoint::head)
        .skip_while(|head| head.size < segment.0)
        .peekable();
    let mut length = lines.next_byte();
    loop {
        while let Some(head) = heads.next_if(|head| head.size <= tree.size()) {
            if head != tree.head() {
                return Err(damaged(segment, length, tree.size(), None));
            }
        }
        let Some(line) = lines.step()? else { break };
        if !line.ended && line.bytes.len() <= line::LINE_BYTES_MAX {
            check_torn(&line, segment, tree.size())?;
            length = line.byte;
            break;
        }
        length = line.byte + u64::try_from(line.bytes.len() + 1).unwrap_or(u64::MAX);
        match line::parse(line.bytes) {
            Ok(record) if record.seq.0 == tree.size() => {
                // The opening is signed before anything else is taken.
                if recovered.signed.is_none() && !record.entry.event.is_opening() {
                    return Err(OpenError::Unsigned);
                }
                tree.push(leaf_hash(line.bytes));
            }
            Ok(_) => return Err(damaged(segment, line.byte, tree.size(), None)),
            Err(error) => {
                return Err(damaged(segment, line.byte, tree.size(), Some(error)));
            }
        }
    }
    let file = lines.into_source().into_inner();
    match tail::read(file, length)? {
        Tail::Nothing => {}
        Tail::Lost { bytes, sha256 } => recovered.dropped.push(Dropped {
            segment,
            bytes,
            sha256,
            whole: false,
        }),
        Tail::Damaged => return Err(damaged(segment, length, tree.size(), None)),
    }
    recovered.tree = tree;
    recovered.segment = Some((segment, length));
    Ok(())
}

/// A torn tail is the beginning of a record. A whole record with something else where its newline
/// should be was not torn.
fn check_torn(line: &Line<'_>, segment: SegmentName, seq: u64) -> Result<(), OpenError> {
    let whole = line.bytes.split_last().map(|(_, rest)| line::parse(rest));
    if matches!(whole, Some(Ok(_))) {
        return Err(damaged(segment, line.byte, seq, None));
    }
    Ok(())
}

fn damaged(segment: SegmentName, byte: u64, seq: u64, source: Option<LineError>) -> OpenError {
    OpenError::Damaged {
        segment: segment.file(),
        byte,
        seq,
        source,
    }
}

/// LIMIT: a note has under 400 bytes.
pub(crate) const NOTE_BYTES_MAX: u64 = 4096;
