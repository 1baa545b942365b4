// SPDX-License-Identifier: Apache-2.0
//! Byte streams of both sides: what a peer is, a bounded read buffer, and the wrapper that makes a
//! dropped stream end with a reset when it was cut.

mod rooms;

pub(crate) use rooms::{BelowTls, below_tls};

use crate::refuse::Fault;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use torno_policy::Reason;

/// A byte stream from the sandbox: a captured TCP connection, a passed socket, a couriered stream.
pub trait Peer: AsyncRead + AsyncWrite + Send + Unpin + 'static {
    /// Asked before a stream that was revoked is dropped: end it with a reset where that exists.
    fn reset_on_close(&self) {}
}

impl Peer for TcpStream {
    fn reset_on_close(&self) {
        // Without it the stream still ends at once, only with a FIN.
        let _ = self.set_zero_linger();
    }
}

impl Peer for UnixStream {}
impl Peer for tokio::io::DuplexStream {}

impl Peer for Box<dyn Peer> {
    fn reset_on_close(&self) {
        self.as_ref().reset_on_close();
    }
}

/// Both directions of a stream, whatever it is made of.
pub(crate) trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

pub(crate) type Reader<'a> = dyn AsyncRead + Send + Unpin + 'a;
pub(crate) type Writer<'a> = dyn AsyncWrite + Send + Unpin + 'a;

/// Set when a stream was revoked.
pub(crate) type CutFlag = Arc<AtomicBool>;

/// A peer that ends with a reset when its flag is set.
pub(crate) struct Cuttable<P: Peer> {
    peer: P,
    cut: CutFlag,
}

impl<P: Peer> Cuttable<P> {
    pub(crate) fn new(peer: P, cut: CutFlag) -> Self {
        Self { peer, cut }
    }
}

impl<P: Peer> Drop for Cuttable<P> {
    fn drop(&mut self) {
        if self.cut.load(Ordering::Acquire) {
            self.peer.reset_on_close();
        }
    }
}

impl<P: Peer> AsyncRead for Cuttable<P> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.peer).poll_read(cx, buf)
    }
}

impl<P: Peer> AsyncWrite for Cuttable<P> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.peer).poll_write(cx, buf)
    }

    /// TLS writes several records at once: without this each would be a system call.
    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.peer).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.peer.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.peer).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.peer).poll_shutdown(cx)
    }
}

/// LIMIT: one TLS record's plaintext; larger reads save no call on a TLS stream.
const READ_BYTES: usize = 16 * 1024;
/// LIMIT: a whole head of the largest size, and a read behind it.
const BUFFER_BYTES_MAX: usize = crate::head::HEAD_BYTES_MAX + READ_BYTES;

/// Bytes that were read and not yet consumed. With nothing in it, it holds no room.
#[derive(Debug)]
pub(crate) struct ReadBuffer {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
}

impl ReadBuffer {
    pub(crate) const fn new() -> Self {
        Self {
            bytes: Vec::new(),
            start: 0,
            end: 0,
        }
    }

    /// What is there.
    pub(crate) fn unread(&self) -> &[u8] {
        self.bytes.get(self.start..self.end).unwrap_or_default()
    }

    /// Forgets the first `count` unread bytes.
    pub(crate) fn consume(&mut self, count: usize) {
        self.start = self.end.min(self.start + count);
        self.rest();
    }

    /// Reads once; 0 means the end of the stream.
    pub(crate) async fn fill(&mut self, io: &mut Reader<'_>) -> io::Result<usize> {
        poll_fn(|cx| self.poll_fill(cx, io, READ_BYTES)).await
    }

    fn poll_fill(
        &mut self,
        cx: &mut Context<'_>,
        io: &mut Reader<'_>,
        room: usize,
    ) -> Poll<io::Result<usize>> {
        self.make_room(room)?;
        let mut room = ReadBuf::new(self.bytes.get_mut(self.end..).unwrap_or_default());
        let polled = Pin::new(io).poll_read(cx, &mut room);
        let count = room.filled().len();
        self.end += count;
        self.rest();
        polled.map_ok(|()| count)
    }

    /// Gives its room back when nothing is in it.
    fn rest(&mut self) {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
            rooms::give_back(std::mem::take(&mut self.bytes));
        }
    }

    fn make_room(&mut self, room: usize) -> io::Result<()> {
        if self.bytes.is_empty() {
            self.bytes = rooms::lend(room);
        }
        if self.end < self.bytes.len() {
            return Ok(());
        }
        if self.start > 0 {
            self.bytes.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
            return Ok(());
        }
        if self.bytes.len() >= BUFFER_BYTES_MAX {
            return Err(io::Error::other("the read buffer is full"));
        }
        let larger = (self.bytes.len() * 2).min(BUFFER_BYTES_MAX);
        self.bytes.resize(larger, 0);
        Ok(())
    }
}

impl Drop for ReadBuffer {
    fn drop(&mut self) {
        rooms::give_back(std::mem::take(&mut self.bytes));
    }
}

/// A reading side with its buffer.
pub(crate) struct Source<'a> {
    pub(crate) io: &'a mut Reader<'a>,
    pub(crate) buffer: &'a mut ReadBuffer,
    /// The longest pause between two reads.
    pub(crate) wait: Duration,
}

/// Why a stream ended early.
#[derive(Debug)]
pub(crate) enum StreamError {
    /// The bytes are not what they must be.
    Fault(Fault),
    /// The stream ended or failed in the middle.
    Gone,
    /// Nothing came for longer than allowed.
    Late,
}

impl From<Fault> for StreamError {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl StreamError {
    /// As a refusal for the side that did it.
    pub(crate) fn into_fault(self, gone: Reason, late: Reason) -> Fault {
        match self {
            Self::Fault(fault) => fault,
            Self::Gone => Fault::new(gone, "the stream ended before its message did: try again"),
            Self::Late => Fault::new(late, "nothing came for too long: try again"),
        }
    }
}

/// Writes all of it and flushes. `Late` when the peer has not taken it in time: who reads nothing,
/// or a few bytes now and then, holds nobody up. Of a piece of a body, 48 KiB, a far end that is
/// waited for 300 s must take 160 bytes a second.
pub(crate) async fn write_out(
    to: &mut Writer<'_>,
    bytes: &[u8],
    wait: Duration,
) -> Result<(), StreamError> {
    let writing = async {
        to.write_all(bytes).await?;
        to.flush().await
    };
    match tokio::time::timeout(wait, writing).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(_)) => Err(StreamError::Gone),
        Err(_) => Err(StreamError::Late),
    }
}

/// LIMIT: what is collected of a body before it goes on: three TLS records and one write.
pub(crate) const PIECE_BYTES: usize = 48 * 1024;
/// Room for a piece that lacks a byte, and one more record.
const BODY_BYTES: usize = PIECE_BYTES + READ_BYTES;
/// LIMIT: what a TLS connection takes at once, to be sealed and written: a piece and its framing,
/// so that the few bytes of the framing's end need no write of their own.
pub(crate) const SEALED_BYTES_MAX: usize = BODY_BYTES + 4 * 1024;

impl Source<'_> {
    /// Reads at least one more byte of a body, and on as long as more is there at once.
    pub(crate) async fn more_of_body(&mut self) -> Result<(), StreamError> {
        let reading = poll_fn(|cx| self.buffer.poll_fill(cx, self.io, BODY_BYTES));
        in_time(self.wait, reading).await?;
        while self.buffer.unread().len() < PIECE_BYTES {
            let io = &mut *self.io;
            let read = poll_fn(|cx| Poll::Ready(self.buffer.poll_fill(cx, io, BODY_BYTES)));
            match read.await {
                Poll::Ready(Ok(1..)) => {}
                // An end or an error is there for the next read too, when this has gone on.
                Poll::Ready(Ok(0) | Err(_)) | Poll::Pending => break,
            }
        }
        Ok(())
    }

    /// Reads at least one more byte.
    pub(crate) async fn more(&mut self) -> Result<(), StreamError> {
        in_time(self.wait, self.buffer.fill(self.io)).await
    }
}

async fn in_time(
    wait: Duration,
    reading: impl Future<Output = io::Result<usize>>,
) -> Result<(), StreamError> {
    match tokio::time::timeout(wait, reading).await {
        Err(_) => Err(StreamError::Late),
        Ok(Ok(0) | Err(_)) => Err(StreamError::Gone),
        Ok(Ok(_)) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::pin;
    use tokio::io::AsyncReadExt;

    #[tokio::test]
    async fn a_buffer_holds_no_room_while_it_waits_and_grows_for_what_must_be_whole() {
        let (mut one, mut other) = tokio::io::duplex(1 << 20);
        let mut buffer = ReadBuffer::new();
        {
            let mut waiting = pin!(buffer.fill(&mut one));
            let polled = poll_fn(|cx| Poll::Ready(waiting.as_mut().poll(cx).is_pending()));
            assert!(polled.await);
        }
        assert_eq!(buffer.bytes.capacity(), 0);
        let sent: Vec<u8> = (0..40_000_u32).map(|n| n.to_le_bytes()[0]).collect();
        other.write_all(&sent).await.unwrap();
        while buffer.unread().len() < sent.len() {
            buffer.fill(&mut one).await.unwrap();
        }
        assert!(buffer.unread() == sent);
        buffer.consume(39_999);
        assert_eq!(buffer.unread(), sent.get(39_999..).unwrap());
        buffer.consume(1);
        assert_eq!(buffer.bytes.capacity(), 0);
    }

    #[tokio::test]
    async fn records_that_are_written_together_leave_together() {
        let (one, mut other) = UnixStream::pair().unwrap();
        let boxed: Box<dyn Peer> = Box::new(one);
        let mut stream = below_tls(Cuttable::new(boxed, CutFlag::default()));
        assert!(stream.is_write_vectored());
        let records = [IoSlice::new(b"first "), IoSlice::new(b"second")];
        let written = poll_fn(|cx| Pin::new(&mut stream).poll_write_vectored(cx, &records));
        assert_eq!(written.await.unwrap(), 12);
        let mut read = [0; 12];
        other.read_exact(&mut read).await.unwrap();
        assert_eq!(&read, b"first second");
    }
}
