// SPDX-License-Identifier: Apache-2.0
//! The Merkle tree of RFC 6962 §2.1: a frontier that grows by appending, and the two proofs.
//!
//! The frontier keeps one hash for each set bit of the size, largest subtree first: enough to go on
//! and to know the root, without the leaves.

use crate::digest::Digest;
use sha2::{Digest as _, Sha256};
use thiserror::Error;

/// The hash of a leaf: SHA-256(0x00 ‖ bytes).
#[must_use]
pub fn leaf_hash(leaf: &[u8]) -> Digest {
    let mut hasher = Sha256::new();
    hasher.update([0]);
    hasher.update(leaf);
    Digest::new(hasher.finalize().into())
}

pub(crate) fn node_hash(left: &Digest, right: &Digest) -> Digest {
    let mut hasher = Sha256::new();
    hasher.update([1]);
    hasher.update(left.as_bytes());
    hasher.update(right.as_bytes());
    Digest::new(hasher.finalize().into())
}

/// Size and root: what a checkpoint signs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TreeHead {
    /// Number of leaves.
    pub size: u64,
    /// The root over them.
    pub root: Digest,
}

/// A frontier does not fit its size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("a tree of this size has another number of subtrees")]
pub struct FrontierError;

/// A tree that only grows.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Frontier {
    size: u64,
    subtrees: Vec<Digest>,
}

impl Frontier {
    /// Takes up a kept frontier.
    ///
    /// # Errors
    /// [`FrontierError`] when there is not one hash for each set bit of the size.
    pub fn resume(size: u64, subtrees: Vec<Digest>) -> Result<Self, FrontierError> {
        if u32::try_from(subtrees.len()) == Ok(size.count_ones()) {
            Ok(Self { size, subtrees })
        } else {
            Err(FrontierError)
        }
    }

    /// Appends the hash of a leaf.
    pub fn push(&mut self, leaf: Digest) {
        let mut node = leaf;
        for _ in 0..self.size.trailing_ones() {
            if let Some(left) = self.subtrees.pop() {
                node = node_hash(&left, &node);
            }
        }
        self.subtrees.push(node);
        self.size += 1;
    }

    /// Number of leaves.
    #[must_use]
    pub const fn size(&self) -> u64 {
        self.size
    }

    /// The hashes, largest subtree first.
    #[must_use]
    pub fn subtrees(&self) -> &[Digest] {
        &self.subtrees
    }

    /// Size and root.
    #[must_use]
    pub fn head(&self) -> TreeHead {
        let mut hashes = self.subtrees.iter().rev().copied();
        let root = match hashes.next() {
            None => Digest::of(b""),
            Some(last) => hashes.fold(last, |right, left| node_hash(&left, &right)),
        };
        TreeHead {
            size: self.size,
            root,
        }
    }
}
