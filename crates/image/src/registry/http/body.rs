// SPDX-License-Identifier: Apache-2.0
//! The body of an answer: by its length, in chunks, or until the connection is closed over TLS.

use super::HttpError;
use std::io::{self, BufRead, Read};

/// LIMIT: a chunk's size line; extensions are no use to us.
const SIZE_LINE_BYTES_MAX: u64 = 256;

/// One of the three.
#[derive(Debug)]
pub(super) enum Body<R> {
    /// So many bytes more.
    Length(R, u64),
    /// Chunks; so many bytes are left of this one, or all is over.
    Chunks(R, Option<u64>),
    /// All that comes. TLS says whether that was all.
    Rest(R),
}

impl<R: BufRead> Body<R> {
    /// As the head says. Two framings, or one said twice, are none.
    pub(super) fn of(headers: &[(String, String)], stream: R) -> Result<Self, HttpError> {
        let all = |name: &str| {
            let found = headers.iter().filter(|(known, _)| known == name);
            found.map(|(_, value)| value.as_str()).collect::<Vec<_>>()
        };
        match (
            all("content-length").as_slice(),
            all("transfer-encoding").as_slice(),
        ) {
            ([], []) => Ok(Self::Rest(stream)),
            ([length], []) if length.bytes().all(|byte| byte.is_ascii_digit()) => {
                let length = length.parse();
                let length = length.map_err(|_| HttpError::Head("its length is none"))?;
                Ok(Self::Length(stream, length))
            }
            ([], [coding]) if coding.eq_ignore_ascii_case("chunked") => {
                Ok(Self::Chunks(stream, Some(0)))
            }
            _ => Err(HttpError::Head("its body can be framed in two ways")),
        }
    }
}

impl<R: BufRead> Read for Body<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        match self {
            Self::Rest(stream) => stream.read(buffer),
            Self::Length(stream, left) => part(stream, left, buffer),
            Self::Chunks(stream, state) => {
                let Some(left) = state else {
                    return Ok(0);
                };
                if *left == 0 {
                    *left = size(stream)?;
                    if *left == 0 {
                        *state = None;
                        return Ok(0);
                    }
                }
                let length = part(stream, left, buffer)?;
                if *left == 0 {
                    end_of_line(stream)?;
                }
                Ok(length)
            }
        }
    }
}

fn part(stream: &mut impl Read, left: &mut u64, buffer: &mut [u8]) -> io::Result<usize> {
    let length = stream.take(*left).read(buffer)?;
    if length == 0 && *left > 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    *left -= u64::try_from(length).unwrap_or_default();
    Ok(length)
}

fn size(stream: &mut impl BufRead) -> io::Result<u64> {
    let mut line = Vec::new();
    stream
        .take(SIZE_LINE_BYTES_MAX)
        .read_until(b'\n', &mut line)?;
    let line = line
        .strip_suffix(b"\r\n")
        .and_then(|line| std::str::from_utf8(line).ok());
    let digits = line.map(|line| line.split(';').next().unwrap_or_default().trim());
    let digits = digits.filter(|text| text.bytes().all(|byte| byte.is_ascii_hexdigit()));
    let size = digits.and_then(|digits| u64::from_str_radix(digits, 16).ok());
    size.ok_or_else(|| io::Error::other("a chunk has no size"))
}

fn end_of_line(stream: &mut impl Read) -> io::Result<()> {
    let mut end = [0; 2];
    stream.read_exact(&mut end)?;
    if end == *b"\r\n" {
        Ok(())
    } else {
        Err(io::Error::other("a chunk has no end"))
    }
}
