// SPDX-License-Identifier: Apache-2.0

use super::*;
use sha2::{Digest, Sha256};
use torno_vault::Rolling;

const VALUE: &[u8] = b"ghp_CANARYcanary0123456789ABCDEF";

fn fingerprint(value: &[u8]) -> Fingerprint {
    let base = (1 << 59) | 12_345;
    let salt = [3; 16];
    Fingerprint {
        credential: "github".to_owned(),
        length: u32::try_from(value.len()).unwrap(),
        rolling: Rolling::of(base, value.first_chunk().unwrap()),
        base,
        salt,
        digest: Sha256::new()
            .chain_update(salt)
            .chain_update(value)
            .finalize()
            .into(),
    }
}

fn search() -> StreamSearch {
    StreamSearch::new(vec![
        fingerprint(VALUE),
        fingerprint(b"another-value-0123456789"),
    ])
}

/// What passed in all, and whether a value was found.
fn pass(pieces: &[&[u8]]) -> (Vec<u8>, bool) {
    let mut search = search();
    let mut passed = Vec::new();
    for piece in pieces {
        match search.push(piece.to_vec()) {
            Ok(bytes) => passed.extend(bytes),
            Err(credential) => {
                assert_eq!(credential, "github");
                return (passed, true);
            }
        }
    }
    passed.extend(search.finish());
    (passed, false)
}

#[test]
fn a_value_is_found_however_it_is_cut_and_less_than_a_window_of_it_passes() {
    let stream = [b"before ".as_slice(), VALUE, b" after"].concat();
    for first in 0..stream.len() {
        for second in first..stream.len() {
            let pieces = [&stream[..first], &stream[first..second], &stream[second..]];
            let (passed, found) = pass(&pieces);
            assert!(found, "cut at {first} and {second}");
            assert!(passed.len() < 7 + FINGERPRINT_WINDOW);
            assert!(stream.starts_with(&passed));
        }
    }
    let single: Vec<&[u8]> = stream.chunks(1).collect();
    let (passed, found) = pass(&single);
    assert!(found && passed.len() == 7 + FINGERPRINT_WINDOW - 1);
}

#[test]
fn what_only_begins_like_a_value_passes_whole_and_in_order() {
    let stream = [&VALUE[..20], b" and ", &VALUE[..30], b"x", &VALUE[..13]].concat();
    for size in 1..stream.len() {
        let pieces: Vec<&[u8]> = stream.chunks(size).collect();
        assert_eq!(pass(&pieces), (stream.clone(), false), "pieces of {size}");
    }
}

#[test]
fn a_line_is_not_held_for_the_next_one() {
    let mut search = search();
    for line in ["{\"id\":1}\n", "y\n", "ghp_\n"] {
        assert_eq!(
            search.push(line.as_bytes().to_vec()).unwrap(),
            line.as_bytes()
        );
    }
}

#[test]
fn without_values_everything_passes_at_once() {
    let mut search = StreamSearch::new(Vec::new());
    assert_eq!(search.push(VALUE.to_vec()).unwrap(), VALUE);
}
