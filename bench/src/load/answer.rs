// SPDX-License-Identifier: Apache-2.0
//! One answer: its head, and its body compared byte by byte with what the far end holds. Strict
//! where a mistake would flatter a figure, and no further.

use anyhow::{Context, Result, bail};
use tokio::io::{AsyncBufRead, AsyncBufReadExt};

/// LIMIT: a line of a head or chunk.
const LINE_BYTES_MAX: usize = 16 * 1024;

/// What matters of a head.
#[derive(Debug)]
pub(crate) struct Head {
    /// The status.
    pub(crate) status: u16,
    length: Option<u64>,
    chunked: bool,
    /// The far side closes after this answer.
    pub(crate) close: bool,
}

/// Reads a head.
pub(crate) async fn read_head<S: AsyncBufRead + Unpin>(stream: &mut S) -> Result<Head> {
    let mut line = Vec::with_capacity(256);
    read_line(stream, &mut line).await?;
    let text = std::str::from_utf8(&line).context("status line")?;
    let status = text
        .strip_prefix("HTTP/1.1 ")
        .or_else(|| text.strip_prefix("HTTP/1.0 "))
        .and_then(|rest| rest.get(..3))
        .and_then(|code| code.parse().ok())
        .with_context(|| format!("not a status line: {text:?}"))?;
    let mut head = Head {
        status,
        length: None,
        chunked: false,
        close: false,
    };
    loop {
        read_line(stream, &mut line).await?;
        if line.is_empty() {
            return Ok(head);
        }
        let text = std::str::from_utf8(&line).context("header")?;
        let (name, value) = text.split_once(':').context("header without colon")?;
        let value = value.trim();
        if name.eq_ignore_ascii_case("content-length") {
            head.length = Some(value.parse().context("content-length")?);
        } else if name.eq_ignore_ascii_case("transfer-encoding") {
            head.chunked = value.eq_ignore_ascii_case("chunked");
        } else if name.eq_ignore_ascii_case("connection") {
            head.close = value.eq_ignore_ascii_case("close");
        }
    }
}

async fn read_line<S: AsyncBufRead + Unpin>(stream: &mut S, line: &mut Vec<u8>) -> Result<()> {
    line.clear();
    loop {
        let buffer = stream.fill_buf().await.context("read")?;
        if buffer.is_empty() {
            bail!("closed within a head");
        }
        let end = buffer.iter().position(|byte| *byte == b'\n');
        let part = end.map_or(buffer, |end| buffer.get(..end).unwrap_or_default());
        line.extend_from_slice(part);
        let used = part.len() + usize::from(end.is_some());
        stream.consume(used);
        if end.is_some() {
            if line.last() == Some(&b'\r') {
                line.pop();
            }
            return Ok(());
        }
        if line.len() > LINE_BYTES_MAX {
            bail!("a line is too long");
        }
    }
}

/// Compares what comes with a block that repeats.
#[derive(Debug)]
pub(crate) struct Comparison<'b> {
    block: &'b [u8],
    place: usize,
    /// Bytes so far.
    pub(crate) bytes: u64,
    /// All of them as expected.
    pub(crate) same: bool,
}

impl<'b> Comparison<'b> {
    /// Against this block, repeated.
    pub(crate) fn new(block: &'b [u8]) -> Self {
        Self {
            block,
            place: 0,
            bytes: 0,
            same: true,
        }
    }

    fn take(&mut self, mut part: &[u8]) {
        self.bytes += part.len() as u64;
        while !part.is_empty() {
            let expected = self.block.get(self.place..).unwrap_or_default();
            let length = expected.len().min(part.len());
            let (now, later) = part.split_at(length);
            self.same &= expected.get(..length) == Some(now);
            self.place = (self.place + length) % self.block.len();
            part = later;
        }
    }
}

/// Reads the body that belongs to a head.
pub(crate) async fn read_body<S: AsyncBufRead + Unpin>(
    stream: &mut S,
    head: &Head,
    comparison: &mut Comparison<'_>,
) -> Result<()> {
    if !head.chunked {
        let length = head.length.context("an answer without length")?;
        return read_bytes(stream, length, comparison).await;
    }
    let mut line = Vec::new();
    loop {
        read_line(stream, &mut line).await?;
        let text = std::str::from_utf8(&line).context("chunk")?;
        let digits = text.split(';').next().unwrap_or_default().trim();
        let size = u64::from_str_radix(digits, 16).context("size of a chunk")?;
        read_bytes(stream, size, comparison).await?;
        if size > 0 {
            read_line(stream, &mut line).await?;
            continue;
        }
        while !line.is_empty() {
            read_line(stream, &mut line).await?;
        }
        return Ok(());
    }
}

async fn read_bytes<S: AsyncBufRead + Unpin>(
    stream: &mut S,
    mut left: u64,
    comparison: &mut Comparison<'_>,
) -> Result<()> {
    while left > 0 {
        let buffer = stream.fill_buf().await.context("read")?;
        if buffer.is_empty() {
            bail!("closed within a body");
        }
        let length = usize::try_from(left).map_or(buffer.len(), |left| left.min(buffer.len()));
        comparison.take(buffer.get(..length).unwrap_or_default());
        stream.consume(length);
        left -= length as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, block: &[u8]) -> Result<(u16, u64, bool)> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        runtime.block_on(async {
            let mut stream = tokio::io::BufReader::with_capacity(7, text.as_bytes());
            let head = read_head(&mut stream).await?;
            let mut comparison = Comparison::new(block);
            read_body(&mut stream, &head, &mut comparison).await?;
            Ok((head.status, comparison.bytes, comparison.same))
        })
    }

    #[test]
    fn both_framings_give_the_same_bytes() {
        let plain = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nababab";
        let chunked = concat!(
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n",
            "2\r\nab\r\n4;x\r\nabab\r\n0\r\n\r\n"
        );
        assert_eq!(read(plain, b"ab").unwrap(), (200, 6, true));
        assert_eq!(read(chunked, b"ab").unwrap(), (200, 6, true));
    }

    #[test]
    fn a_byte_that_differs_is_seen_and_a_short_body_is_an_error() {
        let differs = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nababaX";
        assert_eq!(read(differs, b"ab").unwrap(), (200, 6, false));
        assert!(read("HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\nababab", b"ab").is_err());
        assert!(read("HTTP/1.1 200 OK\r\n\r\nababab", b"ab").is_err());
    }
}
