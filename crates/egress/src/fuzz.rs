// SPDX-License-Identifier: Apache-2.0
//! Fuzz targets as plain functions: each feeds one hostile parser and asserts a property of it.

use crate::forward::body::{Body, Step};
use crate::head::{Framing, Head, HeadScan};
use crate::identify::{Arrival, Asked, opening};
use crate::normalize::{RawRequest, normalize, read_commands};
use crate::scrub::{ScrubStream, Scrubber, Secret};
use std::sync::Arc;
use torno_policy::binding::{Held, PathPattern, Slot};
use torno_policy::facts::Entry;
use torno_policy::names::{Authority, RequestPath, Scheme};

/// A head that is understood names the asked host, and its path is canonical.
pub fn fuzz_request_head(data: &[u8]) {
    let Ok(asked) = Authority::parse("allow.test", Scheme::Https) else {
        return;
    };
    let Ok(Some(end)) = HeadScan::default().end(data) else {
        return;
    };
    let Ok(head) = Head::parse(data.get(..end).unwrap_or_default()) else {
        return;
    };
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
    if let Ok(request) = normalize(raw) {
        let facts = request.facts;
        assert_eq!(facts.endpoint.host, asked.host, "another host was let in");
        assert_eq!(facts.endpoint.port, asked.port, "another port was let in");
        let again = RequestPath::parse_named(&facts.path.to_string());
        assert_eq!(again.as_ref(), Ok(&facts.path), "the path is not canonical");
    }
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

/// The commands of a push are the same however many bytes of the pack stand behind them.
pub fn fuzz_pkt_line(data: &[u8]) {
    let mut known = None;
    for end in 0..=data.len().min(4096) {
        let read = read_commands(data.get(..end).unwrap_or_default(), false);
        match (&known, read) {
            (None, Ok(crate::normalize::Commands::More)) => {}
            (None, decided) => known = Some(decided),
            (Some(before), now) => assert_eq!(*before, now, "the commands changed at {end}"),
        }
    }
    let _ = read_commands(data, true);
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
