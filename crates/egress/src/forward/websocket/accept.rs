// SPDX-License-Identifier: Apache-2.0
//! `Sec-WebSocket-Accept` (RFC 6455 §4.2.2): shows that the far end read the handshake as one. It
//! asks for SHA-1, as a checksum: no security rests on it, and nothing else here uses it.

use data_encoding::BASE64;

/// RFC 6455 §1.3.
const GUID: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// What the far end must answer to this key.
pub(super) fn accept(key: &str) -> String {
    BASE64.encode(&sha1(format!("{key}{GUID}").as_bytes()))
}

/// RFC 3174.
fn sha1(message: &[u8]) -> [u8; 20] {
    let mut state = [
        0x6745_2301_u32,
        0xEFCD_AB89,
        0x98BA_DCFE,
        0x1032_5476,
        0xC3D2_E1F0,
    ];
    let bits = u64::try_from(message.len()).unwrap_or(0).wrapping_mul(8);
    let mut padded = message.to_vec();
    padded.push(0x80);
    padded.resize(padded.len().next_multiple_of(64), 0);
    if message.len() % 64 > 55 {
        padded.resize(padded.len() + 64, 0);
    }
    let end = padded.len().saturating_sub(8);
    padded.truncate(end);
    padded.extend_from_slice(&bits.to_be_bytes());
    for block in padded.chunks_exact(64) {
        let (words, _) = block.as_chunks::<4>();
        let mut schedule: Vec<u32> = words.iter().map(|w| u32::from_be_bytes(*w)).collect();
        while schedule.len() < 80 {
            let back = |by: usize| schedule.iter().rev().nth(by - 1).copied().unwrap_or(0);
            schedule.push((back(3) ^ back(8) ^ back(14) ^ back(16)).rotate_left(1));
        }
        let after = schedule.iter().enumerate().fold(state, round);
        for (word, more) in state.iter_mut().zip(after) {
            *word = word.wrapping_add(more);
        }
    }
    let mut digest = [0; 20];
    for (bytes, word) in digest.chunks_exact_mut(4).zip(state) {
        bytes.copy_from_slice(&word.to_be_bytes());
    }
    digest
}

fn round([a, b, c, d, e]: [u32; 5], (at, word): (usize, &u32)) -> [u32; 5] {
    let (mix, constant) = match at {
        0..20 => ((b & c) | (!b & d), 0x5A82_7999),
        20..40 => (b ^ c ^ d, 0x6ED9_EBA1),
        40..60 => ((b & c) | (b & d) | (c & d), 0x8F1B_BCDC),
        _ => (b ^ c ^ d, 0xCA62_C1D6_u32),
    };
    let first = a
        .rotate_left(5)
        .wrapping_add(mix)
        .wrapping_add(e)
        .wrapping_add(*word)
        .wrapping_add(constant);
    [first, a, b.rotate_left(30), c, d]
}

#[cfg(test)]
mod tests {
    use super::*;
    use data_encoding::HEXLOWER;

    #[test]
    fn the_checksum_is_the_one_of_the_standards() {
        // RFC 3174 §7.3, FIPS 180 and RFC 6455 §1.3.
        let hex = |text: &str| HEXLOWER.encode(&sha1(text.as_bytes()));
        assert_eq!(hex("abc"), "a9993e364706816aba3e25717850c26c9cd0d89d");
        assert_eq!(hex(""), "da39a3ee5e6b4b0d3255bfef95601890afd80709");
        assert_eq!(
            hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "84983e441c3bd26ebaae4aa1f95129e5e54670f1"
        );
        let million = "a".repeat(1_000_000);
        assert_eq!(hex(&million), "34aa973cd4c4daa4f61eeb2bdbad27316534016f");
        assert_eq!(
            accept("dGhlIHNhbXBsZSBub25jZQ=="),
            "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
        );
    }
}
