// SPDX-License-Identifier: Apache-2.0
//! The proof that something was written down. Only [`crate::Recorder`] makes one, after the write
//! (and, for `Synced`, the flush to disk) succeeded.
//!
//! It can be asked for:
//! ```
//! use torno_audit::Recorded;
//! use torno_policy::names::RecordSeq;
//! fn unlock(evidence: &Recorded<String>) -> (RecordSeq, &str) {
//!     (evidence.seq(), evidence.value())
//! }
//! ```
//! It can't be made elsewhere:
//! ```compile_fail,E0451
//! use torno_audit::Recorded;
//! use torno_policy::names::RecordSeq;
//! let forged = Recorded { seq: RecordSeq(0), value: () };
//! ```
//! ```compile_fail,E0624
//! use torno_audit::Recorded;
//! use torno_policy::names::RecordSeq;
//! let forged = Recorded::new(RecordSeq(0), ());
//! ```
//! nor doubled:
//! ```compile_fail,E0277
//! fn doubled(evidence: &torno_audit::Recorded<String>) -> torno_audit::Recorded<String> {
//!     let again: torno_audit::Recorded<String> = torno_audit::Recorded::clone(evidence);
//!     again
//! }
//! ```
//! nor read from a wire:
//! ```compile_fail,E0277
//! let forged: torno_audit::Recorded<u8> = serde_json::from_str("{}").unwrap();
//! ```

use torno_policy::names::RecordSeq;

/// A value that stands in the record at `seq`. Not `Clone`: one record, one effect.
#[derive(Debug)]
#[must_use = "what was recorded is either done or reported as not done"]
pub struct Recorded<T> {
    seq: RecordSeq,
    value: T,
}

impl<T> Recorded<T> {
    pub(crate) const fn new(seq: RecordSeq, value: T) -> Self {
        Self { seq, value }
    }

    /// Its place in the log.
    pub const fn seq(&self) -> RecordSeq {
        self.seq
    }

    /// What was recorded.
    pub const fn value(&self) -> &T {
        &self.value
    }

    /// Spends the evidence for the value.
    pub fn into_value(self) -> T {
        self.value
    }
}
