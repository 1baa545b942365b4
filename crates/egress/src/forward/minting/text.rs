// SPDX-License-Identifier: Apache-2.0
//! Finds minted values in a text: in JSON and XML by the member or element that holds one and by
//! its shape, in forms and plain text by its shape alone.

use super::Value;
use super::shape::{find_credential, is_credential_byte, is_private_key};
use std::ops::Range;
use torno_policy::placeholder::Placeholder;
use zeroize::Zeroizing;

mod json;
mod xml;

/// Members and elements whose value is a credential whatever it looks like (RFC 6749 §5.1, OpenID
/// Connect Core §3.1.3.3; STS, IAM, Cognito, ECR, CodeArtifact; keys of Google's service accounts);
/// compared without case, `_` and `-`.
const MEMBERS: [&str; 12] = [
    "accesstoken",
    "refreshtoken",
    "idtoken",
    "clientsecret",
    "secretaccesskey",
    "sessiontoken",
    "secretkey",
    "authorizationtoken",
    "webidentitytoken",
    "servicepassword",
    "servicecredentialsecret",
    "privatekeydata",
];
/// Members that hold a credential where it looks like a web token.
const WEB_TOKEN_MEMBERS: [&str; 4] = ["token", "jwt", "assertion", "authtoken"];

/// LIMIT: shorter values can't be searched for.
const VALUE_BYTES_MIN: usize = 12;
/// LIMIT: as long as a value of the vault: longer ones can't be sent. Nor do they come in.
const VALUE_BYTES_MAX: usize = 8192;

/// Content types that are read.
pub(super) fn is_read(content_type: &[u8]) -> bool {
    const TEXTS: [&[u8]; 4] = [
        b"application/x-www-form-urlencoded",
        b"text/plain",
        b"text/xml",
        b"application/xml",
    ];
    let kind = kind(content_type);
    is_json(content_type) || TEXTS.contains(&kind.as_slice()) || kind.ends_with(b"+xml")
}

pub(super) fn is_json(content_type: &[u8]) -> bool {
    const KINDS: [&[u8]; 4] = [
        b"application/json",
        b"text/json",
        b"application/x-amz-json-1.0",
        b"application/x-amz-json-1.1",
    ];
    let kind = kind(content_type);
    // Messages of gRPC are framed, whatever is in them.
    let is_framed = kind.starts_with(b"application/grpc");
    KINDS.contains(&kind.as_slice()) || (kind.ends_with(b"+json") && !is_framed)
}

pub(super) fn is_form(content_type: &[u8]) -> bool {
    kind(content_type) == b"application/x-www-form-urlencoded"
}

/// The type without its parameters, in lower case.
fn kind(content_type: &[u8]) -> Vec<u8> {
    let kind = content_type.split(|b| *b == b';').next();
    let kind = kind.unwrap_or_default().trim_ascii();
    kind.to_ascii_lowercase()
}

/// The values of a JSON text: what its members say, and what looks like one anywhere. Two members
/// of one name both count, and what is no JSON is a text like any other.
pub(super) fn in_json(text: &[u8]) -> Vec<Value> {
    merged(json::in_strings(text), in_words(text))
}

/// The values of any text: what elements say, and words that look like credentials.
pub(super) fn in_text(text: &[u8]) -> Vec<Value> {
    merged(xml::in_elements(text), in_words(text))
}

/// Whether a value can stay in the gate and be sent: a token of usual length.
pub(super) fn can_be_kept(value: &[u8]) -> bool {
    value.len() <= VALUE_BYTES_MAX && value.iter().all(u8::is_ascii_graphic)
}

/// Both lists in the order of their places; where two overlap, those of the first count.
fn merged(first: Vec<Value>, second: Vec<Value>) -> Vec<Value> {
    let mut all = Vec::with_capacity(first.len() + second.len());
    let mut first = first.into_iter().peekable();
    let mut done = 0;
    for value in second {
        while let Some(before) = first.next_if(|one| one.place.start < value.place.end) {
            done = before.place.end;
            all.push(before);
        }
        if done <= value.place.start {
            done = value.place.end;
            all.push(value);
        }
    }
    all.extend(first);
    all
}

fn in_words(text: &[u8]) -> Vec<Value> {
    let mut found = Vec::new();
    for place in words(text) {
        if let Some(value) = text.get(place.clone()).filter(|word| is_value(word)) {
            let value = Zeroizing::new(value.to_vec());
            found.push(Value::plain(place, value));
        }
    }
    if is_private_key(text) {
        let (place, value) = (0..text.len(), Zeroizing::new(text.to_vec()));
        found = vec![Value::plain(place, value)];
    }
    found
}

/// Where words look like credentials.
fn words(text: &[u8]) -> impl Iterator<Item = Range<usize>> {
    let mut start = 0;
    std::iter::from_fn(move || {
        while start < text.len() {
            let rest = text.get(start..).unwrap_or_default();
            let length = rest.iter().take_while(|b| is_credential_byte(**b)).count();
            let (word, end) = (rest.get(..length).unwrap_or_default(), start + length);
            // Behind `\n` of an escape that nobody undid, `n` is none of the word's.
            let escaped = start > 0 && text.get(start - 1) == Some(&b'\\');
            let place = find_credential(word, escaped).map(|at| start + at..end);
            start += length.max(1);
            if place.is_some() {
                return place;
            }
        }
        None
    })
}

/// Whether it can be searched for, and is none of ours. A private key has lines.
pub(super) fn is_value(string: &[u8]) -> bool {
    let is_token = string.iter().all(u8::is_ascii_graphic);
    string.len() >= VALUE_BYTES_MIN
        && (is_token || is_private_key(string))
        && Placeholder::find_all(string).is_empty()
}

fn is_any(names: &[&str], name: &[u8]) -> bool {
    names.iter().any(|known| known.as_bytes() == name)
}

pub(super) fn canonical(name: &[u8]) -> Vec<u8> {
    let plain = name.iter().filter(|b| !matches!(b, b'_' | b'-'));
    plain.map(u8::to_ascii_lowercase).collect()
}

#[cfg(test)]
mod tests;
