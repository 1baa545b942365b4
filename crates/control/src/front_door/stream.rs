// SPDX-License-Identifier: Apache-2.0
//! The search of a command's standard input, byte by byte as it is typed or piped.
//!
//! Nothing is held back that can't be a value, so that a program which waits for each line gets it:
//! only from where [`FINGERPRINT_WINDOW`] bytes are a value's first ones is the input kept, until
//! the value is whole (refused) or turns out to be another text (let go). Of a value that comes in
//! pieces, at most `FINGERPRINT_WINDOW` − 1 bytes have passed by then.

use super::search::Searcher;
use torno_notary_protocol::desk::{FINGERPRINT_WINDOW, Fingerprint};

/// One stream under search.
pub(crate) struct StreamSearch {
    fingerprints: Vec<Fingerprint>,
    /// What may belong to a value: bytes that passed, then bytes that are held.
    recent: Vec<u8>,
    passed: usize,
}

impl StreamSearch {
    pub(crate) fn new(fingerprints: Vec<Fingerprint>) -> Self {
        Self {
            fingerprints,
            recent: Vec::new(),
            passed: 0,
        }
    }

    /// Takes the next bytes; gives what may pass, or the credential whose value was found.
    pub(crate) fn push(&mut self, bytes: Vec<u8>) -> Result<Vec<u8>, String> {
        if self.fingerprints.is_empty() {
            return Ok(bytes);
        }
        self.recent.extend(bytes);
        let searcher = Searcher::new(&self.fingerprints);
        if let Some(credential) = searcher.find(&self.recent) {
            return Err(credential.to_owned());
        }
        let begun = searcher.find_begun(&self.recent);
        let end = self.recent.len();
        let limit = begun.unwrap_or(end).max(self.passed);
        let passing = self.recent.get(self.passed..limit).unwrap_or_default();
        let passing = passing.to_vec();
        let window = end.saturating_sub(FINGERPRINT_WINDOW - 1);
        let needed = begun.map_or(window, |begun| begun.min(window));
        self.recent.drain(..needed);
        self.passed = limit - needed;
        Ok(passing)
    }

    /// The input ended: what was held is no value.
    pub(crate) fn finish(&mut self) -> Vec<u8> {
        let held = self.recent.split_off(self.passed);
        self.passed = self.recent.len();
        held
    }
}

#[cfg(test)]
mod tests;
