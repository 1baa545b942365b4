// SPDX-License-Identifier: Apache-2.0
//! Zstandard (RFC 8878) as HTTP has it (RFC 9659): frames one behind the other, each with a window
//! of at most 8 MiB, none with a dictionary. What a frame is made of is found here and handed to
//! the decoder one block at a time, because a few bytes may be many blocks.

use super::{Growth, broken};
use crate::refuse::Fault;
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};
use std::mem;

/// LIMIT: RFC 9659 §3: a content coding's window.
const WINDOW_BYTES_MAX: u64 = 8 << 20;
/// LIMIT: RFC 8878 §3.1.1.2.4: what one block may unpack to; no packed one is larger either.
const BLOCK_BYTES_MAX: usize = 128 * 1024;
const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
const BLOCK_HEAD_BYTES: usize = 3;
const CHECKSUM_BYTES: usize = 4;

/// What the next bytes are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    Frame,
    Block { has_checksum: bool },
}

/// A zstd body on its way.
pub(crate) struct Unzstd {
    decoder: FrameDecoder,
    next: Next,
    /// A frame's head or a block that is not whole yet.
    part: Vec<u8>,
    out: Vec<u8>,
    growth: Growth,
}

impl Unzstd {
    pub(super) fn new() -> Self {
        Self {
            decoder: FrameDecoder::new(),
            next: Next::Frame,
            part: Vec::new(),
            out: Vec::new(),
            growth: Growth::default(),
        }
    }

    pub(super) fn push(
        &mut self,
        mut bytes: &[u8],
        take: &mut impl FnMut(&[u8]),
    ) -> Result<(), Fault> {
        while !bytes.is_empty() {
            let wanted = self.wanted()?.saturating_sub(self.part.len());
            let (now, later) = bytes.split_at(wanted.min(bytes.len()));
            self.growth.took(now.len());
            self.part.extend_from_slice(now);
            bytes = later;
            if self.wanted()? == self.part.len() {
                self.decode(take)?;
            }
        }
        Ok(())
    }

    pub(super) fn finish(&mut self) -> Result<(), Fault> {
        if self.next == Next::Frame && self.part.is_empty() {
            Ok(())
        } else {
            Err(broken())
        }
    }

    /// How many bytes the part has when it is whole, as far as it tells so far.
    fn wanted(&self) -> Result<usize, Fault> {
        match self.next {
            Next::Frame => match self.part.get(MAGIC.len()) {
                None => Ok(MAGIC.len() + 1),
                Some(descriptor) => Ok(MAGIC.len() + head_bytes(*descriptor)?),
            },
            Next::Block { has_checksum } => match self.part.first_chunk() {
                None => Ok(BLOCK_HEAD_BYTES),
                Some(head) => {
                    let (is_last, size) = block(*head)?;
                    let behind = usize::from(is_last && has_checksum) * CHECKSUM_BYTES;
                    Ok(BLOCK_HEAD_BYTES + size + behind)
                }
            },
        }
    }

    fn decode(&mut self, take: &mut impl FnMut(&[u8])) -> Result<(), Fault> {
        let part = mem::take(&mut self.part);
        match self.next {
            Next::Frame => {
                let has_checksum = frame(&part)?;
                self.decoder.reset(part.as_slice()).map_err(|_| broken())?;
                self.next = Next::Block { has_checksum };
            }
            Next::Block { has_checksum } => {
                let one = BlockDecodingStrategy::UptoBlocks(1);
                let decoded = self.decoder.decode_blocks(part.as_slice(), one);
                decoded.map_err(|_| broken())?;
                let handed = self.decoder.collect_to_writer(&mut self.out);
                handed.map_err(|_| broken())?;
                self.growth.made(self.out.len())?;
                take(&self.out);
                self.out.clear();
                if self.decoder.is_finished() {
                    let told = self.decoder.get_checksum_from_data();
                    if has_checksum && told != self.decoder.get_calculated_checksum() {
                        return Err(broken());
                    }
                    self.next = Next::Frame;
                }
            }
        }
        self.part = part;
        self.part.clear();
        Ok(())
    }
}

/// How long a frame's head is behind its magic number, by its first byte.
fn head_bytes(descriptor: u8) -> Result<usize, Fault> {
    // A reserved bit, or a dictionary that nobody has.
    if descriptor & 0b1011 != 0 {
        return Err(broken());
    }
    let is_single = descriptor & 0b10_0000 != 0;
    let size = match descriptor >> 6 {
        0 => usize::from(is_single),
        1 => 2,
        2 => 4,
        _ => 8,
    };
    Ok(1 + usize::from(!is_single) + size)
}

/// Checks a frame's head; gives whether a checksum follows its blocks.
fn frame(head: &[u8]) -> Result<bool, Fault> {
    let rest = head.strip_prefix(&MAGIC).ok_or_else(broken)?;
    let (descriptor, rest) = rest.split_first().ok_or_else(broken)?;
    let window = if descriptor & 0b10_0000 != 0 {
        let size = rest.iter().rev();
        let size = size.fold(0, |size: u64, byte| size << 8 | u64::from(*byte));
        if descriptor >> 6 == 1 {
            size + 256
        } else {
            size
        }
    } else {
        let byte = rest.first().ok_or_else(broken)?;
        let base = 1_u64 << (10 + (byte >> 3));
        base + base / 8 * u64::from(byte & 0b111)
    };
    if window > WINDOW_BYTES_MAX {
        return Err(Fault::answer(
            "the far end's answer needs too much to unpack",
        ));
    }
    Ok(descriptor & 0b100 != 0)
}

/// A block's head: whether it is the last, and how many bytes follow.
fn block(head: [u8; BLOCK_HEAD_BYTES]) -> Result<(bool, usize), Fault> {
    let [a, b, c] = head.map(usize::from);
    let (is_last, kind, size) = (a & 1 == 1, a >> 1 & 0b11, (a | b << 8 | c << 16) >> 3);
    if size > BLOCK_BYTES_MAX {
        return Err(broken());
    }
    match kind {
        // One byte, so many times.
        1 => Ok((is_last, 1)),
        0 | 2 => Ok((is_last, size)),
        _ => Err(broken()),
    }
}
