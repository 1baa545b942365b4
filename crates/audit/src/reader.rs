// SPDX-License-Identifier: Apache-2.0
//! Reading segments: lines of bounded length, with the byte at which each starts.

use crate::directory::Directory;
use crate::line::{self, LINE_BYTES_MAX, LineError, Record};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read as _};
use std::path::Path;
use thiserror::Error;

/// Why the record can't be read on.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The files can't be read.
    #[error("the record's files can't be read; check the directory and its owner")]
    Files(#[from] io::Error),
    /// A line is none of the record's.
    #[error("`{segment}` is damaged at byte {byte}; run `torno audit verify`")]
    Damaged {
        /// The segment's file.
        segment: String,
        /// Where the line starts.
        byte: u64,
        /// Why.
        #[source]
        source: LineError,
    },
}

/// A line and where it stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Line<'a> {
    /// Byte of the file at which it starts.
    pub byte: u64,
    /// Its bytes, without newline.
    pub bytes: &'a [u8],
    /// Whether a newline ends it. Only the last line before the file's end, or before the room
    /// behind it, can lack one.
    pub ended: bool,
}

/// Reads lines without ever holding more than one, or more than [`LINE_BYTES_MAX`] of it. Where a
/// NUL stands, which no line has, room begins that was written ahead: the lines end there.
#[derive(Debug)]
pub struct Lines<R> {
    from: R,
    line: Vec<u8>,
    next_byte: u64,
    in_room: bool,
}

impl<R: BufRead> Lines<R> {
    /// Lines of a source.
    pub const fn new(from: R) -> Self {
        Self {
            from,
            line: Vec::new(),
            next_byte: 0,
            in_room: false,
        }
    }

    /// The byte at which the next line starts.
    pub const fn next_byte(&self) -> u64 {
        self.next_byte
    }

    /// The source, wherever reading stopped in it.
    pub(crate) fn into_source(self) -> R {
        self.from
    }

    /// The next line. A line over the bound comes cut, not ended, and one byte longer than the
    /// bound, so that [`line::parse`] refuses it.
    ///
    /// # Errors
    /// When the source can't be read.
    pub fn step(&mut self) -> io::Result<Option<Line<'_>>> {
        self.line.clear();
        if self.in_room {
            return Ok(None);
        }
        let byte = self.next_byte;
        let limit = u64::try_from(LINE_BYTES_MAX + 1).unwrap_or(u64::MAX);
        (&mut self.from)
            .take(limit)
            .read_until(b'\n', &mut self.line)?;
        if let Some(room) = self.line.iter().position(|byte| *byte == 0) {
            self.in_room = true;
            self.line.truncate(room);
        }
        if self.line.is_empty() {
            return Ok(None);
        }
        self.next_byte += u64::try_from(self.line.len()).unwrap_or(u64::MAX);
        let (bytes, ended) = match self.line.strip_suffix(b"\n") {
            Some(bytes) => (bytes, true),
            None => (self.line.as_slice(), false),
        };
        Ok(Some(Line { byte, bytes, ended }))
    }
}

/// Every record of a directory, in order, for `tail` and `export`. It checks form, not proofs: that
/// is [`crate::verify()`]'s. An unfinished last line is the writer at work and ends the iteration.
#[derive(Debug)]
pub struct Records {
    directory: Directory,
    waiting: std::vec::IntoIter<String>,
    open: Option<(String, Lines<BufReader<File>>)>,
    from: u64,
    failed: bool,
}

impl Records {
    /// Records with a place of at least `from`.
    ///
    /// # Errors
    /// When the directory can't be read.
    pub fn open(path: &Path, from: u64) -> Result<Self, ReadError> {
        let (directory, _) = Directory::open(path)?;
        let (segments, _) = directory.segments()?;
        let skipped = segments
            .iter()
            .rposition(|segment| segment.0 <= from)
            .unwrap_or(0);
        let names: Vec<String> = segments
            .into_iter()
            .skip(skipped)
            .map(crate::directory::SegmentName::file)
            .collect();
        Ok(Self {
            directory,
            waiting: names.into_iter(),
            open: None,
            from,
            failed: false,
        })
    }

    fn step(&mut self) -> Result<Option<Record>, ReadError> {
        loop {
            let Some((segment, lines)) = &mut self.open else {
                if !self.open_next()? {
                    return Ok(None);
                }
                continue;
            };
            match lines.step()? {
                None => self.open = None,
                // The header: its form is the verifier's business.
                Some(Line { byte: 0, .. }) => {}
                Some(line) if !line.ended && line.bytes.len() <= LINE_BYTES_MAX => {
                    self.open = None;
                }
                Some(line) => {
                    let byte = line.byte;
                    let record = line::parse(line.bytes).map_err(|source| ReadError::Damaged {
                        segment: segment.clone(),
                        byte,
                        source,
                    })?;
                    if record.seq.0 >= self.from {
                        return Ok(Some(record));
                    }
                }
            }
        }
    }

    /// Opens the next segment that is still there: pruning may run beside a reader.
    fn open_next(&mut self) -> Result<bool, ReadError> {
        for name in self.waiting.by_ref() {
            if let Some(file) = self.directory.read(&name)? {
                self.open = Some((name, Lines::new(BufReader::new(file))));
                return Ok(true);
            }
        }
        Ok(false)
    }
}

impl Iterator for Records {
    type Item = Result<Record, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let step = self.step();
        self.failed = step.is_err();
        step.transpose()
    }
}

/// Reads hostile bytes as a segment and checks what must hold of every line that parses: it prints
/// back as itself. For fuzzing; whether it held.
#[must_use]
pub fn fuzz_reader(bytes: &[u8]) -> bool {
    let mut lines = Lines::new(bytes);
    let mut held = true;
    while let Ok(Some(line)) = lines.step() {
        if let Ok(record) = line::parse(line.bytes) {
            held &= line::print(&record) == line.bytes;
        }
        if let Ok(header) = line::Header::parse(line.bytes) {
            held &= header.print().is_ok_and(|printed| printed == line.bytes);
        }
    }
    held
}

#[cfg(test)]
mod tests;
