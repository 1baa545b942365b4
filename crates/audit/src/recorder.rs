// SPDX-License-Identifier: Apache-2.0
//! The one writer of a record.
//!
//! ```text
//!          open                 disk full                      any other error
//!  (files) ─────▶ Ready ───────────────────▶ Full (ends and kills only) ─────▶ Broken
//!                   └──────────── any other error ──────────────────────────────▲
//! ```
//! Full and Broken end with this value: open the record again. Batching is the caller's: one call
//! is one write and at most one flush.

use crate::checkpoint::{Checkpoint, PublicKey, SigningKey};
use crate::directory::{CHECKPOINTS, Directory, Disk, RESERVE, SegmentName, byte_count};
use crate::evidence::Recorded;
use crate::line::{self, LineError};
use crate::record::{Entry, Event};
use crate::recovery::{Dropped, OpenError, recover};
use crate::text::ShortText;
use crate::tree::{Frontier, TreeHead, leaf_hash};
use std::fmt;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::Arc;
use thiserror::Error;
use torno_policy::names::RecordSeq;

mod flush;
mod rotation;

pub use flush::{Flush, Flushed, Written};

use flush::Flushes;
use rotation::begin_segment;

/// When a batch counts as recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// On disk: it survives a power cut.
    Synced,
    /// With the kernel: it survives a crash of this process. See [`Recorder::sync_due`].
    Written,
}

/// Why nothing was recorded. What the batch stood for must not happen.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum AppendError {
    /// An earlier error: this recorder takes nothing more.
    #[error("the record takes nothing more after an earlier failure; restart the notary")]
    Broken,
    /// The disk is full.
    #[error("the record's disk is full; free space and restart the notary")]
    Full(#[source] io::Error),
    /// The disk failed.
    #[error("the record can't be written; check the disk and restart the notary")]
    Write(#[source] io::Error),
    /// An entry has no line. Nothing was written, and the recorder still works.
    #[error("the entry can't be printed as one bounded line")]
    Line(#[from] LineError),
    /// Only ends and kills pass through [`Recorder::append_final`].
    #[error("only the end of something passes once the disk is full")]
    NotFinal,
}

/// Who opens the record, and when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opening {
    /// Unix milliseconds.
    pub at_ms: u64,
    /// Name and version of the writer.
    pub software: ShortText,
}

/// Sizes on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// A segment that would grow over this is closed first.
    pub segment_bytes: u64,
    /// Disk kept back for ends and kills.
    pub reserve_bytes: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            segment_bytes: SEGMENT_BYTES,
            reserve_bytes: RESERVE_BYTES,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Health {
    Ready,
    Full,
    Broken,
}

/// The writer. One in the world for a directory: it holds the directory's lock.
pub struct Recorder {
    pub(crate) directory: Directory,
    key: SigningKey,
    settings: Settings,
    pub(crate) tree: Frontier,
    signed: Option<Checkpoint>,
    segment: SegmentName,
    pub(crate) disk: Arc<dyn Disk>,
    length: u64,
    /// Up to where room was written ahead: zeroes stand from `length` to here.
    ahead: u64,
    history: File,
    history_bytes: u64,
    /// Time of the first entry that is written and not synced.
    unsynced_since_ms: Option<u64>,
    /// Records that are on disk: nothing behind them has evidence of a flush.
    durable: u64,
    flushes: Arc<Flushes>,
    health: Health,
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder")
            .field("head", &self.head())
            .field("health", &self.health)
            .finish_non_exhaustive()
    }
}

impl Recorder {
    /// Opens the record in a directory that exists with mode 0700, repairs a torn tail, and writes
    /// `RecordOpened`, synced and signed.
    ///
    /// # Errors
    /// See [`OpenError`]; except for `Begin`, nothing was changed.
    pub fn open(path: &Path, key: SigningKey, opening: Opening) -> Result<Self, OpenError> {
        Self::open_with(path, key, opening, Settings::default())
    }

    /// [`Self::open`] with other sizes.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn open_with(
        path: &Path,
        key: SigningKey,
        opening: Opening,
        settings: Settings,
    ) -> Result<Self, OpenError> {
        let (directory, shared) = Directory::open(path)?;
        if shared {
            return Err(OpenError::Shared);
        }
        if !directory.lock()? {
            return Err(OpenError::Locked);
        }
        let recovered = recover(&directory, key.public())?;
        for torn in recovered.dropped.iter().filter(|torn| torn.whole) {
            directory.remove(&torn.segment.file())?;
        }
        let (segment, file, length) = match recovered.segment {
            Some((segment, length)) => {
                let file = directory.write(&segment.file())?;
                file.set_len(length)?;
                (segment, file, length)
            }
            None => begin_segment(&directory, &recovered.tree, key.public())?,
        };
        let history = directory.append(CHECKPOINTS)?;
        history.set_len(recovered.history_bytes)?;
        directory.set_reserve(settings.reserve_bytes)?;
        let mut recorder = Self {
            directory,
            key,
            settings,
            tree: recovered.tree,
            signed: recovered.signed,
            segment,
            disk: Arc::new(file),
            length,
            ahead: length,
            history,
            history_bytes: recovered.history_bytes,
            unsynced_since_ms: None,
            durable: 0,
            flushes: Arc::default(),
            health: Health::Ready,
        };
        recorder
            .begin(opening, &recovered.dropped)
            .map_err(OpenError::Begin)?;
        Ok(recorder)
    }

    /// Writes a batch: all lines in one write, flushed if `Synced`. The order of the evidence is
    /// the order of the batch.
    ///
    /// # Errors
    /// See [`AppendError`]: then nothing of the batch counts, and (except after `Line`) every later
    /// append fails too.
    pub fn append<T>(
        &mut self,
        batch: Vec<(Entry, T)>,
        durability: Durability,
    ) -> Result<Vec<Recorded<T>>, AppendError> {
        if self.health != Health::Ready {
            return Err(AppendError::Broken);
        }
        self.write(batch, durability)
    }

    /// Writes ends and kills, synced, also when the disk is full: the reserve is given up for them.
    ///
    /// # Errors
    /// `NotFinal` for any other event, else as [`Self::append`].
    pub fn append_final<T>(
        &mut self,
        batch: Vec<(Entry, T)>,
    ) -> Result<Vec<Recorded<T>>, AppendError> {
        if !batch.iter().all(|(entry, _)| entry.event.is_final()) {
            return Err(AppendError::NotFinal);
        }
        match self.health {
            Health::Broken => return Err(AppendError::Broken),
            Health::Full => self.give_up_reserve()?,
            Health::Ready => {}
        }
        self.write(batch, Durability::Synced)
    }

    /// The place that the next entry gets, for entries of one batch that name each other.
    #[must_use]
    pub const fn next_seq(&self) -> RecordSeq {
        RecordSeq(self.tree.size())
    }

    /// Size and root of what is recorded.
    #[must_use]
    pub fn head(&self) -> TreeHead {
        self.tree.head()
    }

    /// The key that checkpoints verify with.
    #[must_use]
    pub const fn public_key(&self) -> &PublicKey {
        self.key.public()
    }

    /// The newest signed head.
    #[must_use]
    pub const fn signed(&self) -> Option<&Checkpoint> {
        self.signed.as_ref()
    }

    /// Whether appends still work.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.health == Health::Ready
    }

    fn begin(&mut self, opening: Opening, dropped: &[Dropped]) -> Result<(), AppendError> {
        let Opening { at_ms, software } = opening;
        let entry = |event| Entry {
            at_ms,
            session: None,
            event,
        };
        let mut batch: Vec<(Entry, ())> = dropped
            .iter()
            .map(|torn| Event::RecordRecovered {
                dropped_bytes: torn.bytes,
                dropped_sha256: torn.sha256,
                segment: RecordSeq(torn.segment.0),
            })
            .map(|event| (entry(event), ()))
            .collect();
        let opened = Event::RecordOpened {
            software,
            key: ShortText::new(self.key.public().to_string()),
        };
        batch.push((entry(opened), ()));
        self.append(batch, Durability::Synced)?;
        self.checkpoint()
    }

    /// One write, with the order kept; the flush, when one is due, comes before the evidence.
    fn write<T>(
        &mut self,
        batch: Vec<(Entry, T)>,
        durability: Durability,
    ) -> Result<Vec<Recorded<T>>, AppendError> {
        let (bytes, leaves) = self.print(&batch)?;
        let room = self.settings.segment_bytes.saturating_sub(self.length);
        // Rotation needs new files; on a full disk the segment grows over its size instead.
        if byte_count(&bytes) > room && self.health == Health::Ready {
            self.rotate()?;
        }
        let end = self.length + byte_count(&bytes);
        self.make_room(end);
        self.disk
            .write(&bytes, self.length)
            .map_err(|error| self.failed(error))?;
        if self.unsynced_since_ms.is_none() {
            self.unsynced_since_ms = batch.first().map(|(entry, _)| entry.at_ms);
        }
        if durability == Durability::Synced {
            self.sync()?;
        }
        self.length = end;
        let mut evidence = Vec::with_capacity(batch.len());
        for ((_, value), leaf) in batch.into_iter().zip(leaves) {
            evidence.push(Recorded::new(self.next_seq(), value));
            self.tree.push(leaf);
        }
        if durability == Durability::Synced {
            self.durable = self.tree.size();
        }
        Ok(evidence)
    }

    /// Writes zeroes ahead of what will be written up to `end`. A flush of what lies in room that
    /// was there before need not make the file longer first, which takes about as long again.
    /// Whether the disk is full is told by the write itself, which needs less: room that was only
    /// begun goes back.
    fn make_room(&mut self, end: u64) {
        // Where there was no room, lines went on without it: never over them.
        self.ahead = self.ahead.max(self.length);
        while self.ahead < end {
            if self.disk.write(&ROOM, self.ahead).is_err() {
                let _ = self.disk.truncate(self.ahead);
                return;
            }
            self.ahead += byte_count(&ROOM);
        }
    }

    /// The batch's lines, and the hash of each.
    fn print<T>(&self, batch: &[(Entry, T)]) -> Result<(Vec<u8>, Vec<crate::Digest>), LineError> {
        let mut bytes = Vec::with_capacity(batch.len() * LINE_BYTES_TYPICAL);
        let mut leaves = Vec::with_capacity(batch.len());
        for (seq, (entry, _)) in (self.tree.size()..).zip(batch) {
            let start = bytes.len();
            line::print_into(&mut bytes, RecordSeq(seq), entry)?;
            leaves.push(leaf_hash(bytes.get(start..).unwrap_or_default()));
            bytes.push(b'\n');
        }
        Ok((bytes, leaves))
    }

    fn give_up_reserve(&mut self) -> Result<(), AppendError> {
        self.directory
            .remove(RESERVE)
            .map_err(|error| self.broken(error))
    }

    /// After a failed write: what was written of it is cut off again, so that a full disk leaves
    /// whole lines only.
    fn failed(&mut self, error: io::Error) -> AppendError {
        let full = matches!(
            error.kind(),
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge
        );
        if full && self.disk.truncate(self.length).is_ok() {
            self.ahead = self.length;
            self.health = Health::Full;
            AppendError::Full(error)
        } else {
            self.broken(error)
        }
    }

    fn broken(&mut self, error: io::Error) -> AppendError {
        self.health = Health::Broken;
        AppendError::Write(error)
    }
}

/// LIMIT: 64 MiB, about 170,000 records: what is read back whole, in seconds, at every start.
const SEGMENT_BYTES: u64 = 64 << 20;
/// LIMIT: 1 MiB holds the end and kill records of more than 1,000 sessions.
const RESERVE_BYTES: u64 = 1 << 20;
/// LIMIT: 256 KiB of zeroes behind the newest segment's end. Each time they are used up one flush
/// takes longer for the next; what is left of them goes when the segment is closed.
static ROOM: [u8; 256 << 10] = [0; 256 << 10];
/// Room for one line; only a hint.
const LINE_BYTES_TYPICAL: usize = 512;

#[cfg(test)]
mod tests;
