// SPDX-License-Identifier: Apache-2.0
//! Signed claims (JWT, RFC 7519) as `Authorization: Bearer …`: the credential is the key that signs
//! them, and what they claim is the binding's. The client chooses nothing of it.

use serde::{Deserialize, Serialize};
use std::fmt;

/// What is claimed, and how it is signed.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Jwt {
    /// How it is signed.
    pub algorithm: Algorithm,
    /// `iss`: the id of an app, the mail address of a service account.
    pub issuer: String,
    /// `sub`, where the far end wants one.
    pub subject: Option<String>,
    /// `aud`, where the far end wants one.
    pub audience: Option<String>,
    /// `kid`: which of the issuer's keys this is.
    pub key_id: Option<String>,
    /// From `iat` to `exp`.
    pub lifetime_seconds: u16,
}

/// How a JWT is signed (RFC 7518 §3.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Algorithm {
    /// HMAC with SHA-256: the credential is a secret that the far end has too.
    HS256,
    /// RSASSA-PKCS1-v1_5 with SHA-256: a private key in PEM, PKCS#8 or PKCS#1.
    RS256,
    /// ECDSA with P-256 and SHA-256: a private key in PEM, PKCS#8 or SEC 1.
    ES256,
}

impl Algorithm {
    /// The word in the header of a JWT.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::HS256 => "HS256",
            Self::RS256 => "RS256",
            Self::ES256 => "ES256",
        }
    }

    /// Whether the credential is a private key: no far end has it.
    #[must_use]
    pub fn has_private_key(self) -> bool {
        match self {
            Self::HS256 => false,
            Self::RS256 | Self::ES256 => true,
        }
    }
}

/// LIMIT: mail addresses and URLs fit; the token stays in a usual head.
const CLAIM_BYTES_MAX: usize = 256;
/// LIMIT: ten minutes, as GitHub has it: who copies one has it for no longer. Under two, each
/// would be used for so short that there would be many of them.
const LIFETIME_SECONDS: std::ops::RangeInclusive<u16> = 120..=600;

impl Jwt {
    /// Whether every claim is one printable text, and the token short-lived.
    pub(in crate::binding) fn is_plain(&self) -> bool {
        let plain = |text: &String| {
            (1..=CLAIM_BYTES_MAX).contains(&text.len())
                && text.bytes().all(|b| (b'!'..0x7f).contains(&b))
        };
        let mut optional = [&self.subject, &self.audience, &self.key_id]
            .into_iter()
            .flatten();
        plain(&self.issuer)
            && optional.all(plain)
            && LIFETIME_SECONDS.contains(&self.lifetime_seconds)
    }
}

/// `RS256`: for the record.
impl fmt::Display for Jwt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.algorithm.name())
    }
}
