// SPDX-License-Identifier: Apache-2.0
//! What binds a login to its TLS connection: `tls-server-end-point` of RFC 5929 §4.1, the hash of
//! the far end's certificate by the hash of its signature.

use sha2::{Digest, Sha256, Sha384, Sha512};

/// `sha1WithRSAEncryption` and `ecdsa-with-SHA1` count as SHA-256.
const SHA256: [&[u8]; 4] = [
    b"\x2a\x86\x48\x86\xf7\x0d\x01\x01\x0b",
    b"\x2a\x86\x48\xce\x3d\x04\x03\x02",
    b"\x2a\x86\x48\x86\xf7\x0d\x01\x01\x05",
    b"\x2a\x86\x48\xce\x3d\x04\x01",
];
const SHA384: [&[u8]; 2] = [
    b"\x2a\x86\x48\x86\xf7\x0d\x01\x01\x0c",
    b"\x2a\x86\x48\xce\x3d\x04\x03\x03",
];
const SHA512: [&[u8]; 2] = [
    b"\x2a\x86\x48\x86\xf7\x0d\x01\x01\x0d",
    b"\x2a\x86\x48\xce\x3d\x04\x03\x04",
];

/// The hash; nothing for a signature that has none of its own (Ed25519, PSS).
pub(super) fn end_point(certificate: &[u8]) -> Option<Vec<u8>> {
    let algorithm = signature_algorithm(certificate)?;
    if SHA256.contains(&algorithm) {
        Some(Sha256::digest(certificate).to_vec())
    } else if SHA384.contains(&algorithm) {
        Some(Sha384::digest(certificate).to_vec())
    } else if SHA512.contains(&algorithm) {
        Some(Sha512::digest(certificate).to_vec())
    } else {
        None
    }
}

/// `Certificate ::= SEQUENCE { tbsCertificate, signatureAlgorithm SEQUENCE { OID, … }, … }`.
fn signature_algorithm(certificate: &[u8]) -> Option<&[u8]> {
    let (certificate, _) = element(0x30, certificate)?;
    let (_, rest) = element(0x30, certificate)?;
    let (algorithm, _) = element(0x30, rest)?;
    let (name, _) = element(0x06, algorithm)?;
    Some(name)
}

/// The content of an element of DER, and what follows it.
fn element(tag: u8, bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (first, rest) = bytes.split_first()?;
    let (short, rest) = rest.split_first()?;
    let (length, rest) = if *short < 0x80 {
        (usize::from(*short), rest)
    } else {
        // LIMIT: a certificate of 16 MiB; none is accepted by TLS that comes near.
        let count = usize::from(short & 0x7f);
        let (digits, rest) = rest.split_at_checked(count).filter(|_| count <= 3)?;
        let length = digits
            .iter()
            .fold(0, |sum, digit| sum << 8 | usize::from(*digit));
        (length, rest)
    };
    let (content, rest) = rest.split_at_checked(length)?;
    (*first == tag).then_some((content, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_that_of_the_certificates_signature() {
        // rcgen signs with ECDSA and SHA-256.
        let made = rcgen::generate_simple_self_signed(vec!["db.test".to_owned()]).unwrap();
        let certificate = made.cert.der();
        let expected = Sha256::digest(certificate).to_vec();
        assert_eq!(end_point(certificate), Some(expected));
        for cut in 0..40 {
            assert_eq!(end_point(&certificate[..cut]), None, "{cut}");
        }
        assert_eq!(element(0x30, b"\x30\x84\0\0\0\0"), None);
    }
}
