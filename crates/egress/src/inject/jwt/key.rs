// SPDX-License-Identifier: Apache-2.0
//! A private key in PEM (RFC 7468), read strictly: one block, nothing around it, no headers, so no
//! encryption. Everything of it lives in buffers that are wiped.

use crate::inject::hmac::decoded;
use aws_lc_rs::rsa::KeyPair as RsaKeyPair;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair};
use data_encoding::BASE64;
use zeroize::Zeroizing;

/// RSA of 2048 bits or more, in PKCS#8 or PKCS#1.
pub(super) fn rsa(pem: &[u8]) -> Option<RsaKeyPair> {
    let (label, der) = block(pem)?;
    match label {
        Label::Pkcs8 => RsaKeyPair::from_pkcs8(&der).ok(),
        Label::Rsa => RsaKeyPair::from_der(&der).ok(),
        Label::Ec => None,
    }
}

/// P-256, in PKCS#8 or SEC 1.
pub(super) fn p256(pem: &[u8]) -> Option<EcdsaKeyPair> {
    let (label, der) = block(pem)?;
    let algorithm = &ECDSA_P256_SHA256_FIXED_SIGNING;
    match label {
        Label::Pkcs8 => EcdsaKeyPair::from_pkcs8(algorithm, &der).ok(),
        Label::Ec => EcdsaKeyPair::from_private_key_der(algorithm, &der).ok(),
        Label::Rsa => None,
    }
}

/// What a block holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Label {
    Pkcs8,
    Rsa,
    Ec,
}

const LABELS: [(Label, &str); 3] = [
    (Label::Pkcs8, "PRIVATE KEY"),
    (Label::Rsa, "RSA PRIVATE KEY"),
    (Label::Ec, "EC PRIVATE KEY"),
];

/// The one block of a text.
pub(super) fn block(pem: &[u8]) -> Option<(Label, Zeroizing<Vec<u8>>)> {
    let text = std::str::from_utf8(pem).ok()?.trim_ascii();
    let inside = text.strip_prefix("-----BEGIN ")?;
    let (name, inside) = inside.split_once("-----")?;
    let (label, name) = LABELS.iter().find(|(_, known)| *known == name)?;
    let inside = inside.strip_suffix(&format!("-----END {name}-----"))?;
    let mut joined = Zeroizing::new(Vec::with_capacity(inside.len()));
    for line in inside.lines() {
        joined.extend_from_slice(line.as_bytes());
    }
    let der = decoded(&BASE64, &joined)?;
    (!der.is_empty()).then_some((*label, der))
}
