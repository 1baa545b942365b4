// SPDX-License-Identifier: Apache-2.0
//! Finds minted values in a text: in JSON by the member that holds one and by its shape, in forms
//! and plain text by its shape alone.

use super::Value;
use super::shape::{is_credential, is_credential_byte, is_web_token};
use std::ops::Range;
use torno_policy::placeholder::Placeholder;
use zeroize::Zeroizing;

/// Members whose value is a credential whatever it looks like (RFC 6749 §5.1, OpenID Connect Core
/// §3.1.3.3, AWS STS); compared without case, `_` and `-`.
const MEMBERS: [&str; 6] = [
    "accesstoken",
    "refreshtoken",
    "idtoken",
    "clientsecret",
    "secretaccesskey",
    "sessiontoken",
];
/// Members that hold a credential where it looks like a web token.
const WEB_TOKEN_MEMBERS: [&str; 4] = ["token", "jwt", "assertion", "authtoken"];

/// LIMIT: as long as a value of the vault: shorter ones can't be searched for, longer ones sent.
const VALUE_BYTES: std::ops::RangeInclusive<usize> = 12..=8192;

/// Content types that are read.
pub(super) fn is_read(content_type: &[u8]) -> bool {
    is_json(content_type)
        || [&b"application/x-www-form-urlencoded"[..], b"text/plain"].contains(&kind(content_type))
}

pub(super) fn is_json(content_type: &[u8]) -> bool {
    let kind = kind(content_type).to_ascii_lowercase();
    // Messages of gRPC are framed, whatever is in them.
    let is_framed = kind.starts_with(b"application/grpc");
    kind == b"application/json" || (kind.ends_with(b"+json") && !is_framed)
}

pub(super) fn is_form(content_type: &[u8]) -> bool {
    let kind = kind(content_type).to_ascii_lowercase();
    kind == b"application/x-www-form-urlencoded"
}

/// The type without its parameters.
fn kind(content_type: &[u8]) -> &[u8] {
    let kind = content_type.split(|b| *b == b';').next();
    kind.unwrap_or_default().trim_ascii()
}

/// The values of a JSON text: what its members say, and what looks like one anywhere. Two members
/// of one name both count, and what is no JSON is a text like any other.
pub(super) fn in_json(text: &[u8]) -> Vec<Value> {
    let mut found = in_members(text);
    let overlaps = |found: &[Value], place: &Range<usize>| {
        let mut known = found.iter().map(|value| &value.place);
        known.any(|known| known.start < place.end && place.start < known.end)
    };
    for value in in_text(text) {
        if !overlaps(&found, &value.place) {
            found.push(value);
        }
    }
    found.sort_by_key(|value| value.place.start);
    found
}

fn in_members(text: &[u8]) -> Vec<Value> {
    let mut found = Vec::new();
    let (mut at, mut member) = (0, None);
    while let Some(place) = next_string(text, at) {
        at = place.end + 1;
        let rest = text.get(at..).unwrap_or_default().trim_ascii_start();
        let string = unescaped(text.get(place.clone()).unwrap_or_default());
        if rest.starts_with(b":") {
            member = Some(canonical(&string));
            continue;
        }
        let name = member.take();
        let is_refresh = name.as_deref() == Some(b"refreshtoken");
        let is_member = name.is_some_and(|name| {
            let is = |names: &[&str]| names.iter().any(|known| known.as_bytes() == name);
            is(&MEMBERS) || (is(&WEB_TOKEN_MEMBERS) && is_web_token(&string))
        });
        if (is_member || is_credential(&string)) && is_value(&string) {
            let value = string;
            found.push(Value {
                place,
                value,
                is_refresh,
            });
        }
    }
    found
}

/// Whether it can be searched for and sent, and is none of ours.
pub(super) fn is_value(string: &[u8]) -> bool {
    VALUE_BYTES.contains(&string.len())
        && string.iter().all(u8::is_ascii_graphic)
        && Placeholder::find_all(string).is_empty()
}

/// The inside of the next string at or after a place.
fn next_string(text: &[u8], from: usize) -> Option<Range<usize>> {
    let start = from + memchr::memchr(b'"', text.get(from..)?)? + 1;
    let mut end = start;
    loop {
        match text.get(end)? {
            b'"' => return Some(start..end),
            b'\\' => end += 2,
            _ => end += 1,
        }
    }
}

/// A string of a well-formed JSON text without its escapes.
fn unescaped(inside: &[u8]) -> Zeroizing<Vec<u8>> {
    if !inside.contains(&b'\\') {
        return Zeroizing::new(inside.to_vec());
    }
    let mut quoted = Zeroizing::new(Vec::with_capacity(inside.len() + 2));
    quoted.push(b'"');
    quoted.extend_from_slice(inside);
    quoted.push(b'"');
    let read: Result<String, _> = serde_json::from_slice(&quoted);
    Zeroizing::new(read.map(String::into_bytes).unwrap_or_default())
}

pub(super) fn canonical(name: &[u8]) -> Vec<u8> {
    let plain = name.iter().filter(|b| !matches!(b, b'_' | b'-'));
    plain.map(u8::to_ascii_lowercase).collect()
}

/// The values of any text: words that look like credentials.
pub(super) fn in_text(text: &[u8]) -> Vec<Value> {
    let mut found = Vec::new();
    let mut start = 0;
    while start < text.len() {
        let rest = text.get(start..).unwrap_or_default();
        let length = rest.iter().take_while(|b| is_credential_byte(**b)).count();
        let word = rest.get(..length).unwrap_or_default();
        if is_credential(word) && is_value(word) {
            found.push(Value {
                place: start..start + length,
                value: Zeroizing::new(word.to_vec()),
                is_refresh: false,
            });
        }
        start += length.max(1);
    }
    found
}

#[cfg(test)]
mod tests;
