// SPDX-License-Identifier: Apache-2.0
//! A plaintext in memory: in locked pages, wiped when dropped, and never printable.
//!
//! It has no Debug:
//! ```compile_fail,E0277
//! fn shown(secret: &torno_vault::Secret) -> String { format!("{secret:?}") }
//! ```
//! no Display:
//! ```compile_fail,E0277
//! fn shown(secret: &torno_vault::Secret) -> String { format!("{secret}") }
//! ```
//! no Clone:
//! ```compile_fail,E0599
//! fn doubled(secret: &torno_vault::Secret) -> torno_vault::Secret {
//!     let again: torno_vault::Secret = torno_vault::Secret::clone(secret);
//!     again
//! }
//! ```
//! and no Serialize:
//! ```compile_fail,E0277
//! fn written(secret: &torno_vault::Secret) -> String { serde_json::to_string(secret).unwrap() }
//! ```

use crate::sys::LockedPages;
use std::num::NonZeroUsize;
use thiserror::Error;

/// Why a plaintext can't be held.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SecretError {
    /// The kernel gives no locked memory.
    #[error("no memory can be locked; raise the limit of locked memory (`ulimit -l`) to 8192 KiB")]
    Memory(#[from] std::io::Error),
    /// Nothing to hold.
    #[error("a secret has at least one byte")]
    Empty,
}

/// A plaintext. See the module's doc for what it lacks on purpose.
#[expect(missing_debug_implementations, reason = "a secret has no Debug")]
pub struct Secret {
    pages: LockedPages,
}

impl Secret {
    /// Copies bytes into locked memory; the caller wipes its own.
    ///
    /// # Errors
    /// See [`SecretError`].
    pub fn new(bytes: &[u8]) -> Result<Self, SecretError> {
        let length = NonZeroUsize::new(bytes.len()).ok_or(SecretError::Empty)?;
        let mut pages = LockedPages::new(length)?;
        pages.bytes_mut().copy_from_slice(bytes);
        Ok(Self { pages })
    }

    /// The plaintext. Dangerous: each caller is a place from which it can leak, so a search for
    /// `expose` must find few of them.
    #[must_use]
    pub fn expose(&self) -> &[u8] {
        self.pages.bytes()
    }

    /// The whole memory, for decryption in place.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        self.pages.bytes_mut()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    // ATTACK: 111
    #[test]
    fn a_panic_while_a_secret_is_held_does_not_print_it() {
        let secret = Secret::new(b"canary-canary-canary").unwrap();
        let caught = catch_unwind(AssertUnwindSafe(|| {
            let held = &secret;
            assert!(held.expose().is_empty(), "a secret was held");
        }));
        let payload = caught.unwrap_err();
        let message = payload.downcast_ref::<&str>().copied().unwrap_or_default();
        assert_eq!(message, "a secret was held");
        assert!(!message.contains("canary"));
    }
}
