// SPDX-License-Identifier: Apache-2.0
//! Unpacks a body in small steps, so that it can be searched. Every decoder is bounded in what it
//! holds, and all of them in how much may come out of how little.

mod brotli;
mod zstd;

use super::gunzip::Gunzip;
use crate::refuse::Fault;

/// A packed body on its way.
pub(crate) enum Unpack {
    Gzip(Box<Gunzip>),
    Brotli(Box<brotli::Unbrotli>),
    Zstd(Box<zstd::Unzstd>),
}

impl Unpack {
    pub(crate) fn gzip() -> Self {
        Self::Gzip(Box::new(Gunzip::new()))
    }

    pub(crate) fn brotli() -> Self {
        Self::Brotli(Box::new(brotli::Unbrotli::new()))
    }

    pub(crate) fn zstd() -> Self {
        Self::Zstd(Box::new(zstd::Unzstd::new()))
    }

    /// Unpacks bytes and hands each step's output on.
    pub(crate) fn push(&mut self, bytes: &[u8], mut take: impl FnMut(&[u8])) -> Result<(), Fault> {
        match self {
            Self::Gzip(gzip) => gzip.push(bytes, &mut take),
            Self::Brotli(brotli) => brotli.push(bytes, &mut take),
            Self::Zstd(zstd) => zstd.push(bytes, &mut take),
        }
    }

    /// The body is over; it must be whole.
    pub(crate) fn finish(&mut self, mut take: impl FnMut(&[u8])) -> Result<(), Fault> {
        match self {
            Self::Gzip(gzip) => gzip.finish(&mut take),
            Self::Brotli(brotli) => brotli.finish(),
            Self::Zstd(zstd) => zstd.finish(),
        }
    }
}

/// LIMIT: after the first 8 MiB a body that unpacks to more than 200 times its size is a bomb;
/// text and JSON stay below 50.
const FREE_BYTES: u64 = 8 << 20;
const RATIO_MAX: u64 = 200;

/// How much came out of how much.
#[derive(Default)]
pub(super) struct Growth {
    packed: u64,
    unpacked: u64,
}

impl Growth {
    /// Whether not one byte came.
    pub(super) fn is_nothing(&self) -> bool {
        self.packed == 0
    }

    /// So many packed bytes were read.
    pub(super) fn took(&mut self, count: usize) {
        self.packed += u64::try_from(count).unwrap_or(u64::MAX);
    }

    /// So many bytes came out of them.
    pub(super) fn made(&mut self, count: usize) -> Result<(), Fault> {
        self.unpacked += u64::try_from(count).unwrap_or(u64::MAX);
        if self.unpacked > FREE_BYTES && self.unpacked / RATIO_MAX > self.packed {
            return Err(Fault::answer("the far end's answer unpacks to too much"));
        }
        Ok(())
    }
}

/// A body that is not what its head says.
pub(super) fn broken() -> Fault {
    Fault::answer("the far end's answer is not in the encoding that it says")
}

#[cfg(test)]
pub(crate) mod tests;
