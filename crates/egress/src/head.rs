// SPDX-License-Identifier: Apache-2.0
//! One strict parser for the heads and trailers of both sides (RFC 9112 without its leniencies).
//! Sans-I/O: bytes in, ranges out. It knows the form of a head and nothing of its meaning.

use crate::refuse::Fault;
use std::ops::Range;
use torno_policy::Reason;

/// LIMIT: 64 KiB holds any real head: servers stop at 8 to 32 KiB.
pub(crate) const HEAD_BYTES_MAX: usize = 64 * 1024;
/// LIMIT: 128 fields; common servers allow 100.
const FIELDS_MAX: usize = 128;
/// LIMIT: no registered field name is longer than 40 bytes.
const NAME_BYTES_MAX: usize = 256;

/// Looks for the end of a head while it arrives, and stops at the first byte that can't be in one.
#[derive(Debug, Default)]
pub(crate) struct HeadScan {
    seen: usize,
    line: usize,
}

impl HeadScan {
    /// The length of the head with its empty line, when all of it is in `bytes`. `bytes` grows
    /// from call to call and keeps its start.
    pub(crate) fn end(&mut self, bytes: &[u8]) -> Result<Option<usize>, Fault> {
        while let Some(fresh) = bytes.get(self.seen..)
            && let Some(at) = memchr::memchr(b'\n', fresh)
        {
            let feed = self.seen + at;
            // ATTACK: 051, 053 – a line ends with CR LF, never with LF alone.
            if feed == 0 || bytes.get(feed - 1) != Some(&b'\r') {
                return Err(Fault::malformed("end each line of the head with CR LF"));
            }
            let empty = feed - 1 == self.line;
            // ATTACK: 043 – nothing stands before the first line, not even an empty one.
            if empty && self.line == 0 {
                return Err(Fault::malformed("send nothing before the request line"));
            }
            self.seen = feed + 1;
            self.line = feed + 1;
            if self.line > HEAD_BYTES_MAX {
                break;
            }
            if empty {
                return Ok(Some(self.line));
            }
        }
        self.seen = bytes.len().max(self.seen);
        if bytes.len() > HEAD_BYTES_MAX || self.line > HEAD_BYTES_MAX {
            Err(Fault::new(
                Reason::TooLarge,
                "send a head of at most 64 KiB",
            ))
        } else {
            Ok(None)
        }
    }
}

/// One field line.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Line {
    name: Range<usize>,
    value: Range<usize>,
}

/// A name and a value, as they came; the value without white space around it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Field<'a> {
    pub(crate) name: &'a str,
    pub(crate) value: &'a [u8],
}

impl Field<'_> {
    /// Field names are compared without case (RFC 9110 §5.1).
    pub(crate) fn is(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name)
    }
}

/// A first line and fields, or fields alone (trailers).
#[derive(Debug, Default)]
pub(crate) struct Head {
    bytes: Vec<u8>,
    first: Range<usize>,
    lines: Vec<Line>,
}

impl Head {
    /// Reads a head; `bytes` ends with its empty line.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, Fault> {
        let mut head = Self {
            bytes: bytes.to_vec(),
            ..Self::default()
        };
        let end = line_end(bytes, 0)?;
        head.first = 0..end;
        head.parse_lines(end + 2)?;
        Ok(head)
    }

    /// Reads a trailer section; `bytes` ends with its empty line and may be only that.
    pub(crate) fn parse_trailers(bytes: &[u8]) -> Result<Self, Fault> {
        let mut head = Self {
            bytes: bytes.to_vec(),
            ..Self::default()
        };
        head.parse_lines(0)?;
        Ok(head)
    }

    fn parse_lines(&mut self, mut at: usize) -> Result<(), Fault> {
        loop {
            let end = line_end(&self.bytes, at)?;
            if end == at {
                let whole = end + 2 == self.bytes.len();
                let cut = Fault::malformed("end the head with one empty line");
                return whole.then_some(()).ok_or(cut);
            }
            if self.lines.len() == FIELDS_MAX {
                return Err(Fault::new(
                    Reason::TooLarge,
                    "send at most 128 header fields",
                ));
            }
            let line = self.bytes.get(at..end).unwrap_or_default();
            self.lines.push(parse_line(line, at)?);
            at = end + 2;
        }
    }

    /// The first line, without its end.
    pub(crate) fn first(&self) -> &[u8] {
        self.bytes.get(self.first.clone()).unwrap_or_default()
    }

    /// How many bytes the head has.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// The fields in order.
    pub(crate) fn fields(&self) -> impl Iterator<Item = Field<'_>> {
        self.lines.iter().map(|line| Field {
            // INVARIANT: a parsed name is ASCII, so this never falls back.
            name: std::str::from_utf8(self.bytes.get(line.name.clone()).unwrap_or_default())
                .unwrap_or_default(),
            value: self.bytes.get(line.value.clone()).unwrap_or_default(),
        })
    }

    /// The values of one field.
    pub(crate) fn values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a [u8]> {
        self.fields().filter(move |f| f.is(name)).map(|f| f.value)
    }

    /// The value of a field that may stand there once.
    pub(crate) fn single<'a>(&'a self, name: &'a str) -> Result<Option<&'a [u8]>, Repeated> {
        let mut values = self.values(name);
        let first = values.next();
        if values.next().is_some() {
            Err(Repeated)
        } else {
            Ok(first)
        }
    }
}

/// A field stands there more than once.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Repeated;

/// The end of the line that starts at `start`: the place of its CR.
fn line_end(bytes: &[u8], start: usize) -> Result<usize, Fault> {
    let fault = Fault::malformed("end each line of the head with CR LF");
    let rest = bytes.get(start..).unwrap_or_default();
    let feed = memchr::memchr(b'\n', rest).ok_or_else(|| fault.clone())?;
    let line = rest.get(..feed).unwrap_or_default();
    match line.last() {
        Some(b'\r') => Ok(start + feed - 1),
        _ => Err(fault),
    }
}

fn parse_line(line: &[u8], at: usize) -> Result<Line, Fault> {
    let colon = memchr::memchr(b':', line)
        .ok_or(Fault::malformed("write each header field as `name: value`"))?;
    let (name, rest) = line.split_at_checked(colon).unwrap_or_default();
    // ATTACK: 053 – a folded line starts with a space, which is no byte of a name; so does a
    // space before the colon end one.
    if name.is_empty() || name.len() > NAME_BYTES_MAX || !name.iter().all(|b| is_token_byte(*b)) {
        return Err(Fault::malformed(
            "write header names as tokens, without spaces or folded lines",
        ));
    }
    let value = rest.get(1..).unwrap_or_default();
    if !value.iter().all(|b| is_value_byte(*b)) {
        return Err(Fault::malformed("send no control bytes in header values"));
    }
    let trimmed = value.trim_ascii_start();
    let start = at + line.len() - trimmed.len();
    Ok(Line {
        name: at..at + colon,
        value: start..start + trimmed.trim_ascii_end().len(),
    })
}

/// RFC 9110 §5.6.2.
pub(crate) fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// RFC 9110 §5.5: visible bytes, space, tab and the bytes above ASCII.
pub(crate) fn is_value_byte(byte: u8) -> bool {
    byte == b'\t' || (byte >= b' ' && byte != 0x7f)
}

/// The members of comma-separated lists, lower case, empty ones left out.
pub(crate) fn list_members<'a>(
    values: impl Iterator<Item = &'a [u8]>,
) -> impl Iterator<Item = String> {
    values
        .flat_map(|value| value.split(|b| *b == b','))
        .map(|member| String::from_utf8_lossy(member.trim_ascii()).to_ascii_lowercase())
        .filter(|member| !member.is_empty())
}

/// How the length of a body is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framing {
    /// There is none.
    Empty,
    /// So many bytes follow.
    Length(u64),
    /// Chunks follow.
    Chunked,
}

/// Reads the framing fields; nothing when there are none. `Err` says what is wrong with them.
pub(crate) fn framing(head: &Head) -> Result<Option<Framing>, &'static str> {
    let length = head
        .single("content-length")
        .map_err(|Repeated| "send one Content-Length")?;
    let coding = head
        .single("transfer-encoding")
        .map_err(|Repeated| "send one Transfer-Encoding")?;
    match (length, coding) {
        (None, None) => Ok(None),
        (Some(_), Some(_)) => Err("send Content-Length or Transfer-Encoding, never both"),
        (None, Some(coding)) if coding.eq_ignore_ascii_case(b"chunked") => {
            Ok(Some(Framing::Chunked))
        }
        (None, Some(_)) => Err("`chunked` is the only transfer coding that is taken"),
        (Some(digits), None) => match parse_length(digits) {
            Some(0) => Ok(Some(Framing::Empty)),
            Some(length) => Ok(Some(Framing::Length(length))),
            None => Err("write Content-Length as one decimal number"),
        },
    }
}

/// Digits only, one spelling; at most 18 of them, so that no reader's integer overflows.
fn parse_length(digits: &[u8]) -> Option<u64> {
    let spelled = (1..=18).contains(&digits.len())
        && digits.iter().all(u8::is_ascii_digit)
        && (digits.len() == 1 || digits.first() != Some(&b'0'));
    let text = std::str::from_utf8(digits).ok()?;
    spelled.then(|| text.parse().ok())?
}
