// SPDX-License-Identifier: Apache-2.0
//! Bytes that are counted and hashed on their way.

use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};
use std::io::{self, Read};
use torno_policy::names::ImageDigest;

/// Hashes what is read through it.
pub(crate) struct Hashed<R> {
    inner: R,
    sha256: Sha256,
    bytes: u64,
    broken: bool,
}

impl<R: Read> Hashed<R> {
    pub(crate) fn new(inner: R) -> Self {
        Self {
            inner,
            sha256: Sha256::new(),
            bytes: 0,
            broken: false,
        }
    }

    /// Bytes so far.
    pub(crate) fn length(&self) -> u64 {
        self.bytes
    }

    /// The source failed, and not who took from it.
    pub(crate) fn is_broken(&self) -> bool {
        self.broken
    }

    /// The digest of all that came.
    pub(crate) fn digest(self) -> Option<ImageDigest> {
        of_hash(self.sha256)
    }
}

impl<R: Read> Read for Hashed<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer);
        // A call that a signal broke off is made again.
        self.broken |= matches!(&read, Err(error) if error.kind() != io::ErrorKind::Interrupted);
        let length = read?;
        self.sha256.update(buffer.get(..length).unwrap_or_default());
        self.bytes += u64::try_from(length).unwrap_or(u64::MAX);
        Ok(length)
    }
}

/// The digest of a few bytes.
pub(crate) fn of(bytes: &[u8]) -> Option<ImageDigest> {
    of_hash(Sha256::new_with_prefix(bytes))
}

/// Nothing never comes: 32 bytes are 64 characters.
pub(crate) fn of_hash(hash: Sha256) -> Option<ImageDigest> {
    ImageDigest::parse(&format!("sha256:{}", HEXLOWER.encode(&hash.finalize()))).ok()
}
