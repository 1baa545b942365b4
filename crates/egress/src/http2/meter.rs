// SPDX-License-Identifier: Apache-2.0
//! Counts the frames of a connection as its bytes pass, and stops reading from a peer that sends
//! more frames without payload than its payload explains. `h2` bounds what is kept; this bounds
//! what is worked on: resets, pings, settings, priorities, window updates and empty data.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Notify;
use tokio::time::Instant;

/// LIMIT: frames without payload at once, and more for each second; a client that measures its
/// line sends some for each frame of data, which is granted on top.
const IDLE_FRAMES: Rate = Rate {
    burst: 2_000,
    per_second: 200,
};
/// LIMIT: what one frame of data or fields, either way, allows more.
const FOR_PAYLOAD: u32 = 4;
/// LIMIT: streams that a client resets at once, and more for each second (CVE-2023-44487). A
/// browser that leaves a page resets some dozens.
const RESETS: Rate = Rate {
    burst: 200,
    per_second: 20,
};

#[derive(Debug, Clone, Copy)]
struct Rate {
    burst: u32,
    per_second: u32,
}

/// What is left of a rate.
#[derive(Debug)]
struct Budget {
    rate: Rate,
    left: u32,
    since: Instant,
}

impl Budget {
    fn new(rate: Rate) -> Self {
        Self {
            rate,
            left: rate.burst,
            since: Instant::now(),
        }
    }

    /// Takes one; false when none is left.
    fn spend(&mut self) -> bool {
        let seconds = self.since.elapsed().as_secs();
        if seconds > 0 {
            let more = u32::try_from(seconds).unwrap_or(u32::MAX);
            self.add(more.saturating_mul(self.rate.per_second));
            self.since = Instant::now();
        }
        let taken = self.left.checked_sub(1);
        self.left = taken.unwrap_or(0);
        taken.is_some()
    }

    fn add(&mut self, more: u32) {
        self.left = self.left.saturating_add(more).min(self.rate.burst);
    }
}

/// The client's first bytes, `PRI * HTTP/2.0…`.
const PREFACE_BYTES: usize = 24;
const HEADER_BYTES: usize = 9;

/// What a frame is to the meter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Data or fields.
    Payload,
    /// The end of a body that had come already.
    End,
    Reset,
    /// Anything that moves nothing.
    Idle,
}

/// Finds the frames in bytes that come in any cut.
#[derive(Debug)]
struct Frames {
    skip: usize,
    header: Vec<u8>,
}

impl Frames {
    fn new(preface: bool) -> Self {
        Self {
            skip: if preface { PREFACE_BYTES } else { 0 },
            header: Vec::with_capacity(HEADER_BYTES),
        }
    }

    fn feed(&mut self, mut bytes: &[u8], mut seen: impl FnMut(Kind)) {
        while !bytes.is_empty() {
            let skipped = self.skip.min(bytes.len());
            self.skip -= skipped;
            bytes = bytes.get(skipped..).unwrap_or_default();
            let wanted = (HEADER_BYTES - self.header.len()).min(bytes.len());
            let (taken, rest) = bytes.split_at_checked(wanted).unwrap_or_default();
            self.header.extend_from_slice(taken);
            bytes = rest;
            if let [high, middle, low, kind, flags, ..] = *self.header
                && self.header.len() == HEADER_BYTES
            {
                let length = u32::from_be_bytes([0, high, middle, low]);
                self.skip = usize::try_from(length).unwrap_or(usize::MAX);
                self.header.clear();
                seen(kind_of(kind, flags, length));
            }
        }
    }
}

/// RFC 9113 §6.
fn kind_of(kind: u8, flags: u8, length: u32) -> Kind {
    const DATA: u8 = 0;
    const HEADERS: u8 = 1;
    const RST_STREAM: u8 = 3;
    const END_STREAM: u8 = 1;
    match kind {
        DATA if length == 0 && flags & END_STREAM != 0 => Kind::End,
        DATA if length == 0 => Kind::Idle,
        DATA | HEADERS => Kind::Payload,
        RST_STREAM => Kind::Reset,
        _ => Kind::Idle,
    }
}

/// Told when a peer sent too much.
#[derive(Debug, Default)]
pub(super) struct Alarm {
    rang: AtomicBool,
    rings: Notify,
}

impl Alarm {
    /// Ends when the peer sent too much.
    pub(super) async fn ringing(&self) {
        while !self.rang.load(Ordering::Acquire) {
            self.rings.notified().await;
        }
    }
}

/// Which side the peer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Client,
    FarEnd,
}

/// A stream of bytes whose frames are counted. After the alarm nothing is read from it any more.
pub(super) struct Metered<S> {
    stream: S,
    coming: Frames,
    going: Frames,
    idle: Budget,
    resets: Budget,
    alarm: Arc<Alarm>,
}

impl<S> Metered<S> {
    pub(super) fn new(stream: S, side: Side) -> (Self, Arc<Alarm>) {
        let alarm = Arc::<Alarm>::default();
        let metered = Self {
            stream,
            coming: Frames::new(side == Side::Client),
            going: Frames::new(side == Side::FarEnd),
            idle: Budget::new(IDLE_FRAMES),
            resets: Budget::new(RESETS),
            alarm: Arc::clone(&alarm),
        };
        (metered, alarm)
    }

    /// Counts what came; false when it was too much.
    fn came(&mut self, bytes: &[u8]) -> bool {
        let Self {
            coming,
            idle,
            resets,
            ..
        } = self;
        let mut is_within = true;
        coming.feed(bytes, |kind| match kind {
            Kind::Payload => idle.add(FOR_PAYLOAD),
            Kind::End => {}
            Kind::Reset => is_within &= resets.spend(),
            Kind::Idle => is_within &= idle.spend(),
        });
        is_within
    }

    fn went(&mut self, bytes: &[u8]) {
        let idle = &mut self.idle;
        self.going.feed(bytes, |kind| {
            if kind == Kind::Payload {
                idle.add(FOR_PAYLOAD);
            }
        });
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Metered<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        // Whoever waits for the alarm ends the connection: nothing wakes this.
        if self.alarm.rang.load(Ordering::Acquire) {
            return Poll::Pending;
        }
        let before = buf.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buf);
        let fresh = buf.filled().get(before..).unwrap_or_default();
        if self.came(fresh) {
            return read;
        }
        buf.set_filled(before);
        self.alarm.rang.store(true, Ordering::Release);
        self.alarm.rings.notify_one();
        Poll::Pending
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Metered<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, buf);
        if let Poll::Ready(Ok(count)) = written {
            self.went(buf.get(..count).unwrap_or_default());
        }
        written
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
    use proptest::prelude::*;
    use std::time::Duration;

    fn frame(kind: u8, flags: u8, length: usize) -> Vec<u8> {
        let size = u32::try_from(length).unwrap().to_be_bytes();
        let mut frame = size[1..].to_vec();
        frame.extend_from_slice(&[kind, flags, 0, 0, 0, 1]);
        frame.resize(HEADER_BYTES + length, 0xa5);
        frame
    }

    proptest! {
        #[test]
        fn frames_are_found_in_every_cut(
            frames in prop::collection::vec((0_u8..12, 0_u8..3, 0_usize..40), 0..20),
            cut in 1_usize..20,
        ) {
            let mut bytes = vec![b'P'; PREFACE_BYTES];
            let mut wanted = Vec::new();
            for (kind, flags, length) in frames {
                bytes.extend(frame(kind, flags, length));
                wanted.push(kind_of(kind, flags, u32::try_from(length).unwrap()));
            }
            let mut found = Vec::new();
            let mut seen = Frames::new(true);
            bytes.chunks(cut).for_each(|piece| seen.feed(piece, |kind| found.push(kind)));
            prop_assert_eq!(found, wanted);
        }
    }

    fn metered() -> Metered<tokio::io::Empty> {
        Metered::new(tokio::io::empty(), Side::FarEnd).0
    }

    #[tokio::test(start_paused = true)]
    async fn each_kind_of_flood_is_too_much_and_data_pays_for_its_own() {
        // PRIORITY, SETTINGS, PING, WINDOW_UPDATE, CONTINUATION, unknown, empty DATA.
        for kind in [2, 4, 6, 8, 9, 0x42, 0] {
            let mut meter = metered();
            let within = (0..5_000)
                .take_while(|_| meter.came(&frame(kind, 0, 0)))
                .count();
            assert_eq!(within, 2_000, "{kind}");
        }
        let mut meter = metered();
        for _ in 0..10_000 {
            assert!(meter.came(&frame(0, 0, 5)), "data");
            assert!(meter.came(&frame(8, 0, 4)) && meter.came(&frame(6, 0, 8)));
        }
        // What we answer a ping with pays for nothing.
        let within = (0..5_000).take_while(|_| {
            meter.went(&frame(6, 1, 8));
            meter.came(&frame(6, 0, 8))
        });
        assert!(within.count() <= 2_000);
    }

    #[tokio::test(start_paused = true)]
    async fn no_payload_pays_for_resets_and_time_does() {
        let mut meter = metered();
        let mut resets = |count: usize| {
            let pair = [frame(1, 4, 9), frame(3, 0, 4)].concat();
            (0..count).take_while(|_| meter.came(&pair)).count()
        };
        assert_eq!(resets(1_000), 200);
        tokio::time::advance(Duration::from_secs(2)).await;
        assert_eq!(resets(1_000), 40);
    }
}
