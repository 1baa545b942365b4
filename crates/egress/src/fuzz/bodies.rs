// SPDX-License-Identifier: Apache-2.0
//! Fuzz targets of what is read for a credential in a body.

use super::taken_by_others_too;
use crate::normalize::{JsonSpot, body_slot, json_spot};
use torno_policy::binding::{Held, Pointer, Slot};
use torno_policy::placeholder::Placeholder;

/// The slot of a body whose kind the first byte says: where there is a place, a placeholder that is
/// put there is read as one again.
pub fn fuzz_body_slot(data: &[u8]) {
    let Some((first, body)) = data.split_first() else {
        return;
    };
    let field = "secret".to_owned();
    let slot = match (first % 3, Pointer::parse("/d/token")) {
        (0, _) => Slot::Form { field },
        (1, _) => Slot::Multipart { part: field },
        (_, Some(pointer)) => Slot::Json { pointer },
        (_, None) => return,
    };
    let Ok(found) = body_slot(&slot, "X", body) else {
        return;
    };
    // No body has no place.
    if matches!(slot, Slot::Json { .. }) && !body.is_empty() {
        taken_by_others_too(body, true);
    }
    let Some(place) = &found.place else {
        let is_nowhere = matches!(found.held, Held::Twice | Held::Nowhere);
        assert!(is_nowhere, "there is no place for {:?}", found.held);
        return;
    };
    let placeholder = Placeholder::new("", [7; 16]);
    let front = body.get(..place.cut.start).unwrap_or_default();
    let back = body.get(place.cut.end..).unwrap_or_default();
    assert!(place.cut.end <= body.len(), "it is beyond the end");
    let (before, after) = (place.before.as_bytes(), place.after.as_bytes());
    let filled = [front, before, placeholder.as_str().as_bytes(), after, back].concat();
    let again = body_slot(&slot, "X", &filled);
    let again = again.map(|found| found.held);
    assert_eq!(again, Ok(Held::Placeholder), "it is no slot when filled");
}

/// A JSON pointer is written as it was read, and leads where another reader of RFC 6901 goes. The
/// first line is the pointer.
pub fn fuzz_json_pointer(data: &[u8]) {
    let cut = data.iter().position(|b| *b == b'\n').unwrap_or(data.len());
    let (line, text) = data.split_at_checked(cut).unwrap_or_default();
    let text = text.get(1..).unwrap_or_default();
    let line = String::from_utf8_lossy(line);
    let Some(pointer) = Pointer::parse(&line) else {
        return;
    };
    assert_eq!(pointer.to_string(), line, "it is written in another way");
    let Ok(spot) = json_spot(text, &pointer) else {
        return;
    };
    let Ok(whole) = serde_json::from_slice::<serde_json::Value>(text) else {
        taken_by_others_too(text, true);
        return;
    };
    let known = whole.pointer(&line);
    match spot {
        JsonSpot::Value(range) => {
            let value = text.get(range).unwrap_or_default();
            let value = serde_json::from_slice::<serde_json::Value>(value).ok();
            assert_eq!(value.as_ref(), known, "it leads elsewhere");
        }
        JsonSpot::Room(_) | JsonSpot::Nowhere => assert_eq!(known, None, "it was not found"),
        JsonSpot::Twice => {}
    }
}
