// SPDX-License-Identifier: Apache-2.0
//! The form of a placeholder: what stands in the sandbox where a credential would.
//!
//! `<shape>TRNO<26 base32 characters = 128 random bits><6 check characters>`, all unreserved URL
//! characters. It is no bearer: it means something only on its own session's link. The store keeps
//! its [`PlaceholderDigest`], never the text. The base32 part is lower case and the mark upper
//! case, so a mark never stands inside a candidate and a search stays linear.

use data_encoding::{BASE32_NOPAD, Encoding, Specification};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::ops::Range;
use std::sync::LazyLock;

mod hidden;

/// The constant that marks a placeholder, for scanning.
pub const MARK: &str = "TRNO";

/// LIMIT: the longest shape that a provider template may have; bounds the work per mark.
pub const SHAPE_BYTES_MAX: usize = 24;

/// The characters after the mark: 26 for 128 random bits, 6 for the check.
const RANDOM_BYTES: usize = 26;
const CHECK_BYTES: usize = 6;

/// LIMIT: the longest placeholder; a scanner that carries this many bytes less one over a chunk
/// border misses none.
pub const PLACEHOLDER_BYTES_MAX: usize = SHAPE_BYTES_MAX + MARK.len() + RANDOM_BYTES + CHECK_BYTES;

/// SHA-256 of a placeholder's whole text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PlaceholderDigest(pub [u8; 32]);

/// A well-formed placeholder. Public inside its own session, so it may be shown and copied.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Placeholder(String);

impl Placeholder {
    /// Makes a placeholder from a shape (`ghp_`, `sk-ant-`, or empty) and 16 random bytes. Of the
    /// shape only `[A-Za-z0-9_-]` is used, at most [`SHAPE_BYTES_MAX`] of them, so that what is
    /// made can always be found again.
    #[must_use]
    pub fn new(shape: &str, random: [u8; 16]) -> Self {
        let shape = shape
            .chars()
            .filter(|c| u8::try_from(*c).is_ok_and(is_shape_byte));
        let mut text: String = shape.take(SHAPE_BYTES_MAX).collect();
        text.push_str(MARK);
        BASE32_LOWER.encode_append(&random, &mut text);
        let check = check_characters(text.as_bytes());
        text.push_str(&check);
        Self(text)
    }

    /// Reads a text that is one placeholder and nothing else.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (range, found) = Self::find_all(text.as_bytes()).into_iter().next()?;
        (range == (0..text.len())).then_some(found)
    }

    /// Every well-formed placeholder in `text`, in order, with its byte range; overlapping marks
    /// are tried each. The shape is taken to be the longest run of `[A-Za-z0-9_-]` before the mark
    /// that makes the check characters right, at most 24 bytes.
    ///
    /// Linear in `text`: a candidate has 32 lower-case characters after its mark, so two never
    /// overlap there, and each costs at most 25 hashes of one block.
    #[must_use]
    pub fn find_all(text: &[u8]) -> Vec<(Range<usize>, Self)> {
        let mark = MARK.as_bytes();
        let starts = text
            .windows(mark.len())
            .enumerate()
            .filter(|(_, window)| *window == mark);
        starts.filter_map(|(at, _)| find_at(text, at)).collect()
    }

    /// Every placeholder in `text`, plain or hidden by one encoding: percent-encoding, JSON `\u`
    /// escapes, and base64 (both alphabets, at any alignment) of the plain or so decoded text.
    #[must_use]
    pub fn find_hidden(text: &[u8]) -> Vec<Self> {
        hidden::find(text)
    }

    /// Its digest, as the store keeps it.
    #[must_use]
    pub fn digest(&self) -> PlaceholderDigest {
        PlaceholderDigest(Sha256::digest(self.0.as_bytes()).into())
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Reads the candidate whose mark stands at `mark`.
fn find_at(text: &[u8], mark: usize) -> Option<(Range<usize>, Placeholder)> {
    let body = mark + MARK.len();
    let (random_end, end) = (body + RANDOM_BYTES, body + RANDOM_BYTES + CHECK_BYTES);
    let random = text.get(body..random_end)?;
    let check = text.get(random_end..end)?;
    if !random
        .iter()
        .chain(check)
        .all(|b| matches!(b, b'a'..=b'z' | b'2'..=b'7'))
    {
        return None;
    }
    // The last of 26 characters carries two spare bits, which are zero in the one spelling.
    BASE32_LOWER.decode(random).ok()?;
    let before = text.get(..mark)?.iter().rev();
    let run = before
        .take(SHAPE_BYTES_MAX)
        .take_while(|b| is_shape_byte(**b))
        .count();
    (mark - run..=mark).find_map(|start| {
        let hashed = text.get(start..random_end)?;
        if check_characters(hashed).as_bytes() != check {
            return None;
        }
        let whole = std::str::from_utf8(text.get(start..end)?).ok()?;
        Some((start..end, Placeholder(whole.to_owned())))
    })
}

/// The first 30 bits of SHA-256 over shape, mark and random text.
fn check_characters(hashed: &[u8]) -> String {
    let digest = Sha256::digest(hashed);
    let mut check = BASE32_LOWER.encode(&digest);
    check.truncate(CHECK_BYTES);
    check
}

fn is_shape_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')
}

/// RFC 4648 base32 in lower case, without padding.
static BASE32_LOWER: LazyLock<Encoding> = LazyLock::new(|| {
    let mut lower = Specification::new();
    lower.symbols.push_str("abcdefghijklmnopqrstuvwxyz234567");
    // INVARIANT: the alphabet is a constant of 32 distinct ASCII symbols; the upper-case one is
    // never reached, and would only make every check fail.
    lower.encoding().unwrap_or(BASE32_NOPAD)
});

#[cfg(test)]
mod tests;
