// SPDX-License-Identifier: Apache-2.0
//! What finds a value in a stream without being it (I13): a rolling hash over a window picks
//! candidates, a salted SHA-256 over the whole value confirms.
//!
//! The window's hash is `Σ (byteᵢ + 1) · base^(11-i)` modulo 2⁶¹−1, i from 0 to 11. The base is odd
//! and random for each set; whoever reads a fingerprint learns no byte of a value that has more
//! than guessable entropy, and a set is handed to the porter only, not stored.

use torno_policy::names::CredentialName;

/// LIMIT: the shortest value that the vault takes; a longer window would miss it.
pub const ROLLING_WINDOW: usize = 12;
/// 2⁶¹ − 1, a Mersenne prime: products fit 128 bits.
const MODULUS: u64 = (1 << 61) - 1;

/// One value's fingerprint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fingerprint {
    /// Whose value it is.
    pub credential: CredentialName,
    /// Bytes of the value.
    pub length: usize,
    /// Hash of its first [`ROLLING_WINDOW`] bytes.
    pub rolling: u64,
    /// The set's base.
    pub base: u64,
    /// Salt of the digest.
    pub salt: [u8; 16],
    /// SHA-256 of salt and value.
    pub digest: [u8; 32],
}

/// The hash of the last [`ROLLING_WINDOW`] bytes of a stream.
#[derive(Debug, Clone)]
pub struct Rolling {
    base: u64,
    /// base^11: what the oldest byte was multiplied with.
    leaving: u64,
    window: [u8; ROLLING_WINDOW],
    at: usize,
    seen: usize,
    hash: u64,
}

impl Rolling {
    /// A stream's start.
    #[must_use]
    pub fn new(base: u64) -> Self {
        let base = base % MODULUS;
        let leaving = (1..ROLLING_WINDOW).fold(1, |power, _| times(power, base));
        Self {
            base,
            leaving,
            window: [0; ROLLING_WINDOW],
            at: 0,
            seen: 0,
            hash: 0,
        }
    }

    /// Takes the next byte; the window's hash once it is full.
    pub fn push(&mut self, byte: u8) -> Option<u64> {
        let oldest = self.window.get_mut(self.at)?;
        if self.seen == ROLLING_WINDOW {
            let gone = times(u64::from(*oldest) + 1, self.leaving);
            self.hash = (self.hash + MODULUS - gone) % MODULUS;
        } else {
            self.seen += 1;
        }
        *oldest = byte;
        self.at = (self.at + 1) % ROLLING_WINDOW;
        self.hash = (times(self.hash, self.base) + u64::from(byte) + 1) % MODULUS;
        (self.seen == ROLLING_WINDOW).then_some(self.hash)
    }

    /// The hash of one whole window.
    #[must_use]
    pub fn of(base: u64, window: &[u8; ROLLING_WINDOW]) -> u64 {
        let mut rolling = Self::new(base);
        window
            .iter()
            .fold(0, |last, byte| rolling.push(*byte).unwrap_or(last))
    }
}

/// An odd base of a full 60 bits.
pub(crate) fn base_of(random: [u8; 8]) -> u64 {
    (u64::from_le_bytes(random) % MODULUS) | (1 << 59) | 1
}

fn times(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b) % u128::from(MODULUS);
    // INVARIANT: below a modulus of 61 bits.
    u64::try_from(product).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rolling_hash_equals_the_window_hash_at_every_place() {
        let stream: Vec<u8> = (0..2000_u32).map(|n| (n * n % 251) as u8).collect();
        let base = base_of([0xff; 8]);
        let mut rolling = Rolling::new(base);
        for (at, byte) in stream.iter().enumerate() {
            let hash = rolling.push(*byte);
            match (at + 1).checked_sub(ROLLING_WINDOW) {
                None => assert_eq!(hash, None),
                Some(start) => {
                    let window: &[u8; 12] = stream[start..=at].try_into().unwrap();
                    assert_eq!(hash, Some(Rolling::of(base, window)), "at {at}");
                }
            }
        }
    }

    #[test]
    fn zero_bytes_count() {
        let base = base_of([7; 8]);
        let mut moved = [0; ROLLING_WINDOW];
        moved[0] = 1;
        assert_ne!(Rolling::of(base, &[0; 12]), Rolling::of(base, &moved));
    }
}
