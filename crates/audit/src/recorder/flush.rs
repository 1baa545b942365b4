// SPDX-License-Identifier: Apache-2.0
//! Flushing beside writing: a batch is written, the flush runs on another thread, and meanwhile the
//! next batch is written. The evidence of a batch stays inside its [`Written`] until a flush that
//! covers it came back good.
//!
//! ```text
//! write_ahead ─▶ Written ─────────────────────────────┐
//! flush ─▶ Flush ─(any thread)─▶ Flushed ─▶ flushed ──┴─▶ evidence ─▶ Recorded, each
//! ```
//! What is written ahead can't be taken for recorded:
//! ```compile_fail,E0616
//! fn early(written: torno_audit::Written<String>) -> Vec<torno_audit::Recorded<String>> {
//!     written.recorded
//! }
//! ```

use super::{AppendError, Durability, Health, Recorder};
use crate::directory::Disk;
use crate::evidence::Recorded;
use crate::record::Entry;
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

/// A batch that is with the kernel and perhaps not on disk.
#[must_use = "its evidence is taken out after a flush, or what it stood for must not happen"]
pub struct Written<T> {
    recorded: Vec<Recorded<T>>,
    /// Records that must be on disk for it.
    upto: u64,
}

impl<T> fmt::Debug for Written<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Written")
            .field("upto", &self.upto)
            .finish_non_exhaustive()
    }
}

/// A flush of everything that was written when it was made. It blocks.
/// Run it where that is no harm.
#[derive(Debug)]
#[must_use = "nothing is flushed until it runs"]
pub struct Flush {
    disk: Arc<dyn Disk>,
    flushes: Arc<Flushes>,
    upto: u64,
}

/// How a flush ended.
#[derive(Debug)]
#[must_use = "the recorder has to know how a flush ended"]
pub struct Flushed {
    upto: u64,
    ended: io::Result<()>,
}

impl Flush {
    /// Flushes.
    pub fn run(self) -> Flushed {
        Flushed {
            ended: self.flushes.run(self.disk.as_ref()),
            upto: self.upto,
        }
    }
}

/// Flushes of one recorder, one at a time. The kernel tells a failed one to whoever asks first, and
/// to nobody after: so a failure is remembered, for whoever flushes next, on whatever thread.
#[derive(Debug, Default)]
pub(super) struct Flushes {
    failed: Mutex<bool>,
}

impl Flushes {
    pub(super) fn run(&self, disk: &dyn Disk) -> io::Result<()> {
        let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        if *failed {
            return Err(io::Error::other("an earlier flush failed"));
        }
        // A flush that panics is none.
        *failed = true;
        let ended = disk.sync();
        *failed = ended.is_err();
        ended
    }
}

impl Recorder {
    /// Unix milliseconds, by the entries' clock, at which [`Self::sync`] must have been called for
    /// what was only `Written`. A caller whose clock may step back calls `sync` by its own timer:
    /// it costs nothing when nothing is due.
    #[must_use]
    pub fn sync_due(&self) -> Option<u64> {
        self.unsynced_since_ms
            .map(|since| since.saturating_add(SYNC_WITHIN_MS))
    }

    /// Flushes what was only `Written`.
    ///
    /// # Errors
    /// `Broken` or `Write`: what was not flushed may be lost by a power cut.
    pub fn sync(&mut self) -> Result<(), AppendError> {
        if self.health == Health::Broken {
            return Err(AppendError::Broken);
        }
        if self.unsynced_since_ms.is_some() {
            // After a failed flush the kernel may have dropped the pages: never try again.
            let flushed = self.flushes.run(self.disk.as_ref());
            flushed.map_err(|error| self.broken(error))?;
            self.unsynced_since_ms = None;
        }
        self.durable = self.tree.size();
        Ok(())
    }

    /// Writes a batch as [`Self::append`] does, without waiting for the disk.
    ///
    /// # Errors
    /// As [`Self::append`].
    pub fn write_ahead<T>(&mut self, batch: Vec<(Entry, T)>) -> Result<Written<T>, AppendError> {
        let recorded = self.append(batch, Durability::Written)?;
        Ok(Written {
            recorded,
            upto: self.tree.size(),
        })
    }

    /// The flush that everything written so far waits for.
    pub fn flush(&self) -> Flush {
        Flush {
            disk: Arc::clone(&self.disk),
            flushes: Arc::clone(&self.flushes),
            upto: self.tree.size(),
        }
    }

    /// Whether it takes nothing any more: then no batch gets its evidence either.
    #[must_use]
    pub fn is_broken(&self) -> bool {
        self.health == Health::Broken
    }

    /// A flush came back.
    ///
    /// # Errors
    /// `Write` when it failed: this recorder takes nothing more.
    pub fn flushed(&mut self, flushed: Flushed) -> Result<(), AppendError> {
        flushed.ended.map_err(|error| self.broken(error))?;
        // Another flush may have gone further meanwhile. A segment is begun after all before it
        // is on disk, so what a flush of an older one covers is covered by then.
        self.durable = self.durable.max(flushed.upto);
        if self.durable == self.tree.size() {
            self.unsynced_since_ms = None;
        }
        Ok(())
    }

    /// The evidence of a batch, in its order, once it is on disk; until then the batch itself.
    ///
    /// # Errors
    /// The batch, when no flush that covers it came back, and for ever after a failure.
    pub fn evidence<T>(&self, written: Written<T>) -> Result<Vec<Recorded<T>>, Written<T>> {
        if written.upto <= self.durable && self.health != Health::Broken {
            Ok(written.recorded)
        } else {
            Err(written)
        }
    }
}

/// DESIGN §9: a decision without a credential is on disk within 100 ms.
const SYNC_WITHIN_MS: u64 = 100;

#[cfg(test)]
mod tests;
