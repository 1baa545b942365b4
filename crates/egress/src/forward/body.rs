// SPDX-License-Identifier: Apache-2.0
//! The body of either side, as its framing says. Sans-I/O: each step names how many of the unread
//! bytes are what. Chunk extensions are read and dropped.

use crate::head::{Framing, Head, is_value_byte};
use crate::refuse::Fault;
use torno_policy::Reason;

/// What the next unread bytes are.
#[derive(Debug)]
pub(crate) enum Step {
    /// More bytes are needed.
    More,
    /// So many bytes of framing: forget them.
    Skip(usize),
    /// So many bytes of body.
    Data(usize),
    /// The trailer section, so many bytes, and the end.
    Trailers(usize, Head),
    /// The end.
    End,
}

/// A body being read. After [`Step::Skip`], [`Step::Data`] and [`Step::Trailers`] the caller
/// consumes exactly so many bytes before the next step.
#[derive(Debug)]
pub(crate) enum Body {
    /// So many bytes are left.
    Length(u64),
    /// Chunks.
    Chunked(Chunks),
    /// Everything until the stream ends.
    UntilClose,
}

impl From<Framing> for Body {
    fn from(framing: Framing) -> Self {
        match framing {
            Framing::Empty => Self::Length(0),
            Framing::Length(length) => Self::Length(length),
            Framing::Chunked => Self::Chunked(Chunks::Size),
        }
    }
}

impl Body {
    /// Looks at the unread bytes.
    pub(crate) fn step(&mut self, unread: &[u8]) -> Result<Step, Fault> {
        match self {
            Self::Length(0) => Ok(Step::End),
            Self::Length(left) => {
                let there = u64::try_from(unread.len()).unwrap_or(u64::MAX).min(*left);
                *left -= there;
                Ok(data(usize::try_from(there).unwrap_or(usize::MAX)))
            }
            Self::UntilClose => Ok(data(unread.len())),
            Self::Chunked(chunks) => chunks.step(unread),
        }
    }

    /// Whether nothing is left to read.
    pub(crate) fn is_over(&self) -> bool {
        matches!(self, Self::Length(0) | Self::Chunked(Chunks::Over))
    }
}

fn data(count: usize) -> Step {
    if count == 0 {
        Step::More
    } else {
        Step::Data(count)
    }
}

/// Where in a chunked body the next byte stands (RFC 9112 §7.1).
#[derive(Debug)]
pub(crate) enum Chunks {
    /// At a size line.
    Size,
    /// In a chunk, with so many bytes left.
    Data(u64),
    /// At the line end behind a chunk.
    AfterData,
    /// In the trailer section.
    Trailers,
    /// Behind it.
    Over,
}

/// LIMIT: a size has up to 16 digits; what is left of the line is an extension nobody needs.
const SIZE_LINE_BYTES_MAX: usize = 256;
const SIZE_DIGITS_MAX: usize = 15;
/// LIMIT: trailers are checksums and statuses.
const TRAILER_BYTES_MAX: usize = 8 * 1024;

impl Chunks {
    fn step(&mut self, unread: &[u8]) -> Result<Step, Fault> {
        match self {
            Self::Size => {
                let Some(line) = line(unread, SIZE_LINE_BYTES_MAX)? else {
                    return Ok(Step::More);
                };
                let size = parse_size(line)?;
                *self = if size == 0 {
                    Self::Trailers
                } else {
                    Self::Data(size)
                };
                Ok(Step::Skip(line.len() + 2))
            }
            Self::Data(left) => {
                let there = u64::try_from(unread.len()).unwrap_or(u64::MAX).min(*left);
                *left -= there;
                if *left == 0 {
                    *self = Self::AfterData;
                }
                Ok(data(usize::try_from(there).unwrap_or(usize::MAX)))
            }
            Self::AfterData => match unread {
                [b'\r', b'\n', ..] => {
                    *self = Self::Size;
                    Ok(Step::Skip(2))
                }
                [] | [b'\r'] => Ok(Step::More),
                // ATTACK: 051
                _ => Err(Fault::malformed("end each chunk with CR LF")),
            },
            Self::Trailers => match trailer_end(unread)? {
                Some(end) => {
                    let section = unread.get(..end).unwrap_or_default();
                    let trailers = Head::parse_trailers(section)?;
                    *self = Self::Over;
                    Ok(Step::Trailers(end, trailers))
                }
                None => Ok(Step::More),
            },
            Self::Over => Ok(Step::End),
        }
    }
}

/// The bytes before the first CR LF.
fn line(unread: &[u8], bytes_max: usize) -> Result<Option<&[u8]>, Fault> {
    let seen = unread.get(..bytes_max).unwrap_or(unread);
    match memchr::memchr(b'\n', seen) {
        None if unread.len() >= bytes_max => Err(Fault::malformed("keep chunk sizes short")),
        None => Ok(None),
        Some(feed) => seen
            .get(..feed)
            .and_then(|line| line.strip_suffix(b"\r"))
            .map(Some)
            .ok_or(Fault::malformed("end each chunk size with CR LF")),
    }
}

/// ATTACK: 052 – hexadecimal digits only, few enough that no integer overflows.
fn parse_size(line: &[u8]) -> Result<u64, Fault> {
    let digits = line.iter().take_while(|b| b.is_ascii_hexdigit()).count();
    let (digits, extension) = line.split_at_checked(digits).unwrap_or_default();
    let is_extension = extension.is_empty()
        || (extension.first() == Some(&b';') && extension.iter().all(|b| is_value_byte(*b)));
    let text = std::str::from_utf8(digits).unwrap_or_default();
    match u64::from_str_radix(text, 16) {
        Ok(size) if digits.len() <= SIZE_DIGITS_MAX && is_extension => Ok(size),
        Ok(_) | Err(_) => Err(Fault::malformed(
            "write chunk sizes as at most 15 hexadecimal digits",
        )),
    }
}

/// The end of the trailer section with its empty line.
fn trailer_end(unread: &[u8]) -> Result<Option<usize>, Fault> {
    let mut line_start = 0;
    while let Some(rest) = unread.get(line_start..)
        && let Some(feed) = memchr::memchr(b'\n', rest)
    {
        let line = rest.get(..feed).unwrap_or_default();
        let Some(line) = line.strip_suffix(b"\r") else {
            return Err(Fault::malformed("end each trailer with CR LF"));
        };
        line_start += feed + 1;
        if line_start > TRAILER_BYTES_MAX {
            break;
        }
        if line.is_empty() {
            return Ok(Some(line_start));
        }
    }
    if unread.len() > TRAILER_BYTES_MAX {
        Err(Fault::new(
            Reason::TooLarge,
            "send at most 8 KiB of trailers",
        ))
    } else {
        Ok(None)
    }
}

/// Appends one chunk.
pub(crate) fn push_chunk(out: &mut Vec<u8>, data: &[u8]) {
    let chunk = Chunk::begin(out, data.len());
    out.extend_from_slice(data);
    chunk.end(out);
}

/// A chunk that is written in its place: its data comes behind a size that was guessed, and that is
/// put right when all is there.
#[derive(Debug)]
#[must_use = "a chunk that is not ended has no right size"]
pub(crate) struct Chunk {
    start: usize,
    data: usize,
}

impl Chunk {
    pub(crate) fn begin(out: &mut Vec<u8>, guess: usize) -> Self {
        let start = out.len();
        out.extend_from_slice(size_line(guess).as_bytes());
        let data = out.len();
        Self { start, data }
    }

    /// Everything appended since the beginning is the data. Without any there is no chunk: an empty
    /// one would end the body.
    pub(crate) fn end(self, out: &mut Vec<u8>) {
        let count = out.len().saturating_sub(self.data);
        if count == 0 {
            out.truncate(self.start);
            return;
        }
        let size = size_line(count);
        // Of the same length mostly: then nothing behind it moves.
        if out.get(self.start..self.data) != Some(size.as_bytes()) {
            out.splice(self.start..self.data, size.bytes());
        }
        out.extend_from_slice(b"\r\n");
    }
}

/// RFC 9112 §7.1, without leading zeroes.
fn size_line(count: usize) -> String {
    format!("{count:x}\r\n")
}

#[cfg(test)]
mod tests;
