// SPDX-License-Identifier: Apache-2.0
use super::*;
use crate::record::samples::{key, other_key};

fn head() -> TreeHead {
    TreeHead {
        size: 42,
        root: Digest::of(b"root"),
    }
}

/// The example of golang.org/x/mod/sumdb/note, from which C2SP signed-note was written.
#[test]
fn key_hash_and_signature_are_those_of_the_signed_note_reference() {
    let text = "If you think cryptography is the answer to your problem,\n\
                then you don't know what your problem is.\n";
    let line = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW";
    let signature = "x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdng\
                     otpRZb6KE6RyyBwJnAM=";
    let bytes = STANDARD.decode(line.rsplit_once('+').unwrap().1).unwrap();
    let public = VerifyingKey::try_from(&bytes[1..]).unwrap();
    assert_eq!(bytes[0], ED25519);
    assert_eq!(key_hash("PeterNeumann", &public), [0xc7, 0x4f, 0x20, 0xa3]);
    let signature = STANDARD.decode(signature).unwrap();
    assert_eq!(signature[..4], [0xc7, 0x4f, 0x20, 0xa3]);
    let signature = Signature::from_slice(&signature[4..]).unwrap();
    public.verify(text.as_bytes(), &signature).unwrap();
}

#[test]
fn a_checkpoint_reads_back_and_its_bytes_are_pinned() {
    let checkpoint = key().sign(head());
    let again = Checkpoint::parse(checkpoint.note(), key().public()).unwrap();
    assert_eq!(again, checkpoint);
    assert_eq!(again.head(), head());
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/checkpoint");
    if std::env::var_os("TORNO_GOLDEN").is_some_and(|how| how == "write") {
        std::fs::write(path, checkpoint.note()).unwrap();
    }
    assert_eq!(std::fs::read_to_string(path).unwrap(), checkpoint.note());
}

#[test]
fn another_key_another_record() {
    let checkpoint = key().sign(head());
    let error = Checkpoint::parse(checkpoint.note(), other_key().public()).unwrap_err();
    assert_eq!(error, CheckpointError::Origin);
    // The same name over another's signature.
    let forged = checkpoint.note().replacen("\n42\n", "\n43\n", 1);
    let error = Checkpoint::parse(&forged, key().public()).unwrap_err();
    assert_eq!(error, CheckpointError::Signature);
}

#[test]
fn no_single_flipped_bit_of_a_checkpoint_counts() {
    let note = key().sign(head()).note().to_owned();
    for at in 0..note.len() {
        for bit in 0..8 {
            let mut bytes = note.clone().into_bytes();
            bytes[at] ^= 1 << bit;
            let counts = String::from_utf8(bytes)
                .is_ok_and(|text| Checkpoint::parse(&text, key().public()).is_ok());
            assert!(!counts, "byte {at} bit {bit}");
        }
    }
}

#[test]
fn other_spellings_of_a_checkpoint_are_refused() {
    let note = key().sign(head()).note().to_owned();
    let spellings = [
        String::new(),
        format!("{note}\n"),
        format!("{note}{note}"),
        format!("\n{note}"),
        note.replace('\n', "\r\n"),
        note.replacen("\n42\n", "\n042\n", 1),
        note.replacen("\n42\n", "\n+42\n", 1),
        note.trim_end().to_owned(),
    ];
    for spelling in spellings {
        let read = Checkpoint::parse(&spelling, key().public());
        assert_eq!(read, Err(CheckpointError::Form), "{spelling:?}");
    }
}

#[test]
fn a_public_key_has_one_line() {
    let line = key().public().to_string();
    assert_eq!(PublicKey::parse(&line).unwrap(), *key().public());
    let refused = [
        String::new(),
        line.to_uppercase(),
        format!("{line}\n"),
        line.replacen("torno-record-", "torno-record_", 1),
        format!("x{line}"),
        format!("{line}="),
    ];
    for text in refused {
        assert_eq!(PublicKey::parse(&text), Err(KeyError), "{text}");
    }
}
