// SPDX-License-Identifier: Apache-2.0
//! Brotli (RFC 7932): one stream, without the extension for large windows, so that the decoder
//! holds at most 16 MiB.

use super::{Growth, broken};
use crate::refuse::Fault;
use brotli_decompressor::{BrotliDecompressStream, BrotliResult, BrotliState, StandardAlloc};

/// LIMIT: input per step, so that the ratio is looked at often.
const STEP_BYTES: usize = 256;
/// LIMIT: output per step.
const OUT_BYTES: usize = 32 * 1024;

/// A brotli body on its way.
pub(crate) struct Unbrotli {
    state: BrotliState<StandardAlloc, StandardAlloc, StandardAlloc>,
    out: Box<[u8]>,
    growth: Growth,
    is_over: bool,
}

impl Unbrotli {
    pub(super) fn new() -> Self {
        let alloc = StandardAlloc::default;
        let mut state = BrotliState::new(alloc(), alloc(), alloc());
        state.large_window = false;
        Self {
            state,
            out: vec![0; OUT_BYTES].into_boxed_slice(),
            growth: Growth::default(),
            is_over: false,
        }
    }

    pub(super) fn push(&mut self, bytes: &[u8], take: &mut impl FnMut(&[u8])) -> Result<(), Fault> {
        for step in bytes.chunks(STEP_BYTES) {
            self.growth.took(step.len());
            self.step(step, take)?;
        }
        Ok(())
    }

    fn step(&mut self, step: &[u8], take: &mut impl FnMut(&[u8])) -> Result<(), Fault> {
        let (mut left, mut from) = (step.len(), 0);
        loop {
            // Bytes behind the end are nobody's.
            if self.is_over && left > 0 {
                return Err(broken());
            }
            let (mut room, mut made, mut total) = (self.out.len(), 0, 0);
            let result = BrotliDecompressStream(
                &mut left,
                &mut from,
                step,
                &mut room,
                &mut made,
                &mut self.out,
                &mut total,
                &mut self.state,
            );
            self.growth.made(made)?;
            take(self.out.get(..made).unwrap_or_default());
            match result {
                BrotliResult::ResultFailure => return Err(broken()),
                BrotliResult::ResultSuccess if left == 0 => {
                    self.is_over = true;
                    return Ok(());
                }
                BrotliResult::ResultSuccess => self.is_over = true,
                BrotliResult::NeedsMoreInput if room > 0 => return Ok(()),
                BrotliResult::NeedsMoreInput | BrotliResult::NeedsMoreOutput => {}
            }
        }
    }

    pub(super) fn finish(&mut self) -> Result<(), Fault> {
        if self.is_over || self.growth.is_nothing() {
            Ok(())
        } else {
            Err(broken())
        }
    }
}
