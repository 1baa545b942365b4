// SPDX-License-Identifier: Apache-2.0
//! What stands behind the last whole record of the newest segment: room that was written ahead, or
//! what is left of batches that no flush had covered. Disks write whole sectors, in any order: of
//! such a batch a sector may be there while one before it is not.

use crate::digest::Digest;
use crate::directory::byte_count;
use sha2::{Digest as _, Sha256};
use std::fs::File;
use std::io::{self, BufReader, Read as _, Seek as _};

/// What a disk writes whole at least.
const SECTOR_BYTES: u64 = 512;

/// What was found.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Tail {
    /// Room, or the end of the file.
    Nothing,
    /// Bytes that nobody was told are recorded, up to the last that is not zero.
    Lost {
        /// How many.
        bytes: u64,
        /// Their digest.
        sha256: Digest,
    },
    /// A sector in which something stands behind a zero: no writer leaves that, and no lost sector.
    Damaged,
}

/// Reads a segment from a place on.
pub(super) fn read(mut file: File, from: u64) -> io::Result<Tail> {
    file.seek(io::SeekFrom::Start(from))?;
    let mut file = BufReader::new(file);
    let mut hasher = Sha256::new();
    let (mut bytes, mut zeroes) = (0, 0);
    let mut sector = Vec::new();
    let mut wanted = SECTOR_BYTES - from % SECTOR_BYTES;
    while {
        sector.clear();
        (&mut file).take(wanted).read_to_end(&mut sector)? > 0
    } {
        wanted = SECTOR_BYTES;
        let room = sector.iter().position(|byte| *byte == 0);
        let (written, room) = sector.split_at(room.unwrap_or(sector.len()));
        if room.iter().any(|byte| *byte != 0) {
            return Ok(Tail::Damaged);
        }
        if !written.is_empty() {
            (0..zeroes).for_each(|_| hasher.update([0]));
            hasher.update(written);
            bytes += zeroes + byte_count(written);
            zeroes = 0;
        }
        zeroes += byte_count(room);
    }
    if bytes == 0 {
        return Ok(Tail::Nothing);
    }
    let sha256 = Digest::new(hasher.finalize().into());
    Ok(Tail::Lost { bytes, sha256 })
}
