// SPDX-License-Identifier: Apache-2.0
//! The policy file: `torno.toml` text → canonical [`Grant`]. Unknown keys are errors, and every
//! error points at its place in the text.

use crate::grant::Grant;

mod limits;
mod rules;
mod shape;

/// What is wrong with a document, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct DocumentError {
    /// What is wrong, one line, with what to do next.
    pub message: String,
    /// The bytes of the text it is about, when known.
    pub span: Option<std::ops::Range<usize>>,
}

/// SHA-256 of a document's bytes: what `torno trust` accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DocumentDigest(pub [u8; 32]);

/// The digest of a document's bytes.
#[must_use]
pub fn digest(text: &str) -> DocumentDigest {
    let _ = text;
    unimplemented!()
}

/// Reads a policy file.
///
/// # Errors
/// The first thing that is wrong with it, with its place.
pub fn parse(text: &str) -> Result<Grant, DocumentError> {
    let _ = text;
    unimplemented!()
}
