// SPDX-License-Identifier: Apache-2.0
//! Signatures with a shared key (HMAC, RFC 2104): what they cover, and the header fields that go
//! out for them. The gate makes them over what it sends; the client says nothing of it.

use super::recipe::{Part, Recipe};
use serde::{Deserialize, Serialize};
use std::fmt;

/// How requests are signed. The credential is the key alone.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hmac {
    /// With which hash.
    pub hash: Hash,
    /// How the key is kept.
    pub key: KeyForm,
    /// What is signed.
    pub text: Recipe,
    /// The fields that go out; one of them has the signature.
    pub fields: Vec<SignedField>,
}

/// The hash of a signature.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Hash {
    /// SHA-256.
    Sha256,
    /// SHA-512.
    Sha512,
}

/// What the credential's value is of the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeyForm {
    /// Its bytes are the key.
    Text,
    /// It is the key in base64, with padding.
    Base64,
    /// It is the key in hex.
    Hex,
}

/// A header field that is written beside the request.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SignedField {
    /// Lower-case field name.
    pub name: String,
    /// What it says: fixed text, the time, the signature.
    pub value: Recipe,
}

/// LIMIT: an id, a time and a signature, and one more.
const FIELDS_MAX: usize = 4;

impl Hmac {
    /// The field that has the signature: a client's placeholder stands there.
    #[must_use]
    pub fn signature_field(&self) -> Option<&str> {
        let mut fields = self.fields.iter();
        let found = fields.find(|field| tags(&field.value) > 0);
        found.map(|field| field.name.as_str())
    }

    /// Whether it can be made and checked: one signature, over something of the request, with each
    /// time that it covers told beside it.
    pub(in crate::binding) fn is_whole(&self) -> bool {
        let in_fields = |part: &Part| self.fields.iter().any(|field| field.value.has(part));
        let is_told = |part: &Part| !self.text.has(part) || in_fields(part);
        let of_request = |part: &Part| match part {
            Part::Method | Part::Host | Part::Path | Part::Query | Part::Target => true,
            Part::Header(_) | Part::Body | Part::BodySha256 => true,
            Part::Fixed(_) | Part::LineFeed | Part::Seconds | Part::Milliseconds => false,
            Part::Hex | Part::Base64 => false,
        };
        let beside = |part: &Part| match part {
            Part::Fixed(_) | Part::Seconds | Part::Milliseconds | Part::Hex | Part::Base64 => true,
            Part::LineFeed | Part::Method | Part::Host | Part::Path | Part::Query => false,
            Part::Target | Part::Header(_) | Part::Body | Part::BodySha256 => false,
        };
        let all = || self.fields.iter().flat_map(|field| field.value.parts());
        let signatures: usize = self.fields.iter().map(|field| tags(&field.value)).sum();
        let mut names: Vec<_> = self.fields.iter().map(|field| &field.name).collect();
        names.sort();
        names.dedup();
        let covers_itself = |part: &Part| matches!(part, Part::Header(n) if names.contains(&n));
        (1..=FIELDS_MAX).contains(&self.fields.len())
            && names.len() == self.fields.len()
            && signatures == 1
            && all().all(beside)
            && tags(&self.text) == 0
            && self.text.parts().iter().any(of_request)
            && !self.text.parts().iter().any(covers_itself)
            && is_told(&Part::Seconds)
            && is_told(&Part::Milliseconds)
    }
}

fn tags(recipe: &Recipe) -> usize {
    let is_tag = |part: &&Part| matches!(part, Part::Hex | Part::Base64);
    recipe.parts().iter().filter(is_tag).count()
}

/// `x-hub-signature-256`: for the record.
impl fmt::Display for Hmac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.signature_field().unwrap_or_default())
    }
}
