// SPDX-License-Identifier: Apache-2.0
//! The part of an outgoing head that holds no credential: the client's own fields that pass, and
//! what the gate says of the body and of the answer it wants.

use super::Sending;
use crate::head::{Field, Framing};
use crate::normalize::Disposition;
use torno_policy::binding::Slot;
use torno_policy::names::{Endpoint, Host};

/// Everything of the head between the target and the slot's field.
pub(super) fn plain_part(sending: Sending<'_>) -> Vec<u8> {
    let Sending {
        request,
        framing,
        is_scrubbed,
        ..
    } = sending;
    let facts = &request.facts;
    let mut head = Vec::with_capacity(request.head.len() + 128);
    head.extend_from_slice(b" HTTP/1.1\r\nhost: ");
    head.extend_from_slice(authority(&facts.endpoint).as_bytes());
    head.extend_from_slice(b"\r\n");
    for field in passing(sending) {
        push_field(&mut head, field.name.as_bytes(), field.value);
    }
    if is_scrubbed {
        // What comes back must be readable here.
        push_field(&mut head, b"accept-encoding", b"identity");
    }
    match framing {
        Framing::Empty if matches!(facts.method.as_str(), "POST" | "PUT" | "PATCH") => {
            push_field(&mut head, b"content-length", b"0");
        }
        Framing::Empty => {}
        Framing::Length(length) => {
            push_field(&mut head, b"content-length", length.to_string().as_bytes());
        }
        Framing::Chunked => push_field(&mut head, b"transfer-encoding", b"chunked"),
    }
    if let Some(offer) = &request.websocket {
        offer.push_fields(&mut head);
    }
    head
}

/// The client's own fields that go out as they came.
pub(super) fn passing<'a>(sending: Sending<'a>) -> impl Iterator<Item = Field<'a>> {
    let Sending {
        allowed,
        request,
        is_scrubbed,
        ..
    } = sending;
    let slot = allowed.injection.as_ref().map(|injection| &injection.slot);
    let is_filled = slot.is_some_and(Slot::is_in_body);
    let written = slot.map(Slot::fields).unwrap_or_default();
    let brokers = allowed
        .keeping
        .as_ref()
        .is_some_and(|keeping| keeping.cookies);
    let is_stripped = move |name: &str| {
        written.iter().any(|field| name.eq_ignore_ascii_case(field))
            || allowed.strip.iter().any(|s| name.eq_ignore_ascii_case(s))
            || (is_filled && is_digest(name))
            || (brokers && name.eq_ignore_ascii_case("cookie"))
    };
    let fields = request.head.fields().zip(&request.dispositions);
    fields.filter_map(move |(field, disposition)| {
        let passes = match disposition {
            Disposition::Drop | Disposition::Placeholder => false,
            Disposition::OwnCredential => allowed.own_credentials,
            Disposition::Pass => !(is_scrubbed && asks_for_parts(field.name)),
        };
        (passes && !is_stripped(field.name)).then_some(field)
    })
}

/// Said of the client's body, these are wrong of the one that is sent, and the right ones would say
/// something of the credential.
fn is_digest(name: &str) -> bool {
    const DIGESTS: [&str; 5] = [
        "content-md5",
        "digest",
        "content-digest",
        "repr-digest",
        "x-amz-content-sha256",
    ];
    DIGESTS
        .iter()
        .any(|digest| name.eq_ignore_ascii_case(digest))
}

/// A secret cut into ranges could not be seen in any of them.
fn asks_for_parts(name: &str) -> bool {
    [
        "accept-encoding",
        "grpc-accept-encoding",
        "range",
        "if-range",
    ]
    .iter()
    .any(|part| name.eq_ignore_ascii_case(part))
}

pub(crate) fn push_field(head: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    head.extend_from_slice(name);
    head.extend_from_slice(b": ");
    head.extend_from_slice(value);
    head.extend_from_slice(b"\r\n");
}

/// Host, and port where it is not the scheme's.
pub(super) fn authority(endpoint: &Endpoint) -> String {
    let mut text = match &endpoint.host {
        Host::Name(name) => name.to_string(),
        Host::V4(address) => address.to_string(),
        Host::V6(address) => format!("[{address}]"),
    };
    if endpoint.port != endpoint.scheme.default_port() {
        text.push_str(&format!(":{}", endpoint.port));
    }
    text
}
