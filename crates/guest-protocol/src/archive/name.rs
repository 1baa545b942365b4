// SPDX-License-Identifier: Apache-2.0
//! The name of an entry in its directory.

use super::ArchiveError;

/// A single component: never empty, `.`, `..`, and without `/` and NUL.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileName(Box<[u8]>);

// LIMIT: what file systems take (NAME_MAX).
const NAME_BYTES_MAX: usize = 255;

impl FileName {
    /// Reads a name.
    ///
    /// # Errors
    /// [`ArchiveError::Name`] for what is no single component.
    // ATTACK: 166
    pub fn parse(bytes: &[u8]) -> Result<Self, ArchiveError> {
        let is_dots = matches!(bytes, b"." | b"..");
        let is_odd = bytes.iter().any(|byte| matches!(byte, b'/' | 0));
        if bytes.is_empty() || bytes.len() > NAME_BYTES_MAX || is_dots || is_odd {
            return Err(ArchiveError::Name);
        }
        Ok(Self(bytes.into()))
    }

    /// The bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}
