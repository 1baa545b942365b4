// SPDX-License-Identifier: Apache-2.0
//! Randomness as an argument.

use thiserror::Error;

/// No randomness is to be had.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the system gives no randomness; nothing was done")]
pub struct EntropyError;

/// A source of bytes that nobody can guess.
pub trait Entropy {
    /// Fills all of `bytes` or fails.
    ///
    /// # Errors
    /// [`EntropyError`] when it could not.
    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), EntropyError>;
}

/// The kernel's generator.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemEntropy;

impl Entropy for SystemEntropy {
    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), EntropyError> {
        getrandom::fill(bytes).map_err(|_| EntropyError)
    }
}
