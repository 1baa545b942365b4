// SPDX-License-Identifier: Apache-2.0
//! The strings of a JSON text, without their escapes and with the place that each byte came from.

use super::super::shape::{is_private_key, is_web_token};
use super::{
    MEMBERS, VALUE_BYTES_MIN, Value, WEB_TOKEN_MEMBERS, canonical, is_any, is_value, words,
};
use std::ops::Range;
use zeroize::Zeroizing;

/// What the strings of a text mint, in the order of their places.
pub(super) fn in_strings(text: &[u8]) -> Vec<Value> {
    let mut found = Vec::new();
    let (mut at, mut member) = (0, None);
    while let Some(place) = next_string(text, at) {
        at = place.end + 1;
        let rest = text.get(at..).unwrap_or_default().trim_ascii_start();
        let string = Unescaped::read(text, place.clone());
        let is_name = rest.starts_with(b":");
        let named: Option<Vec<u8>> = member.take().filter(|_| !is_name);
        let is_refresh = named.as_deref() == Some(b"refreshtoken");
        let is_minted = named.is_some_and(|name| {
            is_any(&MEMBERS, &name)
                || (is_any(&WEB_TOKEN_MEMBERS, &name) && is_web_token(&string.bytes))
        });
        if is_name {
            member = Some(canonical(&string.bytes));
        }
        if (is_minted || is_private_key(&string.bytes)) && is_value(&string.bytes) {
            let value = string.bytes;
            found.push(Value {
                place,
                value,
                is_refresh,
            });
        } else if string.bytes.len() >= VALUE_BYTES_MIN {
            string.words_into(&mut found);
        }
    }
    found
}

/// The inside of the next string at or after a place. One that has no end goes to the text's.
fn next_string(text: &[u8], from: usize) -> Option<Range<usize>> {
    let start = from + memchr::memchr(b'"', text.get(from..)?)? + 1;
    let mut end = start;
    loop {
        match text.get(end) {
            Some(b'"') => return Some(start..end),
            Some(b'\\') => end += 2,
            Some(_) => end += 1,
            None => return Some(start..text.len()),
        }
    }
}

/// A string without its escapes. What is no escape of JSON stays as it is.
struct Unescaped {
    bytes: Zeroizing<Vec<u8>>,
    /// Where each byte's source begins, and where the last one's ends. None: they are the source.
    places: Option<Vec<usize>>,
    start: usize,
}

impl Unescaped {
    fn read(text: &[u8], place: Range<usize>) -> Self {
        let inside = text.get(place.clone()).unwrap_or_default();
        let start = place.start;
        if memchr::memchr(b'\\', inside).is_none() {
            let bytes = Zeroizing::new(inside.to_vec());
            return Self {
                bytes,
                places: None,
                start,
            };
        }
        let mut bytes = Zeroizing::new(Vec::with_capacity(inside.len()));
        let mut places = Vec::with_capacity(inside.len() + 1);
        let mut at = 0;
        while let Some(byte) = inside.get(at) {
            let rest = inside.get(at..).unwrap_or_default();
            let (plain, mut utf8) = ([*byte], [0; 4]);
            let (written, length) = match escape(rest) {
                Some((character, length)) => {
                    let written: &[u8] = character.encode_utf8(&mut utf8).as_bytes();
                    (written, length)
                }
                None => (&plain[..], 1),
            };
            bytes.extend_from_slice(written);
            places.extend(written.iter().map(|_| start + at));
            at += length;
        }
        places.push(start + at);
        Self {
            bytes,
            places: Some(places),
            start,
        }
    }

    fn words_into(&self, found: &mut Vec<Value>) {
        for word in words(&self.bytes) {
            let value = self.bytes.get(word.clone()).unwrap_or_default();
            if is_value(value) {
                let place = self.place(word.start)..self.place(word.end);
                let value = Zeroizing::new(value.to_vec());
                found.push(Value::plain(place, value));
            }
        }
    }

    fn place(&self, at: usize) -> usize {
        match &self.places {
            None => self.start + at,
            Some(places) => places.get(at).copied().unwrap_or(self.start),
        }
    }
}

/// The character that an escape at the start of a text stands for, and the escape's length. Halves
/// of a pair are no character of a credential.
fn escape(text: &[u8]) -> Option<(char, usize)> {
    let [b'\\', kind, rest @ ..] = text else {
        return None;
    };
    let written = match kind {
        b'b' => '\u{8}',
        b'f' => '\u{c}',
        b'n' => '\n',
        b'r' => '\r',
        b't' => '\t',
        b'u' => {
            let digits = std::str::from_utf8(rest.get(..4)?).ok()?;
            let code = u32::from_str_radix(digits, 16).ok()?;
            return Some((char::from_u32(code).unwrap_or('\u{fffd}'), 6));
        }
        b'"' | b'\\' | b'/' => char::from(*kind),
        _ => return None,
    };
    Some((written, 2))
}
