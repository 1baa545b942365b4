// SPDX-License-Identifier: Apache-2.0
//! A body with the value in its one place: the original bytes around it, once through, into one
//! buffer of its exact size that is wiped when it is dropped. What was put in is never looked at
//! again.

use super::slot::percent_encoded;
use crate::normalize::{Place, Spot};
use memchr::memmem;
use torno_policy::binding::{Held, Slot};
use zeroize::Zeroizing;

/// Fills the slot that was read; nothing when it has no one place, or the value can't stand there.
pub(super) fn fill(spot: &Spot, body: &[u8], value: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
    let place = match spot.found.held {
        Held::Nothing | Held::Placeholder | Held::Own => spot.found.place.as_ref()?,
        Held::Twice | Held::Nowhere => return None,
    };
    match &spot.slot {
        Slot::Form { .. } => around(place, body, &percent_encoded(value)),
        Slot::Json { .. } | Slot::WebsocketJson { .. } => around(place, body, &json_escaped(value)),
        Slot::Multipart { .. } if is_content(body, value) => around(place, body, value),
        Slot::Multipart { .. } => None,
        Slot::Header { .. } | Slot::Basic { .. } | Slot::Query { .. } | Slot::Path { .. } => None,
        Slot::Postgres { .. } | Slot::Sigv4(_) | Slot::Hmac(_) | Slot::Jwt(_) => None,
    }
}

/// The value between what stood around its place.
pub(super) fn around(place: &Place, body: &[u8], value: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
    let parts = [
        body.get(..place.cut.start)?,
        place.before.as_bytes(),
        value,
        place.after.as_bytes(),
        body.get(place.cut.end..)?,
    ];
    let size = parts.iter().map(|part| part.len()).sum();
    let mut filled = Zeroizing::new(Vec::with_capacity(size));
    parts.iter().for_each(|part| filled.extend_from_slice(part));
    Some(filled)
}

/// A value as it stands in a text of JSON; it has no control characters.
pub(super) fn json_escaped(value: &[u8]) -> Zeroizing<Vec<u8>> {
    let mut escaped = Zeroizing::new(Vec::with_capacity(value.len() * 2));
    for byte in value {
        if matches!(byte, b'"' | b'\\') {
            escaped.push(b'\\');
        }
        escaped.push(*byte);
    }
    escaped
}

/// Whether a value ends no part: it has no line end, and no delimiter of this body. The body begins
/// with one.
fn is_content(body: &[u8], value: &[u8]) -> bool {
    let line = memmem::find(body, b"\r\n").and_then(|end| body.get(..end));
    let has = |text: &[u8]| memmem::find(value, text).is_some();
    line.is_some_and(|delimiter| !has(delimiter.trim_ascii_end())) && !has(b"\r") && !has(b"\n")
}

#[cfg(test)]
mod tests;
