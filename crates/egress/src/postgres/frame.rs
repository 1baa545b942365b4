// SPDX-License-Identifier: Apache-2.0
//! Messages of PostgreSQL's protocol after start-up: a kind, a length, a body. Both sides are read
//! here, each bounded, and written anew.

use crate::refuse::Fault;
use crate::wire::{Duplex, StreamError};
use bytes::{Buf, Bytes, BytesMut};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use torno_policy::Reason;

/// LIMIT: a statement, its parameters or a piece of COPY from the client; migrations and bulk
/// inserts of real programs stay far below.
pub(crate) const FROM_CLIENT_MAX: usize = 1 << 20;
/// LIMIT: one row or piece of COPY from the far end, which is searched as a whole.
pub(super) const FROM_FAR_END_MAX: usize = 4 << 20;
/// LIMIT: what is read at once.
const READ_BYTES: usize = 16 * 1024;

/// One message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Frame {
    /// Its first byte.
    pub(crate) kind: u8,
    /// What follows its length.
    pub(crate) body: Bytes,
}

/// Takes the first whole message; nothing asks for more bytes.
pub(crate) fn take(bytes: &mut BytesMut, body_max: usize) -> Result<Option<Frame>, Fault> {
    let mut head = bytes.as_ref();
    if head.len() < 5 {
        return Ok(None);
    }
    let kind = head.get_u8();
    let length = usize::try_from(head.get_u32()).unwrap_or(usize::MAX);
    let body = length.checked_sub(4).ok_or_else(malformed)?;
    if body > body_max {
        return Err(Fault::new(
            Reason::TooLarge,
            "send statements and values in smaller messages: this one is over the limit",
        ));
    }
    if head.len() < body {
        return Ok(None);
    }
    bytes.advance(5);
    let body = bytes.split_to(body).freeze();
    Ok(Some(Frame { kind, body }))
}

/// Writes one message.
pub(crate) fn put(kind: u8, body: &[u8], out: &mut Vec<u8>) {
    // INVARIANT: bodies are those of read messages and a few of our own, all below 2^31 bytes.
    let length = u32::try_from(body.len().saturating_add(4)).unwrap_or(u32::MAX);
    out.push(kind);
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(body);
}

/// Takes the text up to the next NUL.
pub(crate) fn text<'a>(body: &mut &'a [u8]) -> Result<&'a [u8], Fault> {
    let end = memchr::memchr(0, body).ok_or_else(malformed)?;
    let (text, rest) = body.split_at_checked(end).ok_or_else(malformed)?;
    *body = rest.get(1..).unwrap_or_default();
    Ok(text)
}

pub(crate) fn malformed() -> Fault {
    Fault::malformed("this is no message of PostgreSQL's protocol 3.0: use a client that speaks it")
}

/// One side of a connection, and what was read of it.
pub(super) struct Lane {
    io: Box<dyn Duplex>,
    read: BytesMut,
    body_max: usize,
    write_wait: Duration,
    /// A write was begun and not completed: nothing that follows would be read as a message.
    is_torn: bool,
}

impl Lane {
    pub(super) fn new(io: Box<dyn Duplex>, unread: &[u8], body_max: usize, wait: Duration) -> Self {
        Self {
            io,
            read: BytesMut::from(unread),
            body_max,
            write_wait: wait,
            is_torn: false,
        }
    }

    /// A message that is there already.
    pub(super) fn there(&mut self) -> Result<Option<Frame>, StreamError> {
        Ok(take(&mut self.read, self.body_max)?)
    }

    /// The next message; nothing when the stream is over. Dropping the future loses no byte.
    pub(super) async fn next(&mut self) -> Result<Option<Frame>, StreamError> {
        loop {
            if let Some(frame) = self.there()? {
                return Ok(Some(frame));
            }
            self.read.reserve(READ_BYTES);
            match self.io.read_buf(&mut self.read).await {
                Ok(0) if self.read.is_empty() => return Ok(None),
                Ok(0) | Err(_) => return Err(StreamError::Gone),
                Ok(_) => {}
            }
        }
    }

    /// Writes all of it within the time for writes.
    pub(super) async fn send(&mut self, bytes: &[u8]) -> Result<(), StreamError> {
        if std::mem::replace(&mut self.is_torn, true) {
            return Err(StreamError::Gone);
        }
        let sending = async {
            self.io.write_all(bytes).await?;
            self.io.flush().await
        };
        match tokio::time::timeout(self.write_wait, sending).await {
            Err(_) => Err(StreamError::Late),
            Ok(Err(_)) => Err(StreamError::Gone),
            Ok(Ok(())) => {
                self.is_torn = false;
                Ok(())
            }
        }
    }

    /// Says that nothing more comes, and reads what the other side still says, so that it reads
    /// the last message before the stream is reset.
    pub(super) async fn close(&mut self, wait: Duration) {
        let closing = async {
            if self.io.shutdown().await.is_err() {
                return;
            }
            // LIMIT: a message of the largest size.
            let mut left = self.body_max;
            while left > 0 {
                self.read.clear();
                self.read.reserve(READ_BYTES);
                match self.io.read_buf(&mut self.read).await {
                    Ok(0) | Err(_) => return,
                    Ok(count) => left = left.saturating_sub(count),
                }
            }
        };
        // Late or not, the connection ends here.
        let _ = tokio::time::timeout(wait, closing).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_taken_whole_bounded_and_written_as_it_was() {
        let mut written = Vec::new();
        put(b'Q', b"select 1\0", &mut written);
        put(b'S', b"", &mut written);
        let mut bytes = BytesMut::new();
        let mut taken = Vec::new();
        for byte in &written {
            bytes.extend_from_slice(&[*byte]);
            taken.extend(take(&mut bytes, 9).unwrap());
        }
        assert_eq!(taken.len(), 2);
        assert_eq!(&taken[0].body[..], b"select 1\0");
        assert_eq!(taken[1].kind, b'S');
        let refused = |bytes: &[u8]| take(&mut BytesMut::from(bytes), 9).unwrap_err().reason;
        // A length is refused before its body comes.
        assert_eq!(refused(b"Q\0\0\0\x0e"), Reason::TooLarge);
        assert_eq!(refused(b"Q\xff\xff\xff\xff"), Reason::TooLarge);
        assert_eq!(refused(b"Q\0\0\0\x03"), Reason::MalformedRequest);
    }
}
