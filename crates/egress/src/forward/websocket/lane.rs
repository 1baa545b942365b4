// SPDX-License-Identifier: Apache-2.0
//! The way to one peer of a WebSocket: whole frames are collected and written, and it is known
//! whether one was cut, so that a last word is said only where it can be read.

use super::frame::{Mask, Opcode, head_bytes, push_frame};
use super::message::Framer;
use crate::inject::undecidable;
use crate::refuse::Fault;
use crate::wire::{PIECE_BYTES, Source, StreamError, Writer};
use rustls::crypto::SecureRandom;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::time::{Instant, timeout};
use zeroize::Zeroizing;

/// LIMIT: how long a last word may take to be written; who does not read it is not waited for.
pub(crate) const GOODBYE_WAIT: Duration = Duration::from_millis(200);

/// How frames get their masks: a client's from the system's random source (RFC 6455 §5.3).
pub(super) type Masks = Option<&'static dyn SecureRandom>;

/// What goes to one peer.
pub(super) struct Lane<'a> {
    io: &'a mut Writer<'a>,
    masks: Masks,
    quiet: &'a Quiet,
    pub(super) framer: Framer,
    out: Vec<u8>,
    /// A write was begun and not completed.
    is_torn: bool,
}

impl<'a> Lane<'a> {
    pub(super) fn new(io: &'a mut Writer<'a>, masks: Masks, quiet: &'a Quiet) -> Self {
        Self {
            io,
            masks,
            quiet,
            framer: Framer::default(),
            out: Vec::new(),
            is_torn: false,
        }
    }

    /// Adds a frame.
    pub(super) fn push(&mut self, how: (Opcode, bool), payload: &[u8]) -> Result<(), Fault> {
        let mask = self.masks.map(fresh_mask).transpose()?;
        push_frame(&mut self.out, how, mask, payload);
        Ok(())
    }

    /// Whether what is collected is worth a write.
    pub(super) fn is_full(&self) -> bool {
        self.out.len() >= PIECE_BYTES
    }

    /// Writes what is collected. `Late` when the peer reads nothing.
    pub(super) async fn flush(&mut self) -> Result<(), StreamError> {
        if self.out.is_empty() {
            return Ok(());
        }
        let mut out = std::mem::take(&mut self.out);
        self.write(&out).await?;
        out.clear();
        self.out = out;
        Ok(())
    }

    /// Writes a whole text message behind what is collected, from one buffer that is wiped.
    pub(super) async fn send_text(&mut self, message: &[u8]) -> Result<(), StreamError> {
        self.flush().await?;
        let mask = self.masks.map(fresh_mask).transpose()?;
        let size = head_bytes(message, mask.is_some()) + message.len();
        let mut out = Zeroizing::new(Vec::with_capacity(size));
        push_frame(&mut out, (Opcode::Text, true), mask, message);
        self.write(&out).await
    }

    async fn write(&mut self, bytes: &[u8]) -> Result<(), StreamError> {
        self.is_torn = true;
        let writing = async {
            self.io.write_all(bytes).await?;
            self.io.flush().await
        };
        match timeout(self.quiet.wait, writing).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) => return Err(StreamError::Gone),
            Err(_) => return Err(StreamError::Late),
        }
        self.is_torn = false;
        self.quiet.heard();
        Ok(())
    }

    /// Says the last word, if it can still be read: a code, and why.
    pub(super) async fn say_goodbye(&mut self, code: u16, why: &str) {
        let payload = [&code.to_be_bytes(), why.as_bytes()].concat();
        if self.is_torn || self.push((Opcode::Close, true), &payload).is_err() {
            return;
        }
        // It can't be read, or not in time: the end of the stream says the same.
        let _ = timeout(GOODBYE_WAIT, self.flush()).await;
    }

    /// Ends the stream, within its time.
    pub(super) async fn shut(&mut self) {
        let _ = timeout(GOODBYE_WAIT, self.io.shutdown()).await;
    }
}

fn fresh_mask(random: &'static dyn SecureRandom) -> Result<Mask, Fault> {
    let mut mask = Mask::default();
    let filled = random.fill(&mut mask);
    filled.map(|()| mask).map_err(|_| undecidable())
}

/// How long neither side has said anything: one may be silent as long as the other is not.
#[derive(Debug)]
pub(super) struct Quiet {
    began: Instant,
    last_ms: AtomicU64,
    wait: Duration,
}

impl Quiet {
    pub(super) fn new(wait: Duration) -> Self {
        Self {
            began: Instant::now(),
            last_ms: AtomicU64::new(0),
            wait,
        }
    }

    fn heard(&self) {
        let now = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last_ms.store(now, Ordering::Relaxed);
    }

    fn lasted(&self) -> Duration {
        let last = Duration::from_millis(self.last_ms.load(Ordering::Relaxed));
        self.began.elapsed().saturating_sub(last)
    }

    /// Reads at least one more byte; `Late` when both sides were silent for too long.
    pub(super) async fn more(&self, source: &mut Source<'_>) -> Result<(), StreamError> {
        loop {
            match source.more_of_body().await {
                Ok(()) => {
                    self.heard();
                    return Ok(());
                }
                Err(StreamError::Late) if self.lasted() < self.wait => {}
                Err(error) => return Err(error),
            }
        }
    }
}
