// SPDX-License-Identifier: Apache-2.0
//! Credit for one direction of one stream, so that a slow reader holds up nobody else.
//!
//! ```text
//!   sender                                 receiver
//!   SendWindow                             ReceiveWindow
//!   available = WINDOW_BYTES               allowed = WINDOW_BYTES
//!   take(n)    available -= n  ── data ──▶ accept(n)   allowed -= n, more is Overrun
//!   grant(n)   available += n  ◀─ credit ─ consume(n)  allowed += n, once half a window is due
//! ```
//! The receiver keeps at most [`WINDOW_BYTES`] a stream; the sender sends nothing without credit.

use thiserror::Error;

use crate::frame::DATA_BYTES_MAX;

// LIMIT: eight full data frames in flight keep a local link busy; 256 KiB a stream is what a
// receiver must be ready to hold.
/// The credit each direction of each stream starts with, and never exceeds.
pub const WINDOW_BYTES: u32 = 256 * 1024;

/// How a peer broke the rules of credit; the link can't be used further.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum FlowError {
    /// More data than credit.
    #[error("peer sent {bytes} bytes with credit for {allowed}; drop the link")]
    Overrun {
        /// What came.
        bytes: usize,
        /// What was allowed.
        allowed: u32,
    },
    /// More credit than was ever used.
    #[error("peer granted {bytes} bytes beyond the window; drop the link")]
    CreditBeyondWindow {
        /// What was granted.
        bytes: u32,
    },
    /// Data or a second end after the end of file.
    #[error("peer went on after the end of file; drop the link")]
    AfterEnd,
}

/// The sending end's view of one stream.
#[derive(Debug)]
pub struct SendWindow {
    available: u32,
}

impl SendWindow {
    /// A fresh stream: a full window.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            available: WINDOW_BYTES,
        }
    }

    /// How many bytes the next data frame may carry: 0 means wait for credit.
    #[must_use]
    pub fn frame_bytes_max(&self) -> usize {
        DATA_BYTES_MAX.min(self.available as usize)
    }

    /// Takes credit for up to `wanted` bytes and says for how many.
    pub fn take(&mut self, wanted: usize) -> usize {
        let taken = wanted.min(self.frame_bytes_max());
        // INVARIANT: taken ≤ DATA_BYTES_MAX ≤ u32::MAX and taken ≤ available.
        self.available -= u32::try_from(taken).unwrap_or(self.available);
        taken
    }

    /// Adds the credit that the peer returned.
    ///
    /// # Errors
    /// When that would be more than the window: the peer returned what it never received.
    pub fn grant(&mut self, bytes: u32) -> Result<(), FlowError> {
        match self.available.checked_add(bytes) {
            Some(available) if available <= WINDOW_BYTES => {
                self.available = available;
                Ok(())
            }
            _ => Err(FlowError::CreditBeyondWindow { bytes }),
        }
    }
}

impl Default for SendWindow {
    fn default() -> Self {
        Self::new()
    }
}

/// The receiving end's view of one stream.
#[derive(Debug)]
pub struct ReceiveWindow {
    allowed: u32,
    due: u32,
    ended: bool,
}

impl ReceiveWindow {
    /// A fresh stream: a full window, nothing received.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            allowed: WINDOW_BYTES,
            due: 0,
            ended: false,
        }
    }

    /// Counts a data frame that came.
    ///
    /// # Errors
    /// When the peer had no credit for it or had ended the stream.
    pub fn accept(&mut self, bytes: usize) -> Result<(), FlowError> {
        if self.ended {
            return Err(FlowError::AfterEnd);
        }
        let overrun = FlowError::Overrun {
            bytes,
            allowed: self.allowed,
        };
        let count = u32::try_from(bytes).map_err(|_| overrun)?;
        self.allowed = self.allowed.checked_sub(count).ok_or(overrun)?;
        Ok(())
    }

    /// Counts the peer's end of file.
    ///
    /// # Errors
    /// When it had ended before.
    pub fn end(&mut self) -> Result<(), FlowError> {
        if std::mem::replace(&mut self.ended, true) {
            return Err(FlowError::AfterEnd);
        }
        Ok(())
    }

    /// The peer ended the stream.
    #[must_use]
    pub const fn is_ended(&self) -> bool {
        self.ended
    }

    /// Counts bytes that were passed on, so their room is free again. Gives the credit to send,
    /// once half a window is due: small credits would double the frames.
    #[must_use]
    pub fn consume(&mut self, bytes: usize) -> Option<u32> {
        let room = WINDOW_BYTES - self.allowed - self.due;
        self.due += u32::try_from(bytes).unwrap_or(room).min(room);
        if self.ended || self.due < WINDOW_BYTES / 2 {
            return None;
        }
        let credit = std::mem::take(&mut self.due);
        self.allowed += credit;
        Some(credit)
    }
}

impl Default for ReceiveWindow {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests;
