// SPDX-License-Identifier: Apache-2.0
//! Bodies between the two versions, piece by piece: a piece is taken only when there is room for
//! it, so that whoever reads slowly slows down the one who writes.

use super::answer::{fields, last_chunk};
use crate::forward::body::{Body, Step, push_chunk};
use crate::head::Framing;
use crate::refuse::{DRAIN_BYTES, DRAIN_WAIT, Fault};
use crate::wire::{Source, StreamError, Writer};
use bytes::Bytes;
use h2::{RecvStream, SendStream};
use std::future::poll_fn;
use std::time::Duration;
use tokio::io::AsyncWriteExt;

/// Why a body does not come to its end.
#[derive(Debug)]
pub(super) enum Broken {
    /// The stream was reset, or its connection ended.
    Reset,
    /// The peer took nothing for too long.
    Slow,
    /// The side that speaks HTTP/1.1 went away or said something else.
    Pipe,
    /// What the peer sent is no body of this request.
    Form(Fault),
}

impl From<StreamError> for Broken {
    fn from(_: StreamError) -> Self {
        Self::Pipe
    }
}

impl From<Fault> for Broken {
    fn from(_: Fault) -> Self {
        Self::Pipe
    }
}

impl From<std::io::Error> for Broken {
    fn from(_: std::io::Error) -> Self {
        Self::Pipe
    }
}

impl From<h2::Error> for Broken {
    fn from(_: h2::Error) -> Self {
        Self::Reset
    }
}

/// Sends a body with its trailers on a stream. `wait` is the longest time without room.
pub(super) async fn to_stream(
    body: &mut Body,
    source: &mut Source<'_>,
    (stream, wait): (&mut SendStream<Bytes>, Duration),
) -> Result<(), Broken> {
    loop {
        match body.step(source.buffer.unread())? {
            Step::Skip(count) => source.buffer.consume(count),
            Step::Data(count) => {
                let piece = source.buffer.unread().get(..count).unwrap_or_default();
                let piece = Bytes::copy_from_slice(piece);
                source.buffer.consume(count);
                send(stream, piece, wait).await?;
            }
            Step::More => {
                tokio::select! {
                    biased;
                    _ = poll_fn(|cx| stream.poll_reset(cx)) => return Err(Broken::Reset),
                    more = source.more_of_body() => more?,
                }
            }
            Step::Trailers(count, trailers) => {
                source.buffer.consume(count);
                let trailers = fields(&trailers).ok_or(Broken::Pipe)?;
                if trailers.is_empty() {
                    stream.send_data(Bytes::new(), true)?;
                } else {
                    stream.send_trailers(trailers)?;
                }
                return Ok(());
            }
            Step::End => {
                stream.send_data(Bytes::new(), true)?;
                return Ok(());
            }
        }
    }
}

async fn send(
    stream: &mut SendStream<Bytes>,
    mut piece: Bytes,
    wait: Duration,
) -> Result<(), Broken> {
    while !piece.is_empty() {
        stream.reserve_capacity(piece.len());
        while stream.capacity() == 0 {
            let room = poll_fn(|cx| stream.poll_capacity(cx));
            let room = tokio::time::timeout(wait, room).await;
            room.map_err(|_| Broken::Slow)?.ok_or(Broken::Reset)??;
        }
        let now = piece.split_to(stream.capacity().min(piece.len()));
        stream.send_data(now, false)?;
    }
    Ok(())
}

/// Writes what comes on a stream as a body of HTTP/1.1.
pub(super) async fn from_stream(
    stream: &mut RecvStream,
    framing: Framing,
    to: &mut Writer<'_>,
) -> Result<(), Broken> {
    let mut left = match framing {
        Framing::Empty => Some(0),
        Framing::Length(length) => Some(length),
        Framing::Chunked => None,
    };
    let mut out = Vec::new();
    while let Some(piece) = poll_fn(|cx| stream.poll_data(cx)).await {
        let piece = piece?;
        if let Some(left) = &mut left {
            // What is longer than it said would be read as another request.
            let length = u64::try_from(piece.len()).unwrap_or(u64::MAX);
            *left = left.checked_sub(length).ok_or_else(not_its_length)?;
            out.extend_from_slice(&piece);
        } else {
            push_chunk(&mut out, &piece);
        }
        to.write_all(&out).await?;
        to.flush().await?;
        out.clear();
        stream.flow_control().release_capacity(piece.len())?;
    }
    let trailers = poll_fn(|cx| stream.poll_trailers(cx)).await?;
    match left {
        None => to.write_all(&last_chunk(trailers.as_ref())).await?,
        Some(0) if trailers.is_none() => {}
        Some(0) => {
            let hint = "send trailers behind a body without `content-length` only";
            return Err(Broken::Form(Fault::malformed(hint)));
        }
        Some(_) => return Err(not_its_length()),
    }
    Ok(to.flush().await?)
}

/// Reads and throws away what a client still sends after its answer is complete. Dropped at once,
/// the stream would be reset, and some clients lose the answer over that.
pub(super) async fn drain(stream: &mut RecvStream) {
    let draining = async {
        let mut drained = 0;
        while let Some(Ok(piece)) = poll_fn(|cx| stream.poll_data(cx)).await {
            drained += piece.len();
            let released = stream.flow_control().release_capacity(piece.len());
            if drained > DRAIN_BYTES || released.is_err() {
                return;
            }
        }
    };
    // Late or not, the stream ends here.
    let _ = tokio::time::timeout(DRAIN_WAIT, draining).await;
}

fn not_its_length() -> Broken {
    Broken::Form(Fault::malformed(
        "send as many bytes as `content-length` says",
    ))
}
