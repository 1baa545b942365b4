// SPDX-License-Identifier: Apache-2.0
//! Rooms to read into, lent while something is in them: a connection that waits holds none, so that
//! hundreds of idle ones cost no buffers. A few are kept by each thread for whoever reads next; a
//! gate serves one session, so none is ever another session's.

use std::cell::RefCell;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// LIMIT: rooms of one size that a thread keeps; more are lent than this, and freed.
const KEPT_MAX: usize = 8;

thread_local! {
    static KEPT: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// LIMIT: the largest room that is kept, for pieces of bodies. One that grew for a large head is
/// not what the next reader needs.
const LARGEST: usize = 64 * 1024;

/// A room of this size, filled with anything.
pub(super) fn lend(size: usize) -> Vec<u8> {
    let kept = KEPT.with_borrow_mut(|kept| {
        let at = kept.iter().rposition(|room| room.len() == size)?;
        Some(kept.swap_remove(at))
    });
    kept.unwrap_or_else(|| vec![0; size])
}

/// Takes a room back, whatever is left in it.
pub(super) fn give_back(room: Vec<u8>) {
    KEPT.with_borrow_mut(|kept| {
        let alike = kept.iter().filter(|other| other.len() == room.len());
        if (1..=LARGEST).contains(&room.len()) && alike.count() < KEPT_MAX {
            kept.push(room);
        }
    });
}

/// LIMIT: what is read at once below a TLS stream, which itself asks for 4 KiB at a time: two
/// records and a bit.
const TLS_READ_BYTES: usize = 36 * 1024;

/// A stream that TLS is spoken on: it is read in large pieces, whatever TLS asks for. What lies in
/// its room is ciphertext.
pub(crate) struct BelowTls<S> {
    stream: S,
    room: Vec<u8>,
    start: usize,
    end: usize,
}

/// Wraps a stream that TLS will be spoken on.
pub(crate) fn below_tls<S: AsyncRead + AsyncWrite + Unpin>(stream: S) -> BelowTls<S> {
    BelowTls {
        stream,
        room: Vec::new(),
        start: 0,
        end: 0,
    }
}

impl<S: AsyncRead + Unpin> BelowTls<S> {
    fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut room = lend(TLS_READ_BYTES);
        let mut buf = ReadBuf::new(&mut room);
        let polled = Pin::new(&mut self.stream).poll_read(cx, &mut buf);
        (self.start, self.end) = (0, buf.filled().len());
        if self.end > 0 {
            self.room = room;
        } else {
            give_back(room);
        }
        polled
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for BelowTls<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.start == self.end {
            ready!(self.poll_fill(cx))?;
        }
        let there = self.room.get(self.start..self.end).unwrap_or_default();
        let count = there.len().min(buf.remaining());
        buf.put_slice(there.get(..count).unwrap_or_default());
        self.start += count;
        if self.start == self.end {
            give_back(std::mem::take(&mut self.room));
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for BelowTls<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    #[tokio::test]
    async fn a_stream_below_tls_gives_every_byte_in_order_and_holds_no_room_when_it_waits() {
        let (one, mut other) = tokio::io::duplex(1 << 20);
        let mut stream = below_tls(one);
        let sent: Vec<u8> = (0..100_000_u32).map(|n| n.to_le_bytes()[0]).collect();
        other.write_all(&sent).await.unwrap();
        let mut got = Vec::new();
        while got.len() < sent.len() {
            let mut piece = [0; 4096];
            let count = stream.read(&mut piece).await.unwrap();
            got.extend_from_slice(&piece[..count]);
        }
        assert!(got == sent);
        let mut byte = [0];
        let waiting = std::future::poll_fn(|cx| {
            let mut buf = ReadBuf::new(&mut byte);
            Poll::Ready(Pin::new(&mut stream).poll_read(cx, &mut buf).is_pending())
        });
        assert!(waiting.await);
        assert_eq!(stream.room.capacity(), 0);
        drop(other);
        assert_eq!(stream.read(&mut [0; 8]).await.unwrap(), 0);
    }

    #[test]
    fn few_rooms_are_kept() {
        for _ in 0..3 * KEPT_MAX {
            give_back(vec![0; 64]);
        }
        KEPT.with_borrow(|kept| assert_eq!(kept.len(), KEPT_MAX));
        let lent: Vec<_> = (0..2 * KEPT_MAX).map(|_| lend(64)).collect();
        assert!(lent.iter().all(|room| room.len() == 64));
        KEPT.with_borrow(|kept| assert!(kept.is_empty()));
    }
}
