// SPDX-License-Identifier: Apache-2.0
//! What credentials of known providers look like.

/// How a kind of credential begins, and how many characters follow at least.
const SHAPES: [(&str, usize); 20] = [
    ("ghp_", 20),
    ("gho_", 20),
    ("ghu_", 20),
    ("ghs_", 20),
    ("ghr_", 20),
    ("github_pat_", 20),
    ("glpat-", 16),
    ("gldt-", 16),
    ("glrt-", 16),
    ("glptt-", 16),
    ("xoxb-", 16),
    ("xoxp-", 16),
    ("xoxe-", 16),
    ("xapp-", 16),
    ("sk-ant-", 16),
    ("npm_", 20),
    ("pypi-", 20),
    ("AKIA", 16),
    ("ASIA", 16),
    ("ya29.", 20),
];

/// Characters that credentials are made of.
pub(super) fn is_credential_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.')
}

/// Whether a word looks like a provider's credential.
pub(super) fn is_credential(word: &[u8]) -> bool {
    let is_shaped = |(front, least): &(&str, usize)| {
        let rest = word.strip_prefix(front.as_bytes());
        rest.is_some_and(|rest| rest.len() >= *least)
    };
    SHAPES.iter().any(is_shaped) && word.iter().all(|b| is_credential_byte(*b))
}

/// Whether a word is a signed JSON web token: three parts, the first two of JSON objects.
pub(super) fn is_web_token(word: &[u8]) -> bool {
    let parts: Vec<&[u8]> = word.split(|b| *b == b'.').collect();
    let [head, claims, signature] = parts.as_slice() else {
        return false;
    };
    [head, claims].iter().all(|part| part.starts_with(b"eyJ"))
        && !signature.is_empty()
        && word.iter().all(|b| is_credential_byte(*b))
}
