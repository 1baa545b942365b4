// SPDX-License-Identifier: Apache-2.0
//! What one session may write into the record. A flood spends its own session's budget and freezes
//! that session alone; its end and its kill still pass (I8). Pure counters: ask before the append.

use crate::line::{self, LineError};
use crate::record::Entry;
use std::collections::HashMap;
use thiserror::Error;
use torno_policy::names::SessionId;

/// Why an entry is not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SpendError {
    /// The session's budget is spent: it is frozen.
    #[error("the session has spent its record budget; end it and begin another")]
    Frozen {
        /// Set the first time: write `BudgetFrozen` and stop the session's acts.
        first: bool,
        /// Records it had written.
        records: u64,
    },
    /// The entry has no bounded line.
    #[error("the entry can't be printed as one bounded line")]
    Line(#[source] LineError),
}

/// How much one session may write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allowance {
    /// Records.
    pub records: u64,
    /// Bytes of lines.
    pub bytes: u64,
}

impl Default for Allowance {
    fn default() -> Self {
        Self {
            records: RECORDS_MAX,
            bytes: BYTES_MAX,
        }
    }
}

/// The counters of every live session.
#[derive(Debug, Default)]
pub struct Budget {
    allowance: Allowance,
    sessions: HashMap<SessionId, Spent>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Spent {
    records: u64,
    bytes: u64,
    frozen: bool,
}

impl Budget {
    /// Counters that start at nothing.
    #[must_use]
    pub fn new(allowance: Allowance) -> Self {
        Self {
            allowance,
            sessions: HashMap::new(),
        }
    }

    /// Takes an entry's cost from its session, or refuses it. Entries without session and ends and
    /// kills always pass.
    ///
    /// # Errors
    /// See [`SpendError`].
    pub fn spend(&mut self, entry: &Entry) -> Result<(), SpendError> {
        let Some(session) = &entry.session else {
            return Ok(());
        };
        let bytes = line::printed_bytes(entry).map_err(SpendError::Line)?;
        let allowance = self.allowance;
        let spent = self.sessions.entry(session.clone()).or_default();
        let after = Spent {
            records: spent.records.saturating_add(1),
            bytes: spent.bytes.saturating_add(bytes),
            frozen: spent.frozen,
        };
        if entry.event.is_final() {
            *spent = after;
            return Ok(());
        }
        let over = after.records > allowance.records || after.bytes > allowance.bytes;
        if spent.frozen || over {
            let first = !spent.frozen;
            spent.frozen = true;
            let records = spent.records;
            return Err(SpendError::Frozen { first, records });
        }
        *spent = after;
        Ok(())
    }

    /// Counts a record that is there already, when the log is read back at a start.
    pub fn recount(&mut self, entry: &Entry) {
        // A refusal here freezes the session, as it was before.
        let _ = self.spend(entry);
    }

    /// Whether the session is frozen.
    #[must_use]
    pub fn is_frozen(&self, session: &SessionId) -> bool {
        self.sessions.get(session).is_some_and(|spent| spent.frozen)
    }

    /// The session is gone: its counters too.
    pub fn forget(&mut self, session: &SessionId) {
        self.sessions.remove(session);
    }
}

/// LIMIT: a busy agent makes some thousand requests an hour, three records each; a million is a
/// flood.
const RECORDS_MAX: u64 = 1_000_000;
/// LIMIT: 512 MiB is a million records of usual size; a hundred frozen sessions fit a small disk.
const BYTES_MAX: u64 = 512 << 20;

#[cfg(test)]
mod tests;
