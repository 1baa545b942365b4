// SPDX-License-Identifier: Apache-2.0
//! The form of a placeholder: what stands in the sandbox where a credential would.
//!
//! `<shape>TRNO<26 base32 characters = 128 random bits><6 check characters>`, all unreserved URL
//! characters. It is no bearer: it means something only on its own session's link. The store keeps
//! its [`PlaceholderDigest`], never the text.

use serde::{Deserialize, Serialize};

/// The constant that marks a placeholder, for scanning.
pub const MARK: &str = "TRNO";

/// SHA-256 of a placeholder's whole text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PlaceholderDigest(pub [u8; 32]);

/// A well-formed placeholder. Public inside its own session, so it may be shown and copied.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Placeholder(String);

impl Placeholder {
    /// Makes a placeholder from a shape (`ghp_`, `sk-ant-`, or empty) and 16 random bytes.
    #[must_use]
    pub fn new(shape: &str, random: [u8; 16]) -> Self {
        let _ = (shape, random);
        unimplemented!()
    }

    /// Every well-formed placeholder in `text`, in order, with its byte range; overlapping marks
    /// are tried each. The shape is taken to be the longest run of `[A-Za-z0-9_-]` before the mark
    /// that makes the check characters right, at most 24 bytes.
    #[must_use]
    pub fn find_all(text: &[u8]) -> Vec<(std::ops::Range<usize>, Self)> {
        let _ = text;
        unimplemented!()
    }

    /// Its digest, as the store keeps it.
    #[must_use]
    pub fn digest(&self) -> PlaceholderDigest {
        unimplemented!()
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}
