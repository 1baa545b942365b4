// SPDX-License-Identifier: Apache-2.0
//! What credentials of known providers look like.

/// How a kind of credential begins, and how many characters follow at least.
const SHAPES: [(&str, usize); 43] = [
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
    ("xoxe.xoxp-", 16),
    ("xoxe.xoxb-", 16),
    ("xoxa-", 16),
    ("xoxr-", 16),
    ("xoxs-", 16),
    ("gloas-", 16),
    ("glsoat-", 16),
    ("glcbt-", 16),
    ("glft-", 16),
    ("glimt-", 16),
    ("glagent-", 16),
    ("glffct-", 16),
    ("sk-proj-", 16),
    ("sk-svcacct-", 16),
    ("sk-admin-", 16),
    ("sk-or-v1-", 16),
    ("ek_", 20),
    ("sk_live_", 16),
    ("sk_test_", 16),
    ("rk_live_", 16),
    ("rk_test_", 16),
    ("whsec_", 16),
    ("GOCSPX-", 16),
];

/// Characters that credentials are made of.
pub(super) fn is_credential_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.')
}

/// Where in a word a provider's credential begins: at its start, or behind a full stop. `escaped`
/// says that a backslash stands before the word, whose first characters are the escape's then.
pub(super) fn find_credential(word: &[u8], escaped: bool) -> Option<usize> {
    let is_shaped = |at: &usize| {
        let rest = word.get(*at..).unwrap_or_default();
        SHAPES.iter().any(|(front, least)| {
            let behind = rest.strip_prefix(front.as_bytes());
            behind.is_some_and(|behind| behind.len() >= *least)
        })
    };
    let escapes = [1, 5].into_iter().filter(|_| escaped);
    let stops = memchr::memchr_iter(b'.', word).map(|at| at + 1);
    std::iter::once(0)
        .chain(escapes)
        .chain(stops)
        .find(is_shaped)
}

/// Whether a text is a private key as PEM writes it, or as EC2 does.
pub(super) fn is_private_key(text: &[u8]) -> bool {
    let text = text.trim_ascii_start();
    let first = text.split(|b| *b == b'\n').next().unwrap_or_default();
    let starts = text.starts_with(b"-----BEGIN ") || text.starts_with(b"---- BEGIN ");
    starts && memchr::memmem::find(first, b"PRIVATE KEY").is_some()
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
