// SPDX-License-Identifier: Apache-2.0
//! The answer on its way to the client: head rewritten, body searched and re-framed as it comes,
//! flushed whenever the far end pauses.

use super::Stop;
use super::answer::{self, Answer, Coding, Outgoing, Rewrite, push_scrubbed};
use super::body::{Body, Chunk, Step};
use super::messages::Messages;
use super::minting::{self, Minting, ReadAhead};
use crate::accept::Draw;
use crate::cookies::Place;
use crate::head::Head;
use crate::normalize::{is_grpc_kind, is_hop_by_hop};
use crate::refuse::Fault;
use crate::report::Received;
use crate::scrub::{BodyScrub, Released, Unpack, scrub_whole};
use crate::wire::{self, PIECE_BYTES, Source, StreamError, Writer};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// What the answer's way depends on.
pub(crate) struct Download<'a> {
    pub(crate) released: &'a Released,
    pub(crate) is_bound: bool,
    /// The client reads no chunks.
    pub(crate) is_http10: bool,
    /// The client's connection may go on behind this answer.
    pub(crate) keep_alive: bool,
    pub(crate) received: &'a mut Received,
    pub(crate) draw: &'a Draw,
    /// How long the client may take for a piece.
    pub(crate) wait: Duration,
    /// Set where something of the answer is kept here.
    pub(crate) keeping: Option<Place<'a>>,
    /// Set where the answer may hold what was made with a credential.
    pub(crate) minting: Option<Minting<'a>>,
}

impl Download<'_> {
    /// Sends an answer whose head was read. Gives whether the client's connection may go on.
    pub(crate) async fn send(
        mut self,
        answer: &mut Answer,
        source: &mut Source<'_>,
        to: &mut Writer<'_>,
    ) -> Result<bool, Stop> {
        let mut out = Vec::with_capacity(1024);
        let markers = self.keep_cookies(answer);
        let scrubber = self.released.scrubber();
        let is_packed = !matches!(answer.coding, Coding::Identity | Coding::Other);
        let is_unpacked = scrubber.is_some() && is_packed;
        if scrubber.is_some() && answer.coding == Coding::Other && !answer.body.is_over() {
            return Err(Fault::answer(
                "the far end's answer is in an encoding that can't be searched for secrets",
            )
            .into());
        }
        self.received.status = Some(answer.status);
        let ahead = self.read_ahead(answer, source).await?;
        let small = match &ahead {
            Some(ahead) if ahead.is_whole => Some(self.minted(answer, &ahead.bytes).await?),
            None if !is_unpacked => self.take_small(answer, source),
            Some(start) => {
                minting::pass_start(answer, self.released, &start.bytes)?;
                None
            }
            None => None,
        };
        // What was read whole was unpacked, whether anything is searched for or not.
        let is_read = ahead.as_ref().is_some_and(|ahead| ahead.is_whole);
        let outgoing = match &small {
            Some(body) => Outgoing::Length(u64::try_from(body.len()).unwrap_or(0)),
            None if ahead.is_some() => self.streamed(),
            None => self.outgoing(answer, scrubber.is_some()),
        };
        let keep_alive = self.keep_alive && outgoing != Outgoing::UntilClose;
        // With what the body minted: the head may hold it too.
        let scrubber = self.released.scrubber();
        let how = Rewrite {
            scrubber: scrubber.as_ref(),
            outgoing,
            is_unpacked: is_unpacked || (is_packed && is_read),
            is_bound: self.is_bound,
            markers: &markers,
            close: !keep_alive,
        };
        self.received.reflected += answer::rewrite(answer, &how, &mut out);
        self.draw
            .receive(out.len() + small.as_ref().map_or(0, Vec::len))?;
        match small {
            Some(body) => {
                self.received.bytes += u64::try_from(body.len()).unwrap_or(0);
                out.extend_from_slice(&body);
                self.write_out(to, &mut out).await?;
            }
            None => {
                let ahead = ahead.map(|ahead| ahead.bytes).unwrap_or_default();
                let ways = (source, to);
                self.stream(answer, ways, outgoing, (&ahead, out)).await?;
            }
        }
        Ok(keep_alive)
    }

    /// Takes the answer's cookies into the jar, before anything of it goes on: it may repeat them.
    /// Gives what the sandbox gets instead.
    pub(super) fn keep_cookies(&mut self, answer: &Answer) -> Vec<Vec<u8>> {
        let Some(place) = self.keeping.filter(|place| place.keeping.cookies) else {
            return Vec::new();
        };
        self.is_bound = true;
        let taken = self
            .released
            .keep_cookies(place, answer.head.values("set-cookie"));
        let scrubber = self.released.scrubber();
        let shown = |name: &String| {
            let mut shown = Vec::with_capacity(name.len());
            let _hits = scrub_whole(scrubber.as_ref(), name.as_bytes(), &mut shown);
            String::from_utf8_lossy(&shown)
                .chars()
                .take(NAME_CHARS_MAX)
                .collect()
        };
        let names = taken.names.iter().take(NAMES_MAX).map(shown);
        self.received.cookies = names.collect();
        taken.markers
    }

    /// Reads an answer that may mint, as far as it is looked at.
    async fn read_ahead(
        &self,
        answer: &mut Answer,
        source: &mut Source<'_>,
    ) -> Result<Option<ReadAhead>, Stop> {
        match self.minting {
            Some(minting) if minting::may_mint(answer, &minting)? => {
                let ahead = minting::read_ahead(answer, source).await?;
                minting.check_length(&ahead)?;
                Ok(Some(ahead))
            }
            Some(_) | None => Ok(None),
        }
    }

    /// A whole answer without what it mints, searched.
    async fn minted(&mut self, answer: &Answer, packed: &[u8]) -> Result<Vec<u8>, Stop> {
        let mut body = minting::whole(answer, packed)?;
        if let Some(minting) = self.minting {
            body = minting.keep(answer, self.released, body).await?;
        }
        let mut scrubbed = Vec::with_capacity(body.len());
        let scrubber = self.released.scrubber();
        self.received.reflected += scrub_whole(scrubber.as_ref(), &body, &mut scrubbed);
        Ok(scrubbed)
    }

    /// A body that is there already is searched at once and keeps a length.
    fn take_small(&mut self, answer: &mut Answer, source: &mut Source<'_>) -> Option<Vec<u8>> {
        let Body::Length(length @ 1..) = answer.body else {
            return None;
        };
        let length = usize::try_from(length).ok()?;
        let body = source.buffer.unread().get(..length)?;
        let mut scrubbed = Vec::with_capacity(length);
        let scrubber = self.released.scrubber();
        self.received.reflected += scrub_whole(scrubber.as_ref(), body, &mut scrubbed);
        source.buffer.consume(length);
        answer.body = Body::Length(0);
        Some(scrubbed)
    }

    fn outgoing(&self, answer: &Answer, is_scrubbed: bool) -> Outgoing {
        match answer.body {
            Body::Length(0) if answer.head.values("content-length").any(|v| v == b"0") => {
                Outgoing::Length(0)
            }
            Body::Length(0) => Outgoing::Nothing,
            Body::Length(length) if !is_scrubbed => Outgoing::Length(length),
            _ => self.streamed(),
        }
    }

    fn streamed(&self) -> Outgoing {
        if self.is_http10 {
            Outgoing::UntilClose
        } else {
            Outgoing::Chunked
        }
    }

    async fn stream(
        &mut self,
        answer: &mut Answer,
        (source, to): (&mut Source<'_>, &mut Writer<'_>),
        outgoing: Outgoing,
        (ahead, mut out): (&[u8], Vec<u8>),
    ) -> Result<(), Stop> {
        let mut way = Way::new(self.released, answer, outgoing);
        self.draw.receive(ahead.len())?;
        way.pass(ahead, &mut out)?;
        self.settle(&way)?;
        loop {
            let unread = source.buffer.unread();
            match answer.body.step(unread).map_err(answer::of_answer)? {
                Step::Skip(count) => source.buffer.consume(count),
                Step::Data(count) => {
                    self.draw.receive(count)?;
                    way.pass(unread.get(..count).unwrap_or_default(), &mut out)?;
                    source.buffer.consume(count);
                    self.settle(&way)?;
                    if out.len() >= PIECE_BYTES {
                        self.write_out(to, &mut out).await?;
                    }
                }
                Step::More => {
                    self.write_out(to, &mut out).await?;
                    match source.more_of_body().await {
                        Ok(()) => {}
                        Err(StreamError::Gone) if matches!(answer.body, Body::UntilClose) => {
                            answer.body = Body::Length(0);
                        }
                        Err(_) => return Err(Stop::Gone),
                    }
                }
                Step::Trailers(count, trailers) => {
                    source.buffer.consume(count);
                    self.draw.receive(trailers.len())?;
                    way.finish(Some(&trailers), &mut out)?;
                    self.settle(&way)?;
                    self.received.reflected += way.hits();
                    return self.write_out(to, &mut out).await;
                }
                Step::End => {
                    way.finish(None, &mut out)?;
                    self.settle(&way)?;
                    self.received.reflected += way.hits();
                    return self.write_out(to, &mut out).await;
                }
            }
        }
    }

    fn settle(&mut self, way: &Way<'_>) -> Result<(), Stop> {
        self.received.bytes = way.passed;
        // The length was told before anything was released: a find can't be taken out any more.
        if way.is_fixed() && way.hits() > 0 {
            self.received.reflected += way.hits();
            Err(Stop::Gone)
        } else if way.messages.is_some() && way.scrub.hits() > 0 {
            // A message tells its length in itself: shortened or not, it would be another.
            self.received.reflected += way.hits();
            let hint = "a message of the far end's holds a credential and was not let in";
            Err(Fault::answer(hint).into())
        } else {
            Ok(())
        }
    }

    async fn write_out(&mut self, to: &mut Writer<'_>, out: &mut Vec<u8>) -> Result<(), Stop> {
        if !out.is_empty() {
            self.received.started.store(true, Ordering::Relaxed);
            let written = wire::write_out(to, out, self.wait).await;
            written.map_err(|_| Stop::ClientGone)?;
            out.clear();
        }
        Ok(())
    }
}

/// LIMIT: names of cookies in one report, and what is told of each: 32 reports are one frame.
const NAMES_MAX: usize = 8;
const NAME_CHARS_MAX: usize = 64;

/// One body's way: unpack, search, frame.
struct Way<'a> {
    released: &'a Released,
    scrub: BodyScrub<'a>,
    unpack: Option<Unpack>,
    /// Where the messages of gRPC end: both sides may wait for the end of one.
    messages: Option<Messages>,
    /// An encoding that passes as it is, because nothing was released when the answer began.
    opaque_since: Option<u64>,
    outgoing: Outgoing,
    trailer_hits: u32,
    passed: u64,
}

impl<'a> Way<'a> {
    fn new(released: &'a Released, answer: &Answer, outgoing: Outgoing) -> Self {
        let scrubs = !released.is_empty();
        let coding = answer.coding;
        let is_grpc = answer.head.values("content-type").any(is_grpc_kind);
        Self {
            released,
            scrub: BodyScrub::new(released),
            unpack: coding.unpack().filter(|_| scrubs),
            messages: is_grpc.then(Messages::default),
            opaque_since: (!scrubs && coding != Coding::Identity).then(|| released.version()),
            outgoing,
            trailer_hits: 0,
            passed: 0,
        }
    }

    /// The client was told a length.
    fn is_fixed(&self) -> bool {
        matches!(self.outgoing, Outgoing::Length(_))
    }

    fn hits(&self) -> u32 {
        self.scrub.hits() + self.trailer_hits
    }

    fn pass(&mut self, piece: &[u8], out: &mut Vec<u8>) -> Result<(), Stop> {
        let frame = Frame::begin(self.outgoing, piece.len(), out);
        if let Some(version) = self.opaque_since {
            // A secret was released while this answer was on its way: it can't be searched.
            if self.released.version() != version {
                return Err(Stop::Gone);
            }
            out.extend_from_slice(piece);
        } else if let Some(unpack) = &mut self.unpack {
            let scrub = &mut self.scrub;
            unpack.push(piece, |unpacked| scrub.push(unpacked, out))?;
        } else {
            self.scrub.push(piece, out);
            if self.messages.as_mut().is_some_and(|m| m.ends_with(piece)) {
                self.scrub.finish(out);
            }
        }
        self.passed += frame.end(out);
        Ok(())
    }

    fn finish(&mut self, trailers: Option<&Head>, out: &mut Vec<u8>) -> Result<(), Stop> {
        let frame = Frame::begin(self.outgoing, 0, out);
        if let Some(unpack) = &mut self.unpack {
            let scrub = &mut self.scrub;
            unpack.finish(|unpacked| scrub.push(unpacked, out))?;
        }
        self.scrub.finish(out);
        self.passed += frame.end(out);
        if self.outgoing == Outgoing::Chunked {
            out.extend_from_slice(b"0\r\n");
            let scrubber = self.released.scrubber();
            let passes =
                |name: &str| !is_hop_by_hop(name) && !name.eq_ignore_ascii_case("set-cookie");
            for field in trailers
                .iter()
                .flat_map(|t| t.fields())
                .filter(|f| passes(f.name))
            {
                self.trailer_hits += push_scrubbed(field, scrubber.as_ref(), out);
            }
            out.extend_from_slice(b"\r\n");
        }
        Ok(())
    }
}

/// A piece of the body as it goes out.
struct Frame {
    outgoing: Outgoing,
    chunk: Option<Chunk>,
    start: usize,
}

impl Frame {
    /// What is appended from here on is the piece, about so many bytes of it.
    fn begin(outgoing: Outgoing, about: usize, out: &mut Vec<u8>) -> Self {
        let chunk = (outgoing == Outgoing::Chunked).then(|| Chunk::begin(out, about));
        Self {
            outgoing,
            chunk,
            start: out.len(),
        }
    }

    /// Gives how many bytes it has.
    fn end(self, out: &mut Vec<u8>) -> u64 {
        let count = out.len().saturating_sub(self.start);
        if let Some(chunk) = self.chunk {
            chunk.end(out);
        } else if self.outgoing == Outgoing::Nothing {
            out.truncate(self.start);
        }
        u64::try_from(count).unwrap_or(u64::MAX)
    }
}
