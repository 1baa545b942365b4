// SPDX-License-Identifier: Apache-2.0
//! The request's body on its way out: re-framed, streamed, counted, and searched for placeholders,
//! which a body carries inert.

use super::Stop;
use super::body::{Body, Step, push_chunk};
use crate::accept::Draw;
use crate::head::{Framing, Head};
use crate::inject::push_field;
use crate::normalize::{BodySearch, judge_trailers};
use crate::refuse::Fault;
use crate::report::Sent;
use crate::wire::{self, PIECE_BYTES, ReadBuffer, Source, StreamError, Writer};
use std::time::Duration;
use tokio::sync::OwnedSemaphorePermit;
use torno_policy::Reason;
use torno_policy::placeholder::{MARK, PLACEHOLDER_BYTES_MAX, Placeholder};
use zeroize::Zeroizing;

/// A request body, with what was read of it before the question was asked.
pub(crate) struct Upload {
    pub(crate) framing: Framing,
    pub(crate) body: Body,
    /// Bytes of the body that were read already; wiped once they are sent.
    pub(crate) ahead: Zeroizing<Vec<u8>>,
    /// The trailer section, when that was read already.
    trailers: Option<Head>,
    /// The right to hold what was read, until it is sent.
    pub(crate) room: Option<OwnedSemaphorePermit>,
}

impl Upload {
    pub(crate) fn new(framing: Framing) -> Self {
        Self {
            framing,
            body: Body::from(framing),
            ahead: Zeroizing::default(),
            trailers: None,
            room: None,
        }
    }

    /// Whether the body is read to its end.
    pub(crate) fn is_over(&self) -> bool {
        self.body.is_over() && self.ahead.is_empty() && self.trailers.is_none()
    }

    /// Reads on until `ahead` has grown or the body is over; false at the end. Used before the
    /// question; a trailer section that came is kept.
    pub(crate) async fn read_ahead(
        &mut self,
        source: &mut Source<'_>,
    ) -> Result<bool, StreamError> {
        loop {
            match self.body.step(source.buffer.unread())? {
                Step::More => source.more().await?,
                Step::Skip(count) => source.buffer.consume(count),
                Step::Data(count) => {
                    let data = source.buffer.unread().get(..count).unwrap_or_default();
                    self.ahead.extend_from_slice(data);
                    source.buffer.consume(count);
                    return Ok(true);
                }
                Step::Trailers(count, trailers) => {
                    // Judged where they are sent, behind the search for tripwires.
                    source.buffer.consume(count);
                    self.trailers = Some(trailers);
                    return Ok(false);
                }
                Step::End => return Ok(false),
            }
        }
    }

    /// Puts another body in the place of one that was read whole. It has a length then, and what
    /// stood behind its chunks is not sent: it spoke of the other.
    pub(crate) fn replace(&mut self, body: Zeroizing<Vec<u8>>) {
        self.framing = Framing::Length(u64::try_from(body.len()).unwrap_or(u64::MAX));
        self.body = Body::Length(0);
        self.trailers = None;
        self.ahead = body;
    }

    /// Takes the whole body when it is small and there already, so that it leaves with the head.
    pub(crate) fn take_small(&mut self, buffer: &mut ReadBuffer) {
        let Body::Length(left) = self.body else {
            return;
        };
        let there = buffer.unread();
        if let Ok(count) = usize::try_from(left)
            && count <= SMALL_BYTES
            && let Some(data) = there.get(..count)
        {
            self.ahead.extend_from_slice(data);
            buffer.consume(count);
            self.body = Body::Length(0);
        }
    }
}

/// LIMIT: a body that fits one TLS record with a usual head.
const SMALL_BYTES: usize = 12 * 1024;

/// The counters that a body adds to.
pub(crate) struct Tally<'a> {
    pub(crate) draw: &'a Draw,
    pub(crate) sent: &'a mut Sent,
    pub(crate) search: CarrySearch,
    pub(crate) tripwires: BodySearch<'a>,
}

impl Tally<'_> {
    /// Counts one piece of body, before it is written. One with a tripwire in it is not.
    pub(crate) fn count(&mut self, piece: &[u8]) -> Result<(), Stop> {
        self.tripwires.pass(piece)?;
        self.draw.send(piece.len())?;
        self.sent.bytes += u64::try_from(piece.len()).unwrap_or(0);
        self.sent.carried = self.sent.carried.saturating_add(self.search.find(piece));
        Ok(())
    }

    /// Counts a trailer section, before it is written. One with a tripwire in it is not.
    fn count_trailers(&mut self, trailers: &Head) -> Result<(), Stop> {
        for field in trailers.fields() {
            self.tripwires.pass_whole(field.name.as_bytes())?;
            self.tripwires.pass_whole(field.value)?;
        }
        Ok(self.draw.send(trailers.len())?)
    }
}

/// Sends the body. `Err(Stop::Gone)` for either side: the answer may still come.
pub(crate) async fn send(
    upload: &mut Upload,
    source: &mut Source<'_>,
    to: &mut Writer<'_>,
    tally: &mut Tally<'_>,
) -> Result<(), Stop> {
    let is_chunked = upload.framing == Framing::Chunked;
    let wait = source.wait;
    let mut out = Vec::new();
    let ahead = std::mem::take(&mut upload.ahead);
    tally.count(&ahead)?;
    push(&mut out, &ahead, is_chunked);
    if upload.room.is_some() {
        write_out(to, &mut out, wait).await?;
        upload.room = None;
    }
    if let Some(trailers) = upload.trailers.take() {
        push_trailers(&mut out, &trailers, tally)?;
        return write_out(to, &mut out, wait).await;
    }
    loop {
        let step = upload.body.step(source.buffer.unread())?;
        match step {
            Step::Skip(count) => source.buffer.consume(count),
            Step::Data(count) => {
                let piece = source.buffer.unread().get(..count).unwrap_or_default();
                tally.count(piece)?;
                push(&mut out, piece, is_chunked);
                source.buffer.consume(count);
                if out.len() >= PIECE_BYTES {
                    write_out(to, &mut out, wait).await?;
                }
            }
            Step::More => {
                write_out(to, &mut out, wait).await?;
                source.more_of_body().await.map_err(client_stopped)?;
            }
            Step::Trailers(count, trailers) => {
                push_trailers(&mut out, &trailers, tally)?;
                source.buffer.consume(count);
            }
            Step::End => return write_out(to, &mut out, wait).await,
        }
    }
}

fn push(out: &mut Vec<u8>, piece: &[u8], is_chunked: bool) {
    if is_chunked {
        push_chunk(out, piece);
    } else {
        out.extend_from_slice(piece);
    }
}

fn push_trailers(out: &mut Vec<u8>, trailers: &Head, tally: &mut Tally<'_>) -> Result<(), Stop> {
    tally.count_trailers(trailers)?;
    let fields = judge_trailers(trailers)?;
    out.extend_from_slice(b"0\r\n");
    for field in fields {
        push_field(out, field.name.as_bytes(), field.value);
    }
    out.extend_from_slice(b"\r\n");
    Ok(())
}

async fn write_out(to: &mut Writer<'_>, out: &mut Vec<u8>, wait: Duration) -> Result<(), Stop> {
    if !out.is_empty() {
        let written = wire::write_out(to, out, wait).await;
        written.map_err(|error| not_taken(error, Stop::Gone))?;
        out.clear();
    }
    Ok(())
}

/// A far end that takes nothing is told of; one that is gone may have said why.
pub(super) fn not_taken(error: StreamError, gone: Stop) -> Stop {
    match error {
        StreamError::Gone => gone,
        StreamError::Late => Stop::from(Fault::new(
            Reason::UpstreamTimeout,
            "the far end takes nothing more of the request: try again, or send it less at once",
        )),
        StreamError::Fault(fault) => fault.into(),
    }
}

/// A client that stops inside its body is told so, in case it still reads.
fn client_stopped(error: StreamError) -> Stop {
    match error {
        StreamError::Gone => Stop::ClientGone,
        late_or_fault => {
            Stop::from(late_or_fault.into_fault(Reason::MalformedRequest, Reason::MalformedRequest))
        }
    }
}

/// Counts placeholders in a stream, plain ones, across borders of pieces.
#[derive(Debug, Default)]
pub(crate) struct CarrySearch {
    tail: Vec<u8>,
}

impl CarrySearch {
    pub(crate) fn find(&mut self, piece: &[u8]) -> u32 {
        const KEEP: usize = PLACEHOLDER_BYTES_MAX - 1;
        // Across the border first: the kept end and the start of this piece.
        let old = self.tail.len();
        let mut border = std::mem::take(&mut self.tail);
        border.extend_from_slice(piece.get(..KEEP).unwrap_or(piece));
        let crossing = count(&border, |range| range.start < old && range.end > old);
        let inside = count(piece, |_| true);
        let from = if piece.len() >= KEEP {
            piece.get(piece.len() - KEEP..).unwrap_or_default()
        } else {
            border
                .get(border.len().saturating_sub(KEEP)..)
                .unwrap_or_default()
        };
        self.tail = from.to_vec();
        crossing.saturating_add(inside)
    }
}

fn count(text: &[u8], wanted: impl Fn(&std::ops::Range<usize>) -> bool) -> u32 {
    // Most bodies hold no mark at all.
    if memchr::memmem::find(text, MARK.as_bytes()).is_none() {
        return 0;
    }
    let found = Placeholder::find_all(text);
    let wanted = found.iter().filter(|(range, _)| wanted(range)).count();
    u32::try_from(wanted).unwrap_or(u32::MAX)
}
