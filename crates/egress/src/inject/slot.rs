// SPDX-License-Identifier: Apache-2.0
//! The slot, filled: a field line, or a target with the value in its one place. Each buffer has
//! its exact size from the start and is wiped when it is dropped.

use data_encoding::BASE64;
use torno_policy::binding::Slot;
use torno_policy::names::RequestPath;
use zeroize::Zeroizing;

/// What the head gets from the slot.
pub(super) struct Filled {
    /// The request target.
    pub(super) target: Zeroizing<Vec<u8>>,
    /// A field line, or nothing.
    pub(super) field: Zeroizing<Vec<u8>>,
}

/// The target as it came; nothing when a placeholder stands in it, which goes nowhere.
pub(super) fn unfilled(path: &RequestPath) -> Option<Filled> {
    let plain = path.words() == (0, 0);
    plain.then(|| Filled {
        target: Zeroizing::new(path.to_string().into_bytes()),
        field: Zeroizing::default(),
    })
}

/// The target as it came, beside lines that were made with the value.
pub(super) fn beside(path: &RequestPath, field: Zeroizing<Vec<u8>>) -> Option<Filled> {
    Some(Filled {
        field,
        ..unfilled(path)?
    })
}

/// Puts the value into the slot of a head; nothing when the request has no one place for it. What
/// is filled elsewhere adds nothing here.
pub(super) fn fill(slot: &Slot, path: &RequestPath, value: &[u8]) -> Option<Filled> {
    let field = match slot {
        Slot::Header { name, scheme } => header(name, scheme.as_deref(), value),
        Slot::Basic { user } => basic(user, value),
        Slot::Query { .. } => return target(slot, path, &percent_encoded(value)),
        Slot::Path { .. } => return target(slot, path, value),
        Slot::Form { .. } | Slot::Json { .. } | Slot::Multipart { .. } => Zeroizing::default(),
        Slot::WebsocketJson { .. } => Zeroizing::default(),
        // A password is proved, never written: `password.rs`.
        Slot::Postgres { .. } => return None,
        // No place for a value: it is signed with.
        Slot::Sigv4(_) | Slot::Hmac(_) | Slot::Jwt(_) => return None,
    };
    beside(path, field)
}

fn target(slot: &Slot, path: &RequestPath, value: &[u8]) -> Option<Filled> {
    let around = slot.fill(path)?;
    let size = around.before.len() + value.len() + around.after.len();
    let mut target = Zeroizing::new(Vec::with_capacity(size));
    target.extend_from_slice(around.before.as_bytes());
    target.extend_from_slice(value);
    target.extend_from_slice(around.after.as_bytes());
    Some(Filled {
        target,
        field: Zeroizing::default(),
    })
}

/// Everything but unreserved characters as `%XX`, in upper case.
pub(super) fn percent_encoded(value: &[u8]) -> Zeroizing<Vec<u8>> {
    let mut encoded = Zeroizing::new(Vec::with_capacity(value.len() * 3));
    for byte in value {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(byte) {
            encoded.push(*byte);
        } else {
            encoded.push(b'%');
            encoded.extend([byte >> 4, byte & 15].map(hex_digit));
        }
    }
    encoded
}

pub(super) fn hex_digit(nibble: u8) -> u8 {
    match nibble {
        0..=9 => b'0' + nibble,
        _ => b'A' + nibble - 10,
    }
}

fn header(name: &str, scheme: Option<&str>, value: &[u8]) -> Zeroizing<Vec<u8>> {
    let scheme = scheme.unwrap_or_default();
    let size = name.len() + scheme.len() + value.len() + 8;
    let mut field = Zeroizing::new(Vec::with_capacity(size));
    field.extend_from_slice(name.as_bytes());
    field.extend_from_slice(b": ");
    if !scheme.is_empty() {
        field.extend_from_slice(scheme.as_bytes());
        field.push(b' ');
    }
    field.extend_from_slice(value);
    field.extend_from_slice(b"\r\n");
    field
}

fn basic(user: &str, value: &[u8]) -> Zeroizing<Vec<u8>> {
    let mut pair = Zeroizing::new(Vec::with_capacity(user.len() + 1 + value.len()));
    pair.extend_from_slice(user.as_bytes());
    pair.push(b':');
    pair.extend_from_slice(value);
    let prefix = b"authorization: Basic ";
    let encoded = BASE64.encode_len(pair.len());
    let mut field = Zeroizing::new(Vec::with_capacity(prefix.len() + encoded + 2));
    field.extend_from_slice(prefix);
    field.resize(prefix.len() + encoded, 0);
    if let Some(room) = field.get_mut(prefix.len()..) {
        BASE64.encode_mut(&pair, room);
    }
    field.extend_from_slice(b"\r\n");
    field
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use torno_policy::binding::PathPattern;

    fn sent(slot: &Slot, target: &str, value: &str) -> Option<String> {
        let path = RequestPath::parse_named(target).unwrap();
        let filled = fill(slot, &path, value.as_bytes())?;
        let all = [filled.target.to_vec(), filled.field.to_vec()].concat();
        Some(String::from_utf8(all).unwrap())
    }

    fn key() -> Slot {
        let parameter = "key".to_owned();
        Slot::Query { parameter }
    }

    #[test]
    fn a_target_is_filled_once_or_the_request_stays_here() {
        let out = sent(&key(), "/a?b=1&key={credential}&c=%7B", "x&y=z %").unwrap();
        assert_eq!(out, "/a?b=1&key=x%26y%3Dz%20%25&c=%7B");
        let template = PathPattern::parse("/bot{credential}/**").unwrap();
        let bot = Slot::Path { template };
        let out = sent(&bot, "/bot{credential}/getMe?a", "12:ab").unwrap();
        assert_eq!(out, "/bot12:ab/getMe?a");
        let basic = Slot::Basic {
            user: "u".to_owned(),
        };
        for (slot, target) in [
            (&key(), "/a?b={credential}"),
            (&key(), "/{credential}/a?key={credential}"),
            (&bot, "/bot{credential}/a?b={credential}"),
            (&bot, "/getMe"),
            (&basic, "/a?b={credential}"),
        ] {
            assert_eq!(sent(slot, target, "secret"), None, "{target}");
        }
        assert!(unfilled(&RequestPath::parse_named("/{credential}").unwrap()).is_none());
    }

    proptest! {
        #[test]
        fn what_is_percent_encoded_decodes_to_the_value_and_adds_no_pair(value in "[ -~]{12,40}") {
            let out = sent(&key(), "/a?key={credential}&b=1", &value).unwrap();
            let encoded = out.strip_prefix("/a?key=").unwrap().strip_suffix("&b=1").unwrap();
            let known = |b: u8| b.is_ascii_alphanumeric() || b"-._~%".contains(&b);
            prop_assert!(encoded.bytes().all(known));
            let mut decoded = String::new();
            let mut rest = encoded.chars();
            while let Some(c) = rest.next() {
                if c == '%' {
                    let digits: String = rest.by_ref().take(2).collect();
                    decoded.push(char::from(u8::from_str_radix(&digits, 16).unwrap()));
                } else {
                    decoded.push(c);
                }
            }
            prop_assert_eq!(decoded, value);
        }
    }
}
