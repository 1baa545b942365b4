// SPDX-License-Identifier: Apache-2.0

use super::*;
use data_encoding::HEXLOWER;
use proptest::prelude::*;
use std::io::Write;

type Pack = fn(&[u8]) -> Vec<u8>;
type Coding = (&'static str, Pack, fn() -> Unpack);

/// Each coding: how a far end packs, and how it is undone here.
const CODINGS: [Coding; 3] = [
    ("gzip", gzip, Unpack::gzip),
    ("br", brotli, Unpack::brotli),
    ("zstd", zstd, Unpack::zstd),
];

fn gzip(text: &[u8]) -> Vec<u8> {
    let best = flate2::Compression::best();
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), best);
    packed.write_all(text).unwrap();
    packed.finish().unwrap()
}

/// Brotli (RFC 7932 §9.2) of stored meta-blocks, which any text can be.
pub(crate) fn brotli(text: &[u8]) -> Vec<u8> {
    let mut packed = Vec::new();
    // One bit for a window of 64 KiB stands before the first head.
    let mut shift = 1;
    for block in text.chunks(1 << 16) {
        // Not the last, four nibbles of length, stored; then up to the next byte.
        let length = u32::try_from(block.len() - 1).unwrap();
        let head = (length << 3 | 1 << 19) << shift;
        packed.extend_from_slice(&head.to_le_bytes()[..3]);
        packed.extend_from_slice(block);
        shift = 0;
    }
    // The last, and empty.
    packed.push(0b11 << shift);
    packed
}

pub(crate) fn zstd(text: &[u8]) -> Vec<u8> {
    let level = ruzstd::encoding::CompressionLevel::Fastest;
    ruzstd::encoding::compress_to_vec(text, level)
}

/// 16 MiB of zeros, as each coding packs them.
pub(crate) fn bombs() -> [(&'static str, Vec<u8>); 3] {
    let zeros = vec![0; 16 << 20];
    // As node's zlib packs them.
    let brotli = HEXLOWER.decode(b"cbffff3f002400e2b14072effff2ffff0f8004401c1680eefd1f");
    [
        ("gzip", gzip(&zeros)),
        ("br", brotli.unwrap()),
        ("zstd", zstd(&zeros)),
    ]
}

/// What comes out of pieces of this size, and whether the body was whole.
fn unpacked(mut unpack: Unpack, packed: &[u8], size: usize) -> Result<Vec<u8>, Fault> {
    let mut out = Vec::new();
    for piece in packed.chunks(size.max(1)) {
        unpack.push(piece, |bytes| out.extend_from_slice(bytes))?;
    }
    unpack.finish(|bytes| out.extend_from_slice(bytes))?;
    Ok(out)
}

/// Text that packs well, and is longer than a window of the search.
fn long() -> Vec<u8> {
    let line = |n: u32| format!("line {n} of a text that repeats itself\n");
    (0..20_000).map(line).collect::<String>().into_bytes()
}

#[test]
fn each_coding_is_unpacked_whole_however_it_is_cut() {
    for text in [&b""[..], b"hello ", &long()] {
        for (name, pack, unpack) in CODINGS {
            let packed = pack(text);
            for size in [1, 7, 4096, usize::MAX] {
                let out = unpacked(unpack(), &packed, size).unwrap();
                assert!(
                    out == text,
                    "{name} in pieces of {size}: {} bytes",
                    out.len()
                );
            }
        }
    }
}

#[test]
fn a_body_that_ends_early_or_goes_on_is_refused() {
    for (name, pack, unpack) in CODINGS {
        let packed = pack(b"a text that is cut off before its end");
        for end in 1..packed.len() {
            assert!(
                unpacked(unpack(), &packed[..end], 5).is_err(),
                "{name} at {end}"
            );
        }
        let behind = [packed.as_slice(), b"more"].concat();
        assert!(unpacked(unpack(), &behind, 5).is_err(), "{name} goes on");
        // No byte at all is no body: some servers say a coding and send none.
        assert_eq!(unpacked(unpack(), b"", 5).unwrap(), b"", "{name}");
    }
}

#[test]
fn a_bomb_of_each_coding_is_stopped_early() {
    // ATTACK: 172
    for ((name, bomb), (_, _, unpack)) in bombs().into_iter().zip(CODINGS) {
        let mut seen = 0;
        let pushed = unpack().push(&bomb, |bytes| seen += bytes.len());
        assert!(pushed.is_err() && seen < 10 << 20, "{name}: {seen} bytes");
    }
}

#[test]
fn brotli_of_another_encoder_is_unpacked() {
    let packed = b"1b6e0000041c729ed059db0a2ca805a94519cc24670936eb074d1100934623";
    let packed = HEXLOWER.decode(packed).unwrap();
    let text = "a text that is a text that is packed\n".repeat(3);
    for size in [1, 5, 100] {
        let out = unpacked(Unpack::brotli(), &packed, size).unwrap();
        assert_eq!(out, text.as_bytes());
    }
}

#[test]
fn a_zstd_frame_of_many_blocks_from_few_bytes_is_stopped_early() {
    // A window of 1 KiB, then blocks of 4 bytes that each stand for 1 KiB of one letter.
    let mut bomb = vec![0x28, 0xb5, 0x2f, 0xfd, 0, 0];
    for _ in 0..100_000 {
        bomb.extend([0b10, 1024_u16.to_le_bytes()[1] << 3, 0, b'a']);
    }
    let mut seen = 0;
    let pushed = Unpack::zstd().push(&bomb, |bytes| seen += bytes.len());
    assert!(pushed.is_err() && seen < 10 << 20, "{seen} bytes");
}

#[test]
fn zstd_frames_stand_one_behind_the_other_and_need_what_anybody_has() {
    let two = [zstd(b"one, "), zstd(b"two")].concat();
    assert_eq!(unpacked(Unpack::zstd(), &two, 3).unwrap(), b"one, two");
    let magic = [0x28, 0xb5, 0x2f, 0xfd];
    for head in [
        // Windows of 16 MiB and of 7 TiB; one segment of 9 MiB.
        &[0, 14 << 3][..],
        &[0, 0xff],
        &[0xa0, 0, 0, 0x90, 0],
        // A dictionary, a reserved bit.
        &[0b01, 0, 1],
        &[0b1000, 0],
    ] {
        let frame = [&magic, head, b"\x01\0\0"].concat();
        assert!(unpacked(Unpack::zstd(), &frame, 64).is_err(), "{head:?}");
    }
    // The same without any of that is an empty text.
    let empty = [&magic[..], &[0, 0], b"\x01\0\0"].concat();
    assert_eq!(unpacked(Unpack::zstd(), &empty, 64).unwrap(), b"");
    let skippable = [0x50, 0x2a, 0x4d, 0x18, 0, 0, 0, 0];
    assert!(unpacked(Unpack::zstd(), &skippable, 64).is_err());
}

#[test]
fn a_changed_byte_of_a_zstd_text_is_seen_by_its_checksum() {
    let packed = zstd(b"a text of which a letter is another");
    // The encoder stores so short a text as it is.
    let at = memchr::memmem::find(&packed, b"letter").unwrap();
    let mut changed = packed;
    changed[at] = b'b';
    assert!(unpacked(Unpack::zstd(), &changed, 64).is_err());
}

proptest! {
    #[test]
    fn no_bytes_are_unpacked_two_ways(
        bytes in prop::collection::vec(any::<u8>(), 0..200),
        text in "[a-c]{0,200}",
        flip in 0..400_usize,
        size in 1..20_usize,
    ) {
        for (_, pack, unpack) in CODINGS {
            let mut damaged = pack(text.as_bytes());
            if let Some(byte) = damaged.get_mut(flip) {
                *byte ^= 0x10;
            }
            for packed in [&bytes, &damaged] {
                let whole = unpacked(unpack(), packed, usize::MAX).ok();
                prop_assert_eq!(unpacked(unpack(), packed, size).ok(), whole);
            }
        }
    }
}
