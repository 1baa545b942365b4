// SPDX-License-Identifier: Apache-2.0
//! The two proofs of RFC 6962 §2.1: that a record is in a tree, and that a tree grew out of
//! another. Making one needs the leaves; checking one needs only heads.

use crate::digest::Digest;
use crate::tree::{Frontier, TreeHead, node_hash};
use thiserror::Error;

/// Why a proof proves nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ProofError {
    /// A place or size outside the tree.
    #[error("the place or size lies outside the tree")]
    Range,
    /// Too few or too many hashes.
    #[error("the proof has the wrong number of hashes")]
    Length,
    /// The hashes lead to another root.
    #[error("the proof leads to another root: these are two histories")]
    Root,
    /// The leaves it would need were pruned.
    #[error("the proof needs records that were pruned")]
    Pruned,
}

/// The leaves of a tree, or those that were kept of it with the frontier before them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leaves {
    before: Frontier,
    kept: Vec<Digest>,
}

impl Leaves {
    /// Hashes of the leaves that follow a frontier.
    #[must_use]
    pub const fn new(before: Frontier, kept: Vec<Digest>) -> Self {
        Self { before, kept }
    }

    /// Size of the whole tree.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.before.size() + u64::try_from(self.kept.len()).unwrap_or(u64::MAX)
    }

    /// PATH(index, D\[size\]): proves that the leaf is in the tree of that size.
    ///
    /// # Errors
    /// `Range`, or `Pruned`.
    pub fn inclusion(&self, index: u64, size: u64) -> Result<Vec<Digest>, ProofError> {
        if index >= size || size > self.size() {
            return Err(ProofError::Range);
        }
        let mut proof = Vec::new();
        let (mut start, mut end) = (0, size);
        // From the root down: the sibling of each step, nearest to the root last.
        while end - start > 1 {
            let middle = start + split(end - start);
            if index < middle {
                proof.push(self.hash(middle, end)?);
                end = middle;
            } else {
                proof.push(self.hash(start, middle)?);
                start = middle;
            }
        }
        proof.reverse();
        Ok(proof)
    }

    /// PROOF(old, D\[new\]): proves that the tree of size `new` grew out of that of size `old`.
    ///
    /// # Errors
    /// `Range`, or `Pruned`.
    pub fn consistency(&self, old: u64, new: u64) -> Result<Vec<Digest>, ProofError> {
        if old > new || new > self.size() {
            return Err(ProofError::Range);
        }
        let mut proof = Vec::new();
        if old == 0 || old == new {
            return Ok(proof);
        }
        let (mut start, mut end) = (0, new);
        // Down to the subtree that ends where the old tree ended.
        while old < end {
            let middle = start + split(end - start);
            if old <= middle {
                proof.push(self.hash(middle, end)?);
                end = middle;
            } else {
                proof.push(self.hash(start, middle)?);
                start = middle;
            }
        }
        // The old tree itself is not told: the checker has its root.
        if start > 0 {
            proof.push(self.hash(start, end)?);
        }
        proof.reverse();
        Ok(proof)
    }

    /// The hash over leaves `start..end`, a subtree of RFC 6962's shape.
    fn hash(&self, start: u64, end: u64) -> Result<Digest, ProofError> {
        if start < self.before.size() {
            return self.hash_before(start, end);
        }
        let at = |seq: u64| usize::try_from(seq - self.before.size()).unwrap_or(usize::MAX);
        let leaves = self.kept.get(at(start)..at(end)).ok_or(ProofError::Range)?;
        let mut tree = Frontier::default();
        leaves.iter().for_each(|leaf| tree.push(*leaf));
        Ok(tree.head().root)
    }

    /// The same where it begins among pruned leaves: a kept subtree, or a node over such.
    fn hash_before(&self, start: u64, end: u64) -> Result<Digest, ProofError> {
        let mut first = 0;
        for (bit, subtree) in bits(self.before.size()).zip(self.before.subtrees()) {
            if (first, first + bit) == (start, end) {
                return Ok(*subtree);
            }
            first += bit;
        }
        if end - start < 2 || end <= self.before.size() {
            return Err(ProofError::Pruned);
        }
        let middle = start + split(end - start);
        let (left, right) = (self.hash(start, middle)?, self.hash(middle, end)?);
        Ok(node_hash(&left, &right))
    }
}

/// Checks that a leaf stands at `index` of the tree of `head` (RFC 9162 §2.1.3.2).
///
/// # Errors
/// See [`ProofError`].
pub fn check_inclusion(
    leaf: &Digest,
    index: u64,
    head: &TreeHead,
    proof: &[Digest],
) -> Result<(), ProofError> {
    if index >= head.size {
        return Err(ProofError::Range);
    }
    let (mut place, mut last) = (index, head.size - 1);
    let mut root = *leaf;
    for hash in proof {
        if last == 0 {
            return Err(ProofError::Length);
        }
        if place & 1 == 1 || place == last {
            root = node_hash(hash, &root);
            if place & 1 == 0 {
                let levels = place.trailing_zeros();
                place = place.checked_shr(levels).unwrap_or(0);
                last = last.checked_shr(levels).unwrap_or(0);
            }
        } else {
            root = node_hash(&root, hash);
        }
        place >>= 1;
        last >>= 1;
    }
    match (last, root == head.root) {
        (0, true) => Ok(()),
        (0, false) => Err(ProofError::Root),
        _ => Err(ProofError::Length),
    }
}

/// Checks that the tree of `new` grew out of that of `old` (RFC 9162 §2.1.4.2). Two heads of one
/// size must be equal.
///
/// # Errors
/// See [`ProofError`]; `Root` is what two histories give.
pub fn check_consistency(
    old: &TreeHead,
    new: &TreeHead,
    proof: &[Digest],
) -> Result<(), ProofError> {
    if old.size > new.size {
        return Err(ProofError::Range);
    }
    if old.size == new.size || old.size == 0 {
        let same = old.root == new.root;
        let empty = old.size == 0 && old.root == Frontier::default().head().root;
        return match (proof.is_empty(), same || (empty && new.size > 0)) {
            (true, true) => Ok(()),
            (false, _) => Err(ProofError::Length),
            (true, false) => Err(ProofError::Root),
        };
    }
    // A whole old tree is the first hash of its own proof.
    let with_old = old.size.is_power_of_two().then_some(old.root);
    let mut hashes = with_old.into_iter().chain(proof.iter().copied());
    let first = hashes.next().ok_or(ProofError::Length)?;
    let (mut old_root, mut new_root) = (first, first);
    let levels = (old.size - 1).trailing_ones();
    let mut place = (old.size - 1).checked_shr(levels).unwrap_or(0);
    let mut last = (new.size - 1).checked_shr(levels).unwrap_or(0);
    for hash in hashes {
        if last == 0 {
            return Err(ProofError::Length);
        }
        if place & 1 == 1 || place == last {
            old_root = node_hash(&hash, &old_root);
            new_root = node_hash(&hash, &new_root);
            if place & 1 == 0 {
                let levels = place.trailing_zeros();
                place = place.checked_shr(levels).unwrap_or(0);
                last = last.checked_shr(levels).unwrap_or(0);
            }
        } else {
            new_root = node_hash(&new_root, &hash);
        }
        place >>= 1;
        last >>= 1;
    }
    if last != 0 {
        return Err(ProofError::Length);
    }
    if old_root == old.root && new_root == new.root {
        Ok(())
    } else {
        Err(ProofError::Root)
    }
}

/// The largest power of two below `size`, for sizes over one.
const fn split(size: u64) -> u64 {
    match size {
        0 | 1 => 0,
        _ => 1 << (size - 1).ilog2(),
    }
}

/// The set bits of a size, largest first.
fn bits(size: u64) -> impl Iterator<Item = u64> {
    (0..u64::BITS)
        .rev()
        .map(|shift| 1_u64 << shift)
        .filter(move |bit| size & bit != 0)
}

#[cfg(test)]
mod tests;
