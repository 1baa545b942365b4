// SPDX-License-Identifier: Apache-2.0
//! Is the store older than the record? The record is the mirror of the vault's counter: each change
//! of the vault is one record, and the store remembers up to which record it has them all
//! (`seen`). A vault change at or after that place which the store does not know means that an
//! older store was put back.
//!
//! ```text
//! store: change + `pending` ─▶ record: change ─▶ store: `seen` = end of record, no `pending`
//! ```
//! A crash between two steps leaves `pending`, which says exactly which record may be missing from
//! the one side or the other.

use std::path::Path;
use thiserror::Error;
use torno_audit::reader::ReadError;
use torno_audit::{Event, Records};

/// What the store and the record say of each other.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum History {
    /// They agree.
    Whole,
    /// The store has a change that must still be recorded.
    Owed(Box<Event>),
    /// The record has a change that the store has not.
    RolledBack,
}

/// Why the two can't be compared.
#[derive(Debug, Error)]
#[error("the record can't be compared with the store")]
pub struct HistoryError(#[from] ReadError);

/// Reads the record from `seen` on.
pub(crate) fn compare(
    record: &Path,
    seen: u64,
    pending: Option<Event>,
) -> Result<History, HistoryError> {
    let mut first = None;
    let mut found = Vec::new();
    for line in Records::open(record, seen)? {
        let line = line?;
        first = first.or(Some(line.seq.0));
        if is_vault_change(&line.entry.event) {
            found.push(line.entry.event);
        }
    }
    // Every opening writes a record, so there is one at or after `seen`, unless the record was cut
    // off (its own checkpoints tell) or pruned beyond what this store has seen.
    if first != Some(seen) {
        return Ok(History::RolledBack);
    }
    Ok(match (found.as_slice(), pending) {
        ([], None) => History::Whole,
        ([], Some(owed)) => History::Owed(Box::new(owed)),
        ([one], Some(pending)) if *one == pending => History::Whole,
        ([_, ..], _) => History::RolledBack,
    })
}

/// Events that stand for one change of the vault's rows each.
pub(crate) const fn is_vault_change(event: &Event) -> bool {
    matches!(
        event,
        Event::VaultInitialised
            | Event::CredentialPut { .. }
            | Event::CredentialRotated { .. }
            | Event::CredentialRevoked { .. }
            | Event::CredentialRemoved { .. }
            | Event::BindingSet(_)
            | Event::BindingRemoved { .. }
            | Event::KekRotated { .. }
    )
}

#[cfg(test)]
mod tests;
