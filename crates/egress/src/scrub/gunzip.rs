// SPDX-License-Identifier: Apache-2.0
//! Unpacks a gzip body in small steps, so that it can be searched. Bounded by ratio and size.

use crate::refuse::Fault;
use flate2::write::MultiGzDecoder;
use std::io::Write as _;

/// LIMIT: input per step; gzip grows at most 1032 times, so a step makes at most 264 KiB.
const STEP_BYTES: usize = 256;
/// LIMIT: after the first 8 MiB a body that unpacks to more than 200 times its size is a bomb;
/// text and JSON stay below 50.
const FREE_BYTES: u64 = 8 << 20;
const RATIO_MAX: u64 = 200;

/// A gzip body on its way.
pub(crate) struct Gunzip {
    decoder: MultiGzDecoder<Vec<u8>>,
    packed: u64,
    unpacked: u64,
}

impl Gunzip {
    pub(crate) fn new() -> Self {
        Self {
            decoder: MultiGzDecoder::new(Vec::new()),
            packed: 0,
            unpacked: 0,
        }
    }

    /// Unpacks bytes and hands each step's output on.
    pub(crate) fn push(&mut self, bytes: &[u8], mut take: impl FnMut(&[u8])) -> Result<(), Fault> {
        for step in bytes.chunks(STEP_BYTES) {
            let written = self.decoder.write_all(step);
            // Without a flush the decoder keeps up to 32 KiB to itself.
            let written = written.and_then(|()| self.decoder.flush());
            written.map_err(|_| broken())?;
            self.packed += u64::try_from(step.len()).unwrap_or(0);
            self.hand_on(&mut take)?;
        }
        Ok(())
    }

    /// The body is over; it must be whole.
    pub(crate) fn finish(&mut self, mut take: impl FnMut(&[u8])) -> Result<(), Fault> {
        if self.packed > 0 {
            self.decoder.try_finish().map_err(|_| broken())?;
        }
        self.hand_on(&mut take)
    }

    fn hand_on(&mut self, take: &mut impl FnMut(&[u8])) -> Result<(), Fault> {
        let out = self.decoder.get_mut();
        self.unpacked += u64::try_from(out.len()).unwrap_or(0);
        take(out);
        out.clear();
        if self.unpacked > FREE_BYTES && self.unpacked / RATIO_MAX > self.packed {
            return Err(Fault::answer("the far end's answer unpacks to too much"));
        }
        Ok(())
    }
}

fn broken() -> Fault {
    Fault::answer("the far end's answer is not the gzip it says to be")
}
