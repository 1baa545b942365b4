// SPDX-License-Identifier: Apache-2.0
//! Elements of an XML text that hold a credential by their name, as STS and EC2 answer.

use super::super::shape::is_private_key;
use super::{MEMBERS, Value, canonical, is_any, is_value};
use zeroize::Zeroizing;

/// What the elements of a text mint: those that hold text and no other element.
pub(super) fn in_elements(text: &[u8]) -> Vec<Value> {
    let mut found = Vec::new();
    let mut at = 0;
    // A tag ends before the next one begins, so nothing is looked through twice.
    while let Some((tag, content, next)) = next_tag(text, at) {
        at = next;
        let inside = text.get(content.clone()).unwrap_or_default();
        let value = inside.trim_ascii();
        let front = inside.len() - inside.trim_ascii_start().len();
        if (is_minted(tag) || is_private_key(value)) && is_value(value) {
            let start = content.start + front;
            let place = start..start + value.len();
            let value = Zeroizing::new(value.to_vec());
            found.push(Value::plain(place, value));
        }
    }
    found
}

type Tag<'a> = (&'a [u8], std::ops::Range<usize>, usize);

/// The next tag at or after a place, the text behind it up to another tag, and where to go on.
fn next_tag(text: &[u8], mut from: usize) -> Option<Tag<'_>> {
    loop {
        let open = from + memchr::memchr(b'<', text.get(from..)?)? + 1;
        let close = open + memchr::memchr2(b'<', b'>', text.get(open..)?)?;
        if text.get(close) == Some(&b'<') {
            from = close;
            continue;
        }
        let behind = text.get(close + 1..)?;
        let length = memchr::memchr(b'<', behind).unwrap_or(behind.len());
        let content = close + 1..close + 1 + length;
        return Some((text.get(open..close)?, content.clone(), content.end));
    }
}

/// By the name without its prefix and without attributes.
fn is_minted(tag: &[u8]) -> bool {
    let name = tag
        .split(u8::is_ascii_whitespace)
        .next()
        .unwrap_or_default();
    let local = name.rsplit(|b| *b == b':').next().unwrap_or_default();
    is_any(&MEMBERS, &canonical(local))
}
