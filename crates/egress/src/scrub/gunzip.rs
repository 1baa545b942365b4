// SPDX-License-Identifier: Apache-2.0
//! gzip (RFC 1952): members one behind the other, unpacked in small steps.

use super::unpack::{Growth, broken};
use crate::refuse::Fault;
use flate2::write::MultiGzDecoder;
use std::io::Write as _;

/// LIMIT: input per step; gzip grows at most 1032 times, so a step makes at most 264 KiB.
const STEP_BYTES: usize = 256;

/// A gzip body on its way.
pub(crate) struct Gunzip {
    decoder: MultiGzDecoder<Vec<u8>>,
    growth: Growth,
}

impl Gunzip {
    pub(super) fn new() -> Self {
        Self {
            decoder: MultiGzDecoder::new(Vec::new()),
            growth: Growth::default(),
        }
    }

    pub(super) fn push(&mut self, bytes: &[u8], take: &mut impl FnMut(&[u8])) -> Result<(), Fault> {
        for step in bytes.chunks(STEP_BYTES) {
            let written = self.decoder.write_all(step);
            // Without a flush the decoder keeps up to 32 KiB to itself.
            let written = written.and_then(|()| self.decoder.flush());
            written.map_err(|_| broken())?;
            self.growth.took(step.len());
            self.hand_on(take)?;
        }
        Ok(())
    }

    pub(super) fn finish(&mut self, take: &mut impl FnMut(&[u8])) -> Result<(), Fault> {
        if !self.growth.is_nothing() {
            self.decoder.try_finish().map_err(|_| broken())?;
        }
        self.hand_on(take)
    }

    fn hand_on(&mut self, take: &mut impl FnMut(&[u8])) -> Result<(), Fault> {
        let out = self.decoder.get_mut();
        self.growth.made(out.len())?;
        take(out);
        out.clear();
        Ok(())
    }
}
