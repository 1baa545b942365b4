// SPDX-License-Identifier: Apache-2.0
//! LZ4 as kernels are packed with it: the legacy frame (lz4, `doc/lz4_Frame_format.md`) of blocks
//! (`doc/lz4_Block_format.md`). Small, since nothing but the host's own kernel is ever read by it.

/// The legacy frame's first word.
const MAGIC: &[u8] = &[0x02, 0x21, 0x4c, 0x18];
/// LIMIT: what one block of a legacy frame holds.
const BLOCK_BYTES_MAX: usize = 8 << 20;
/// A match is never shorter.
const MATCH_BYTES_MIN: usize = 4;

/// Unpacks a frame to exactly `length` bytes.
pub(super) fn unpack(frame: &[u8], length: usize) -> Result<Vec<u8>, &'static str> {
    let other = "it is not packed by lz4, as Debian packs its own";
    let mut rest = frame.strip_prefix(MAGIC).ok_or(other)?;
    let mut out = Vec::with_capacity(length);
    while !rest.is_empty() {
        let (size, after) = rest.split_first_chunk().ok_or(BROKEN)?;
        let size = usize::try_from(u32::from_le_bytes(*size)).unwrap_or(usize::MAX);
        let (packed, after) = after.split_at_checked(size).ok_or(BROKEN)?;
        let most = length.min(out.len() + BLOCK_BYTES_MAX);
        block(packed, &mut out, most)?;
        rest = after;
    }
    if out.len() == length {
        Ok(out)
    } else {
        Err(BROKEN)
    }
}

const BROKEN: &str = "its packed data are broken";

/// One block, appended; what it refers back to is its own.
fn block(mut packed: &[u8], out: &mut Vec<u8>, most: usize) -> Result<(), &'static str> {
    let first = out.len();
    while let Some((token, after)) = packed.split_first() {
        packed = after;
        let literals = count(usize::from(token >> 4), &mut packed)?;
        let (copied, after) = packed.split_at_checked(literals).ok_or(BROKEN)?;
        packed = after;
        if copied.len() > most - out.len() {
            return Err(BROKEN);
        }
        out.extend_from_slice(copied);
        // The last sequence has no match.
        if packed.is_empty() {
            return Ok(());
        }
        let (distance, after) = packed.split_first_chunk().ok_or(BROKEN)?;
        packed = after;
        let distance = usize::from(u16::from_le_bytes(*distance));
        let length = count(usize::from(token & 15), &mut packed)? + MATCH_BYTES_MIN;
        if distance == 0 || distance > out.len() - first || length > most - out.len() {
            return Err(BROKEN);
        }
        repeat(out, distance, length);
    }
    Ok(())
}

/// A length: four bits, and bytes for as long as they are full.
fn count(nibble: usize, packed: &mut &[u8]) -> Result<usize, &'static str> {
    let mut count = nibble;
    if nibble < 15 {
        return Ok(count);
    }
    loop {
        let (byte, after) = packed.split_first().ok_or(BROKEN)?;
        *packed = after;
        count += usize::from(*byte);
        if count > BLOCK_BYTES_MAX {
            return Err(BROKEN);
        }
        if *byte != u8::MAX {
            return Ok(count);
        }
    }
}

/// Appends `length` bytes from `distance` before the end; a match may reach into itself.
fn repeat(out: &mut Vec<u8>, distance: usize, mut length: usize) {
    let from = out.len() - distance;
    while length > 0 {
        let piece = length.min(out.len() - from);
        out.extend_from_within(from..from + piece);
        length -= piece;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three literals, a match that reaches into itself, and last literals.
    const BLOCK: &[u8] = b"\x32abc\x03\0\x20de";
    const PLAIN: &[u8] = b"abcabcabcde";

    fn frame(block: &[u8]) -> Vec<u8> {
        let size = u32::try_from(block.len()).unwrap().to_le_bytes();
        [MAGIC, &size, block].concat()
    }

    #[test]
    fn a_block_is_unpacked_as_its_format_says() {
        assert_eq!(unpack(&frame(BLOCK), PLAIN.len()).unwrap(), PLAIN);
        let long = [&[0xf0, 255, 1][..], &[b'x'; 271]].concat();
        assert_eq!(unpack(&frame(&long), 271).unwrap(), [b'x'; 271]);
    }

    #[test]
    fn no_changed_byte_makes_more_of_a_block_than_was_announced() {
        let whole = frame(BLOCK);
        for at in 0..whole.len() {
            for byte in 0..=u8::MAX {
                let mut bytes = whole.clone();
                if let Some(place) = bytes.get_mut(at) {
                    *place = byte;
                }
                if let Ok(plain) = unpack(&bytes, PLAIN.len()) {
                    assert_eq!(plain.len(), PLAIN.len());
                }
            }
        }
    }

    #[test]
    fn a_match_before_the_blocks_beginning_is_refused() {
        for bad in [
            &b"\x10a\x02\0\0"[..],
            b"\x10a\0\0\0",
            b"\xf0\xff",
            b"\x40abc",
        ] {
            assert!(unpack(&frame(bad), 8).is_err(), "{bad:?}");
        }
    }
}
