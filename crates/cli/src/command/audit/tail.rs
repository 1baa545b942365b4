// SPDX-License-Identifier: Apache-2.0
//! The record as it grows. Its files are looked at and read again only when they have grown, and
//! never for more than a fifth of the time.

use super::{next, open};
use crate::stop::Outcome;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use torno_audit::line::Record;

/// LIMIT: how soon a new record is seen; the record itself is synced within 100 ms.
const FOLLOW_EVERY: Duration = Duration::from_millis(250);
/// LIMIT: a wait this many times as long as the last reading took.
const REST: u32 = 4;

/// A place in the record, and how large its files were there.
pub(in crate::command) struct Tail {
    directory: PathBuf,
    from: u64,
    bytes: Option<u64>,
    began: Instant,
}

impl Tail {
    /// What comes from this record on.
    pub(super) fn from(directory: &Path, from: u64) -> Self {
        Self {
            directory: directory.to_owned(),
            from,
            bytes: None,
            began: Instant::now(),
        }
    }

    /// All of the record, or what comes from now on.
    pub(in crate::command) fn open(directory: &Path, whole: bool) -> Outcome<Self> {
        let mut tail = Self::from(directory, 0);
        if !whole {
            for record in tail.more()? {
                record?;
            }
        }
        Ok(tail)
    }

    /// What came since; nothing where the files are as they were.
    pub(in crate::command) fn more(
        &mut self,
    ) -> Outcome<impl Iterator<Item = Outcome<Record>> + use<'_>> {
        self.began = Instant::now();
        let bytes = bytes_of(&self.directory);
        let has_grown = bytes.is_none() || bytes != self.bytes;
        self.bytes = bytes;
        let records = has_grown.then(|| open(&self.directory, self.from));
        let records = records.transpose()?.into_iter().flatten();
        Ok(records.map(|record| {
            let record = next(record)?;
            self.from = record.seq.0.saturating_add(1);
            Ok(record)
        }))
    }

    /// Until it is worth another look.
    pub(in crate::command) async fn wait(&self) {
        let rest = self.began.elapsed().saturating_mul(REST);
        tokio::time::sleep(rest.max(FOLLOW_EVERY)).await;
    }
}

/// How large the files are together; nothing when they can't be looked at.
fn bytes_of(directory: &Path) -> Option<u64> {
    let entries = std::fs::read_dir(directory).ok()?;
    let length =
        |entry: std::io::Result<std::fs::DirEntry>| Some(entry.ok()?.metadata().ok()?.len());
    entries.map(length).sum()
}
