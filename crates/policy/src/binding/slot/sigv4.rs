// SPDX-License-Identifier: Apache-2.0
//! Signatures of AWS (Signature Version 4): what a signature is made for, and what in a target
//! would be a signature of the client's own.

use super::{Held, query};
use serde::{Deserialize, Serialize};
use std::fmt;

/// What requests are signed for. The credential is the secret access key alone; the id beside it
/// is told to the far end in each request and is no secret.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sigv4 {
    /// The id of the access key.
    pub key_id: String,
    /// The region, as in `eu-central-1`.
    pub region: String,
    /// The service by its signing name, as in `s3`.
    pub service: String,
}

/// LIMIT: ids of AWS have 16 to 128 characters; stores that speak the same give shorter ones.
const KEY_ID_BYTES: std::ops::RangeInclusive<usize> = 3..=128;
/// LIMIT: the longest region and signing name that are known have about 25 characters.
const SCOPE_BYTES_MAX: usize = 64;

impl Sigv4 {
    /// Whether the id is one of a lasting access key. A temporary one (`ASIA…`) has a session
    /// token beside it, which is a second secret and has no place here.
    pub(in crate::binding) fn has_lasting_key(&self) -> bool {
        let known = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_');
        let id = &self.key_id;
        KEY_ID_BYTES.contains(&id.len()) && id.bytes().all(known) && !id.starts_with("ASIA")
    }

    /// Whether region and service are written as they stand in a signature.
    pub(in crate::binding) fn has_plain_scope(&self) -> bool {
        let known = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
        let plain =
            |word: &String| (1..=SCOPE_BYTES_MAX).contains(&word.len()) && word.bytes().all(known);
        plain(&self.region) && plain(&self.service)
    }

    /// Whether the service hands out credentials or authority, by actions that only the body names.
    #[must_use]
    pub fn makes_credentials(&self) -> bool {
        matches!(
            self.service.as_str(),
            "sts" | "iam" | "sso" | "cognito-identity" | "organizations"
        )
    }

    /// Whether the service takes a path as it is sent; all others encode it once more before they
    /// compare signatures.
    #[must_use]
    pub fn is_s3(&self) -> bool {
        matches!(
            self.service.as_str(),
            "s3" | "s3-outposts" | "s3-object-lambda"
        )
    }
}

/// What a client has in the target: a presigned URL is a credential of its own, whoever's key made
/// it.
// ATTACK: 083
pub(super) fn held(query: Option<&str>) -> Option<Held> {
    let is_own = |name: Vec<u8>| {
        name.starts_with(b"x_amz_") || matches!(name.as_slice(), b"awsaccesskeyid" | b"signature")
    };
    query::names(query.unwrap_or_default())
        .any(is_own)
        .then_some(Held::Own)
}

/// `eu-central-1/s3`: the id stays out of the record's short form.
impl fmt::Display for Sigv4 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.region, self.service)
    }
}
