// SPDX-License-Identifier: Apache-2.0
//! Counts the frames of a connection as its bytes pass, and stops reading from a peer that sends
//! more frames without payload than its payload explains. `h2` bounds what is kept; this bounds
//! what is worked on: resets, pings, settings, priorities, window updates and empty data. From a
//! client that breaks the protocol it stops reading too, with the code that RFC 9113 has for that.

use super::faults::Faults;
use super::frames::{Frames, Header, Part, flag, kind};
use h2::Reason as Code;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
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

/// RFC 9113 §6.
fn kind_of(header: Header) -> Kind {
    match header.kind {
        kind::DATA if header.length > 0 => Kind::Payload,
        kind::DATA if header.has(flag::END_STREAM) => Kind::End,
        kind::HEADERS => Kind::Payload,
        kind::RST_STREAM => Kind::Reset,
        _ => Kind::Idle,
    }
}

/// Told when a peer must go, with the code that says why.
#[derive(Debug, Default)]
pub(super) struct Alarm {
    /// A code of RFC 9113 §7; 0, which is no fault, while all is well.
    code: AtomicU32,
    rings: Notify,
}

impl Alarm {
    /// Ends when the peer must go.
    pub(super) async fn ringing(&self) -> Code {
        loop {
            match self.code() {
                Code::NO_ERROR => self.rings.notified().await,
                code => return code,
            }
        }
    }

    fn code(&self) -> Code {
        Code::from(self.code.load(Ordering::Acquire))
    }

    fn ring(&self, code: Code) {
        self.code.store(code.into(), Ordering::Release);
        self.rings.notify_one();
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
    /// Kept of clients: a far end is told by `h2` alone.
    faults: Option<Faults>,
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
            faults: (side == Side::Client).then(Faults::default),
            alarm: Arc::clone(&alarm),
        };
        (metered, alarm)
    }

    /// Counts what came, and says when it was too much or wrong.
    fn came(&mut self, mut bytes: &[u8]) -> Result<(), Code> {
        let mut verdict = Ok(());
        while let Some(part) = self.coming.next(&mut bytes) {
            verdict = verdict.and_then(|()| self.judge(part));
        }
        verdict
    }

    fn judge(&mut self, part: Part<'_>) -> Result<(), Code> {
        if let Part::Header(header) = part {
            let is_within = match kind_of(header) {
                Kind::Payload => {
                    self.idle.add(FOR_PAYLOAD);
                    true
                }
                Kind::End => true,
                Kind::Reset => self.resets.spend(),
                Kind::Idle => self.idle.spend(),
            };
            if !is_within {
                return Err(Code::ENHANCE_YOUR_CALM);
            }
        }
        self.faults
            .as_mut()
            .map_or(Ok(()), |faults| faults.came(part))
    }

    fn went(&mut self, mut bytes: &[u8]) {
        while let Some(part) = self.going.next(&mut bytes) {
            let Part::Header(header) = part else {
                continue;
            };
            if kind_of(header) == Kind::Payload {
                self.idle.add(FOR_PAYLOAD);
            }
            if let Some(faults) = &mut self.faults {
                faults.went(header);
            }
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Metered<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        // Whoever waits for the alarm ends the connection: nothing wakes this.
        if self.alarm.code() != Code::NO_ERROR {
            return Poll::Pending;
        }
        let before = buf.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buf);
        let fresh = buf.filled().get(before..).unwrap_or_default();
        let Err(code) = self.came(fresh) else {
            return read;
        };
        buf.set_filled(before);
        self.alarm.ring(code);
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
    use super::super::frames::tests::frame as framed;
    use super::*;
    use std::time::Duration;

    fn frame(kind: u8, flags: u8, length: usize) -> Vec<u8> {
        framed(kind, flags, 1, &vec![0xa5; length])
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
                .take_while(|_| meter.came(&frame(kind, 0, 0)).is_ok())
                .count();
            assert_eq!(within, 2_000, "{kind}");
        }
        let mut meter = metered();
        for _ in 0..10_000 {
            assert_eq!(meter.came(&frame(0, 0, 5)), Ok(()), "data");
            let two = [frame(8, 0, 4), frame(6, 0, 8)].concat();
            assert_eq!(meter.came(&two), Ok(()));
        }
        // What we answer a ping with pays for nothing.
        let within = (0..5_000).take_while(|_| {
            meter.went(&frame(6, 1, 8));
            meter.came(&frame(6, 0, 8)).is_ok()
        });
        assert!(within.count() <= 2_000);
    }

    #[tokio::test(start_paused = true)]
    async fn no_payload_pays_for_resets_and_time_does() {
        let mut meter = metered();
        let mut resets = |count: usize| {
            let pair = [frame(1, 4, 9), frame(3, 0, 4)].concat();
            (0..count).take_while(|_| meter.came(&pair).is_ok()).count()
        };
        assert_eq!(resets(1_000), 200);
        tokio::time::advance(Duration::from_secs(2)).await;
        assert_eq!(resets(1_000), 40);
    }
}
