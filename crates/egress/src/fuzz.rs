// SPDX-License-Identifier: Apache-2.0
//! Fuzz targets as plain functions: each feeds one hostile parser and asserts a property of it.

mod bodies;
mod cookies;
mod databases;
mod frames;
mod signatures;

pub use bodies::{fuzz_body_slot, fuzz_json_pointer};
pub use cookies::fuzz_set_cookie;
pub use databases::{fuzz_postgres_messages, fuzz_postgres_statement};
pub use frames::fuzz_http2_frames;
pub use signatures::{fuzz_aws_form, fuzz_signature};

use crate::forward::body::{Body, Step};
use crate::forward::minted_places;
use crate::forward::websocket::frame::{Opcode, Sender, push_frame};
use crate::forward::websocket::message::{Event, Framer, Messages};
use crate::head::{Framing, Head, HeadScan};
use crate::http2::request::{framing_of, render};
use crate::identify::{Arrival, Asked, opening};
use crate::normalize::{
    CommandReader, Commands, RawRequest, Request, graphql_body, graphql_query, jsonrpc, lfs_batch,
    normalize,
};
use crate::scrub::{ScrubStream, Scrubber, Secret, Unpack};
use std::sync::Arc;
use torno_policy::binding::{Held, PathPattern, Slot};
use torno_policy::facts::Entry;
use torno_policy::names::{Authority, RequestPath, Scheme};

/// A head that is understood names the asked host, and its path is canonical.
pub fn fuzz_request_head(data: &[u8]) {
    if let Ok(Some(end)) = HeadScan::default().end(data) {
        understood(data.get(..end).unwrap_or_default());
    }
}

/// What the gate makes of a head for allow.test.
fn understood(head: &[u8]) -> Option<Request> {
    let asked = Authority::parse("allow.test", Scheme::Https).ok()?;
    let head = Head::parse(head).ok()?;
    let arrival = Arrival {
        entry: Entry::Captured,
        scheme: Scheme::Https,
        asked: Asked::Name(asked.clone()),
        disagreement: None,
    };
    let raw = RawRequest {
        arrival: &arrival,
        head,
    };
    let request = normalize(raw).ok()?;
    let facts = &request.facts;
    assert_eq!(facts.endpoint.host, asked.host, "another host was let in");
    assert_eq!(facts.endpoint.port, asked.port, "another port was let in");
    let again = RequestPath::parse_named(&facts.path.to_string());
    assert_eq!(again.as_ref(), Ok(&facts.path), "the path is not canonical");
    Some(request)
}

/// Lines of a name, a space and a value, as the fields of one stream: what is written for them is
/// one head to its last byte, and its framing is the one that the edge sends the body by.
pub fn fuzz_http2_request(data: &[u8]) {
    let mut pseudo = [&b"GET"[..], b"https", b"allow.test", b"/"];
    let mut fields = http::HeaderMap::new();
    for line in data.split(|b| *b == b'\n') {
        let cut = line.iter().position(|b| *b == b' ').unwrap_or(line.len());
        let (name, value) = line.split_at_checked(cut).unwrap_or_default();
        let value = value.get(1..).unwrap_or_default();
        let names = [&b":method"[..], b":scheme", b":authority", b":path"];
        let places = names.iter().zip(&mut pseudo);
        if let Some((_, place)) = places.into_iter().find(|(known, _)| **known == name) {
            *place = value;
        } else if let Ok(name) = http::HeaderName::from_lowercase(name)
            && let Ok(value) = http::HeaderValue::from_bytes(value)
            && fields.try_append(name, value).is_err()
        {
            return;
        }
    }
    let [method, scheme, authority, path] = pseudo;
    let uri = http::Uri::builder().scheme(scheme).authority(authority);
    let request = http::Request::builder().method(method);
    let request = uri.path_and_query(path).build().map(|uri| request.uri(uri));
    let Ok(Ok(request)) = request.map(|request| request.body(())) else {
        return;
    };
    let (mut parts, ()) = request.into_parts();
    parts.headers = fields;
    for is_whole in [true, false] {
        let Ok(head) = render(&parts, is_whole) else {
            continue;
        };
        let end = HeadScan::default().end(&head);
        if let Ok(end) = end {
            assert_eq!(end, Some(head.len()), "more or less than one head");
        }
        let framing = framing_of(&head);
        if let Some(request) = understood(&head) {
            assert_eq!(request.framing, framing, "another framing");
            assert!(!is_whole || framing == Framing::Empty || fields_say_length(&parts));
        }
    }
}

/// `h2` itself holds a length against the end of a stream.
fn fields_say_length(parts: &http::request::Parts) -> bool {
    parts.headers.contains_key(http::header::CONTENT_LENGTH)
}

/// What the first bytes are does not change when more come.
pub fn fuzz_tls_hello(data: &[u8]) {
    let mut known = None;
    for end in 0..=data.len() {
        let opened = opening(data.get(..end).unwrap_or_default());
        match (&known, opened) {
            (None, Ok(None)) => {}
            (None, decided) => known = Some(decided),
            (Some(before), now) => assert_eq!(*before, now, "the opening changed at {end}"),
        }
    }
    let mut acceptor = rustls::server::Acceptor::default();
    let mut rest = data;
    while !rest.is_empty() && matches!(acceptor.read_tls(&mut rest), Ok(1..)) {
        if !matches!(acceptor.accept(), Ok(None)) {
            break;
        }
    }
}

/// However a chunked body is cut, the same data comes out.
pub fn fuzz_chunked(data: &[u8]) {
    let whole = unchunk(data, data.len().max(1));
    for size in [1, 2, 3, 7] {
        let (cut, end) = unchunk(data, size);
        // A fault may be seen before or after data that is there already.
        if whole.1 == Some(true) {
            assert_eq!(cut, whole.0, "cut into {size}");
            assert_eq!(end, whole.1, "cut into {size}");
        }
    }
}

/// The data, and whether the end was reached (`None` after a fault).
fn unchunk(data: &[u8], size: usize) -> (Vec<u8>, Option<bool>) {
    let mut body = Body::from(Framing::Chunked);
    let (mut out, mut start, mut end) = (Vec::new(), 0, 0);
    loop {
        let unread = data.get(start..end).unwrap_or_default();
        match body.step(unread) {
            Err(_) => return (out, None),
            Ok(Step::End) => return (out, Some(true)),
            Ok(Step::More) if end == data.len() => return (out, Some(false)),
            Ok(Step::More) => end = data.len().min(end + size),
            Ok(Step::Skip(count) | Step::Trailers(count, _)) => {
                assert!(count <= unread.len(), "more was taken than is there");
                start += count;
            }
            Ok(Step::Data(count)) => {
                out.extend_from_slice(unread.get(..count).unwrap_or_default());
                start += count;
            }
        }
    }
}

/// The commands of a push are the same however many bytes of the pack stand behind them, and
/// however the body came.
pub fn fuzz_pkt_line(data: &[u8]) {
    for gzip in [false, true] {
        let (mut known, mut pieces) = (None, CommandReader::new(gzip));
        for end in 0..=data.len().min(2048) {
            let start = data.get(..end).unwrap_or_default();
            let read = CommandReader::new(gzip).read(start);
            match &known {
                None => {
                    assert_eq!(pieces.read(start), read, "pieces say otherwise at {end}");
                    known = Some(read).filter(|read| *read != Ok(Commands::More));
                }
                Some(before) => assert_eq!(*before, read, "the commands changed at {end}"),
            }
        }
    }
}

/// However frames are cut, the same messages come out; written anew they say the same. The first
/// byte says who sent them.
pub fn fuzz_websocket_frames(data: &[u8]) {
    let Some((first, data)) = data.split_first() else {
        return;
    };
    let (sender, mask) = if first & 1 == 0 {
        (Sender::Client, None)
    } else {
        (Sender::Server, Some([first | 1, 2, 3, 4]))
    };
    let whole = unframe(data, sender, data.len().max(1));
    for size in [1, 2, 5, 64] {
        assert_eq!(unframe(data, sender, size), whole, "cut into {size}");
    }
    let (said, is_fault) = whole;
    let mut anew = Vec::new();
    let mut framer = Framer::default();
    for (event, payload) in &said {
        let how = match event {
            Event::Piece { kind, is_last } => framer.next((*kind, *is_last), payload),
            Event::Beat(opcode) => Some((*opcode, true)),
            Event::Close => Some((Opcode::Close, true)),
        };
        if let Some(how) = how {
            push_frame(&mut anew, how, mask, payload);
        }
    }
    let other = match sender {
        Sender::Client => Sender::Server,
        Sender::Server => Sender::Client,
    };
    let (again, is_fault_again) = unframe(&anew, other, anew.len().max(1));
    assert!(!is_fault_again, "what we wrote is no WebSocket: {is_fault}");
    let silent = |(event, payload): &(Event, Vec<u8>)| {
        payload.is_empty() && matches!(event, Event::Piece { is_last: false, .. })
    };
    let said: Vec<_> = said.into_iter().filter(|one| !silent(one)).collect();
    assert_eq!(again, said, "what we wrote says something else");
}

/// The events with their payloads, pieces of one message together, and whether a fault ended them:
/// how much was seen of the message in which it stands depends on the cut.
fn unframe(data: &[u8], sender: Sender, size: usize) -> (Vec<(Event, Vec<u8>)>, bool) {
    let mut messages = Messages::new(sender);
    let mut said: Vec<(Event, Vec<u8>)> = Vec::new();
    let (mut start, mut end, mut payload) = (0, 0, Vec::new());
    loop {
        let unread = data.get(start..end).unwrap_or_default();
        let Ok((count, event)) = messages.next(unread, &mut payload) else {
            let is_whole =
                |(event, _): &(Event, Vec<u8>)| matches!(event, Event::Piece { is_last: true, .. });
            let whole = said.iter().rposition(is_whole).map_or(0, |at| at + 1);
            let beats = said.split_off(whole).into_iter();
            said.extend(beats.filter(|(event, _)| !matches!(event, Event::Piece { .. })));
            return (said, true);
        };
        assert!(count <= unread.len(), "more was taken than is there");
        start += count;
        match (event, said.last_mut()) {
            (None, _) if end == data.len() => return (said, false),
            (None, _) => end = data.len().min(end + size),
            (
                Some(now @ Event::Piece { .. }),
                Some((before @ Event::Piece { is_last: false, .. }, text)),
            ) => {
                *before = now;
                text.extend_from_slice(&payload);
            }
            (Some(event), _) => said.push((event, payload.clone())),
        }
    }
}

/// What a GraphQL body says: another JSON parser takes it too, and a space more changes nothing.
pub fn fuzz_graphql(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let said = graphql_query(&text);
    let body = serde_json::json!({ "query": text }).to_string();
    let posted = graphql_body(body.as_bytes());
    let spaced = graphql_body(
        serde_json::json!({ "query": format!("{text} ") })
            .to_string()
            .as_bytes(),
    );
    assert_eq!(posted, spaced, "a space changed what runs");
    if said.is_ok() {
        assert!(
            text.starts_with("query=") || text.contains("&query="),
            "no query is there"
        );
    }
    taken_by_others_too(data, graphql_body(data).is_ok());
}

/// What a JSON-RPC body says: every member of it has one method, and another parser takes it too.
pub fn fuzz_jsonrpc(data: &[u8]) {
    taken_by_others_too(data, jsonrpc(data).is_ok());
    taken_by_others_too(data, lfs_batch(data).is_ok());
}

fn taken_by_others_too(data: &[u8], is_taken: bool) {
    if let (true, Err(error)) = (is_taken, serde_json::from_slice::<serde_json::Value>(data)) {
        // It has numbers that are too large for the other, and no other complaint.
        assert!(error.to_string().contains("number out of range"), "{error}");
    }
}

/// A target that is filled has the value once and every other byte as it was; what the client
/// could mean by a second place is never filled.
pub fn fuzz_slot(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let Ok(path) = RequestPath::parse_named(&text) else {
        return;
    };
    let Ok(template) = PathPattern::parse("/bot{credential}/**") else {
        return;
    };
    let parameter = "key".to_owned();
    for slot in [Slot::Query { parameter }, Slot::Path { template }] {
        let Some(around) = slot.fill(&path) else {
            continue;
        };
        assert_ne!(
            slot.held(&path),
            Some(Held::Twice),
            "two places were filled"
        );
        let whole = path.to_string();
        let front = around.before.strip_suffix("key=").unwrap_or(&around.before);
        let front = front.strip_suffix(['?', '&']).unwrap_or(front);
        assert!(whole.starts_with(front), "bytes before the slot changed");
        assert!(
            whole.ends_with(&around.after),
            "bytes after the slot changed"
        );
        let filled = format!("{}{{credential}}{}", around.before, around.after);
        let again = RequestPath::parse_named(&filled);
        let again = again.ok().and_then(|path| slot.held(&path));
        assert_eq!(again, Some(Held::Placeholder), "it is no slot when filled");
    }
}

/// However an answer is cut, the same text comes out, without the secret.
pub fn fuzz_scrub(data: &[u8]) {
    const SECRET: &[u8] = b"ghp_0123456789abcdefABCDEF&<\"/+x";
    let secret = Secret::new(SECRET, "PLACEHOLDER");
    let scrubber = Arc::new(Scrubber::new(&[secret]));
    let scrub = |size: usize| {
        let mut stream = ScrubStream::new(Arc::clone(&scrubber));
        let mut out = Vec::new();
        for piece in data.chunks(size) {
            stream.push(piece, &mut out);
        }
        stream.finish(&mut out);
        out
    };
    let whole = scrub(data.len().max(1));
    for size in [1, 5, 13] {
        assert_eq!(scrub(size), whole, "cut into {size}");
    }
    let found = memchr::memmem::find(&whole, SECRET);
    assert_eq!(found, None, "the secret came through");
}

/// However a packed body is cut, the same comes out, and never without bound.
pub fn fuzz_unpack(data: &[u8]) {
    let Some((coding, packed)) = data.split_first() else {
        return;
    };
    let unpacked = |size: usize| {
        let mut unpack = match coding % 3 {
            0 => Unpack::gzip(),
            1 => Unpack::brotli(),
            _ => Unpack::zstd(),
        };
        let mut out = Vec::new();
        for piece in packed.chunks(size) {
            unpack
                .push(piece, |bytes| out.extend_from_slice(bytes))
                .ok()?;
        }
        unpack.finish(|bytes| out.extend_from_slice(bytes)).ok()?;
        Some(out)
    };
    let whole = unpacked(packed.len().max(1));
    for size in [1, 7] {
        assert_eq!(unpacked(size), whole, "cut into {size}");
    }
    let bound = (8 << 20) + 200 * packed.len() + (1 << 20);
    assert!(
        whole.is_none_or(|out| out.len() <= bound),
        "a bomb went off"
    );
}

/// The values that a text mints stand in their order and apart, and inside the text.
pub fn fuzz_minted(data: &[u8]) {
    for places in minted_places(data) {
        let mut done = 0;
        for place in places {
            assert!(
                done <= place.start && place.start < place.end,
                "out of order"
            );
            done = place.end;
        }
        assert!(done <= data.len(), "outside the text");
    }
}
