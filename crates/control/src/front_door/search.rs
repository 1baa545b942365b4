// SPDX-License-Identifier: Apache-2.0
//! The search for vault values, over a buffer or a stream.

use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::io::Read;
use torno_notary_protocol::desk::{FINGERPRINT_WINDOW, Fingerprint};
use torno_vault::Rolling;

/// LIMIT: a stream is searched in pieces of this size, which overlap by the longest value.
const PIECE_BYTES: usize = 1024 * 1024;

/// Finds the values of one set of fingerprints.
pub(crate) struct Searcher<'a> {
    /// Sets of equal base: base → rolling hash → fingerprints.
    by_base: BTreeMap<u64, BTreeMap<u64, Vec<&'a Fingerprint>>>,
    longest: usize,
}

impl<'a> Searcher<'a> {
    pub(crate) fn new(fingerprints: &'a [Fingerprint]) -> Self {
        let mut by_base: BTreeMap<u64, BTreeMap<u64, Vec<&Fingerprint>>> = BTreeMap::new();
        let mut longest = FINGERPRINT_WINDOW;
        for fingerprint in fingerprints {
            longest = longest.max(length(fingerprint));
            let of_base = by_base.entry(fingerprint.base).or_default();
            of_base
                .entry(fingerprint.rolling)
                .or_default()
                .push(fingerprint);
        }
        Self { by_base, longest }
    }

    /// The first credential whose value stands in `bytes`.
    pub(crate) fn find(&self, bytes: &[u8]) -> Option<&'a str> {
        self.by_base
            .iter()
            .find_map(|(base, wanted)| find_of_base(bytes, *base, wanted))
    }

    /// Where the first value begins that `bytes` end in the middle of, as far as its first
    /// [`FINGERPRINT_WINDOW`] bytes tell.
    pub(crate) fn find_begun(&self, bytes: &[u8]) -> Option<usize> {
        let begun = |(base, wanted): (&u64, &BTreeMap<u64, Vec<&Fingerprint>>)| {
            candidates(bytes, *base, wanted).find_map(|(at, candidates)| {
                let rest = bytes.len() - at;
                let is_cut = candidates.iter().any(|c| length(c) > rest);
                is_cut.then_some(at)
            })
        };
        self.by_base.iter().filter_map(begun).min()
    }

    /// [`Self::find`] over a stream.
    pub(crate) fn find_in(&self, mut stream: impl Read) -> std::io::Result<Option<&'a str>> {
        let mut piece = Vec::with_capacity(PIECE_BYTES + self.longest);
        loop {
            let room = u64::try_from(PIECE_BYTES).unwrap_or(u64::MAX);
            let read = stream.by_ref().take(room).read_to_end(&mut piece)?;
            if let Some(found) = self.find(&piece) {
                return Ok(Some(found));
            }
            if read == 0 {
                return Ok(None);
            }
            let kept = piece.len().min(self.longest - 1);
            piece.drain(..piece.len() - kept);
        }
    }
}

fn length(fingerprint: &Fingerprint) -> usize {
    usize::try_from(fingerprint.length).unwrap_or(usize::MAX)
}

fn find_of_base<'a>(
    bytes: &[u8],
    base: u64,
    wanted: &BTreeMap<u64, Vec<&'a Fingerprint>>,
) -> Option<&'a str> {
    candidates(bytes, base, wanted).find_map(|(at, candidates)| {
        let rest = bytes.get(at..).unwrap_or_default();
        let found = candidates
            .iter()
            .find(|fingerprint| confirms(fingerprint, rest));
        found.map(|fingerprint| fingerprint.credential.as_str())
    })
}

/// Each place where a window is some values' first one.
fn candidates<'w, 'a>(
    bytes: &[u8],
    base: u64,
    wanted: &'w BTreeMap<u64, Vec<&'a Fingerprint>>,
) -> impl Iterator<Item = (usize, &'w Vec<&'a Fingerprint>)> {
    let mut rolling = Rolling::new(base);
    bytes.iter().enumerate().filter_map(move |(at, byte)| {
        let candidates = wanted.get(&rolling.push(*byte)?)?;
        Some((at + 1 - FINGERPRINT_WINDOW, candidates))
    })
}

fn confirms(fingerprint: &Fingerprint, rest: &[u8]) -> bool {
    let Some(value) = rest.get(..length(fingerprint)) else {
        return false;
    };
    let mut hash = Sha256::new();
    hash.update(fingerprint.salt);
    hash.update(value);
    hash.finalize().as_slice() == fingerprint.digest
}
