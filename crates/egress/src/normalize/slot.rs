// SPDX-License-Identifier: Apache-2.0
//! The slot of a body: what the client has there, and the bytes that a value would replace. What is
//! judged and what is filled is this one reading of the original bytes.

use super::{PRESENTED_MAX, Request, content, form, json, multipart};
use crate::head::{Framing, list_members};
use crate::refuse::Fault;
use std::collections::BTreeSet;
use std::ops::Range;
use torno_policy::binding::{Held, Pointer, Slot};
use torno_policy::facts::{Location, Presented};
use torno_policy::placeholder::Placeholder;

/// The slot of a body that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Spot {
    pub(crate) slot: Slot,
    pub(crate) found: Found,
}

/// What the client has in the slot, and where a value goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) held: Held,
    /// Nothing where there is no one place for it.
    pub(crate) place: Option<Place>,
}

/// The bytes that a value replaces, and what of its surroundings must be written with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) cut: Range<usize>,
    pub(crate) before: String,
    pub(crate) after: String,
}

impl Place {
    /// A value alone, in the place of another.
    pub(super) fn of(cut: Range<usize>) -> Self {
        Self {
            cut,
            before: String::new(),
            after: String::new(),
        }
    }
}

impl Found {
    pub(super) fn without_place(held: Held) -> Self {
        Self { held, place: None }
    }

    pub(super) fn at(held: Held, place: Place) -> Self {
        Self {
            held,
            place: Some(place),
        }
    }
}

/// What a value of the client's in the slot is. A placeholder counts in its one spelling.
pub(super) fn held(value: &[u8]) -> Held {
    let text = std::str::from_utf8(value);
    match text {
        Ok("") => Held::Nothing,
        Ok(text) if Placeholder::parse(text).is_some() => Held::Placeholder,
        Ok(_) | Err(_) => Held::Own,
    }
}

/// Checks what the head says of the body. True when there is a body to read.
///
/// ATTACK: 093 – an encoded body can't be read, so none is sent where a slot is in it.
pub(super) fn head(request: &Request, slot: &Slot) -> Result<bool, Fault> {
    let length = match request.framing {
        Framing::Empty | Framing::Length(0) => return Ok(false),
        Framing::Length(length) => Some(length),
        Framing::Chunked => None,
    };
    let mut codings = list_members(request.head.values("content-encoding"));
    if slot.is_in_body() && codings.any(|coding| coding != "identity") {
        return Err(Fault::malformed(
            "send this body not encoded: a credential goes into it",
        ));
    }
    match slot {
        Slot::Form { .. } => content::media_type(
            request,
            "application/x-www-form-urlencoded",
            "send one Content-Type: application/x-www-form-urlencoded here, where a credential \
             goes into a form",
        )?,
        Slot::Json { .. } => content::media_type(
            request,
            "application/json",
            "send one Content-Type: application/json here, where a credential goes into the JSON",
        )?,
        Slot::Multipart { .. } => multipart::boundary(&request.head).map(drop)?,
        Slot::Header { .. } | Slot::Basic { .. } | Slot::Query { .. } | Slot::Path { .. } => {
            return Err(no_body_slot());
        }
        // Signed as it is, whatever it is.
        Slot::Hmac(_) => {}
        Slot::WebsocketJson { .. } | Slot::Postgres { .. } | Slot::Sigv4(_) | Slot::Jwt(_) => {
            return Err(no_body_slot());
        }
    }
    let fits = |length| usize::try_from(length).is_ok_and(|l| l <= content::CONTENT_BYTES_MAX);
    if length.is_none_or(fits) {
        Ok(true)
    } else {
        Err(too_large())
    }
}

pub(super) fn too_large() -> Fault {
    // ATTACK: 202
    let hint = "send at most 1 MiB where a credential goes into the body, or signs it";
    Fault::new(torno_policy::Reason::TooLarge, hint).at(Location::Body)
}

/// No notary asks for it.
fn no_body_slot() -> Fault {
    Fault::new(
        torno_policy::Reason::Undecidable,
        "the slot is in no body: bind the credential again",
    )
}

/// Reads the slot. `body` is whole; empty for a request without.
pub(super) fn read(request: &Request, slot: &Slot, body: &[u8]) -> Result<Spot, Fault> {
    let boundary = match slot {
        Slot::Multipart { .. } if !body.is_empty() => multipart::boundary(&request.head)?,
        _ => String::new(),
    };
    Ok(Spot {
        slot: slot.clone(),
        found: find(slot, &boundary, body)?,
    })
}

/// The slot in a body of its kind; the boundary is that of parts.
pub(crate) fn find(slot: &Slot, boundary: &str, body: &[u8]) -> Result<Found, Fault> {
    if matches!(slot, Slot::Hmac(_)) {
        return Ok(Found::without_place(Held::Nothing));
    }
    if body.is_empty() {
        return Ok(Found::without_place(Held::Nowhere));
    }
    match slot {
        Slot::Form { field } => form::find(body, field),
        Slot::Json { pointer } => in_json(body, pointer),
        Slot::Multipart { part } => multipart::find(body, boundary, part),
        Slot::Header { .. } | Slot::Basic { .. } | Slot::Query { .. } | Slot::Path { .. } => {
            Err(no_body_slot())
        }
        Slot::WebsocketJson { .. } | Slot::Postgres { .. } | Slot::Sigv4(_) => Err(no_body_slot()),
        Slot::Hmac(_) | Slot::Jwt(_) => Err(no_body_slot()),
    }
}

/// The text that a pointer leads to.
pub(crate) fn in_json(body: &[u8], pointer: &Pointer) -> Result<Found, Fault> {
    let quoted = |cut: Range<usize>| Place {
        cut,
        before: "\"".to_owned(),
        after: "\"".to_owned(),
    };
    Ok(match json::find(body, pointer)? {
        json::Spot::Nowhere => Found::without_place(Held::Nowhere),
        json::Spot::Twice => Found::without_place(Held::Twice),
        json::Spot::Value(cut) => {
            let value = body.get(cut.clone()).unwrap_or_default();
            let text = value.strip_prefix(b"\"");
            let held = match text.and_then(|text| text.strip_suffix(b"\"")) {
                Some(text) => held(text),
                None if value == b"null" => Held::Nothing,
                None => Held::Own,
            };
            Found::at(held, quoted(cut))
        }
        json::Spot::Room(json::Room { at, is_empty }) => {
            let Some(name) = pointer.names().last() else {
                return Ok(Found::without_place(Held::Nowhere));
            };
            // INVARIANT: a text is always written.
            let name = serde_json::to_string(name).unwrap_or_default();
            let next = if is_empty { "" } else { "," };
            let place = Place {
                cut: at..at,
                before: format!("{name}:\""),
                after: format!("\"{next}"),
            };
            Found::at(Held::Nothing, place)
        }
    })
}

/// The placeholders of a body that was read, plain or hidden: the one in the slot, and all others,
/// which are carried inert. Where the slot is there twice, none is sure to be another.
pub(crate) fn presented(found: &Found, body: &[u8]) -> Result<Vec<Presented>, Fault> {
    let slot = match (found.held, &found.place) {
        (Held::Placeholder, Some(place)) => Some(place.cut.clone()),
        _ => None,
    };
    let (before, in_slot, after) = match &slot {
        Some(cut) => (
            body.get(..cut.start),
            body.get(cut.clone()),
            body.get(cut.end..),
        ),
        None => (Some(body), None, None),
    };
    let elsewhere = match found.held {
        Held::Twice => Location::Slot,
        Held::Nothing | Held::Placeholder | Held::Own | Held::Nowhere => Location::Body,
    };
    let mut all = BTreeSet::new();
    for (text, location) in [
        (before, elsewhere.clone()),
        (in_slot, Location::Slot),
        (after, elsewhere),
    ] {
        let texts = Placeholder::find_hidden(text.unwrap_or_default());
        all.extend(texts.iter().map(|one| (location.clone(), one.digest())));
    }
    if all.len() > PRESENTED_MAX {
        return Err(Fault::malformed("carry fewer placeholders in one body").at(Location::Body));
    }
    let one = |(location, digest)| Presented { location, digest };
    Ok(all.into_iter().map(one).collect())
}

#[cfg(test)]
mod tests;
