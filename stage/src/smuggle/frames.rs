// SPDX-License-Identifier: Apache-2.0
//! The HTTP/2 payloads: a client that says in fields and frames what would be two requests, another
//! path or another length once it is written as HTTP/1.1. Frames are made by hand: no library lets
//! a client say these things.

use super::payload::UNMARKED;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

/// What a client sends before its frames: the preface and empty settings.
pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

/// Fields that are changed (`-` takes one away) or added, in a GET that is otherwise usual. `@M@`
/// is the mark, `@H@` the far end's name.
type Fields = &'static [(&'static str, &'static str)];

const GETS: &[(&str, Fields)] = &[
    ("usual", &[]),
    ("a query", &[(":path", "/ok/@M@?a=b")]),
    ("HEAD", &[(":method", "HEAD")]),
    ("204", &[(":path", "/ok/@M@/204")]),
    ("304", &[(":path", "/ok/@M@/304")]),
    ("a field", &[("x-a", "b")]),
    (
        "crumbs of a cookie",
        &[("cookie", "a=b"), ("cookie", "c=d")],
    ),
    ("te", &[("te", "trailers")]),
    ("the same host", &[("host", "@H@")]),
    ("another host", &[("host", "other.test")]),
    ("no authority", &[(":authority", "-"), ("host", "@H@")]),
    ("another authority", &[(":authority", "other.test")]),
    (
        "a user in the authority",
        &[(":authority", "other.test@@H@")],
    ),
    ("an authority with a line", &[(":authority", "@H@\r\nX: y")]),
    (
        "an authority with a path",
        &[(":authority", "@H@/forbidden")],
    ),
    ("an authority with a space", &[(":authority", "@H@ x")]),
    ("scheme http", &[(":scheme", "http")]),
    (
        "scheme with a path",
        &[(":scheme", "https://@H@/forbidden/@M@?")],
    ),
    ("path with a space", &[(":path", "/ok/@M@ HTTP/1.1")]),
    (
        "path with lines",
        &[(
            ":path",
            "/ok/@M@ HTTP/1.1\r\nHost: @H@\r\n\r\nGET /forbidden/@M@",
        )],
    ),
    ("path with a feed", &[(":path", "/ok/@M@\nx")]),
    ("path with a tab", &[(":path", "/ok/@M@\tx")]),
    (
        "path with a fragment",
        &[(":path", "/ok/@M@#/../../forbidden")],
    ),
    ("absolute path", &[(":path", "https://@H@/ok/@M@")]),
    ("path without slash", &[(":path", "ok/@M@")]),
    ("star", &[(":path", "*"), (":method", "OPTIONS")]),
    ("dots", &[(":path", "/ok/../forbidden/@M@")]),
    ("hidden dots", &[(":path", "/ok/%2e%2e/forbidden/@M@")]),
    ("a path twice", &[("+:path", "/forbidden/@M@")]),
    ("a method twice", &[("+:method", "POST")]),
    ("an authority twice", &[("+:authority", "other.test")]),
    ("a status", &[("+:status", "200")]),
    ("an unknown pseudo-header", &[("+:x", "y")]),
    (
        "a protocol",
        &[(":method", "CONNECT"), ("+:protocol", "websocket")],
    ),
    (
        "CONNECT",
        &[(":method", "CONNECT"), (":scheme", "-"), (":path", "-")],
    ),
    ("method with a space", &[(":method", "GET /forbidden/@M@")]),
    (
        "method with a line",
        &[(":method", "GET / HTTP/1.1\r\nX: y")],
    ),
    ("method in lower case", &[(":method", "get")]),
    ("TRACE", &[(":method", "TRACE")]),
    (
        "value with a request",
        &[(
            "x-a",
            "b\r\n\r\nGET /forbidden/@M@ HTTP/1.1\r\nHost: @H@\r\n\r\n",
        )],
    ),
    ("value with a field", &[("x-a", "b\r\ncontent-length: 44")]),
    ("value with a feed", &[("x-a", "b\nc: d")]),
    ("value with a return", &[("x-a", "b\rc")]),
    ("value with nul", &[("x-a", "b\0c")]),
    ("value with space around", &[("x-a", " b ")]),
    ("name with a line", &[("x-a: b\r\nc", "d")]),
    ("name with a colon", &[("x-a:b", "c")]),
    ("name with a space", &[("x a", "b")]),
    ("name in upper case", &[("X-A", "b")]),
    ("no name", &[("", "b")]),
    ("transfer-encoding", &[("transfer-encoding", "chunked")]),
    (
        "transfer-encoding hidden",
        &[("transfer-encoding ", "chunked")],
    ),
    ("connection", &[("connection", "close")]),
    ("connection names host", &[("connection", "host")]),
    ("keep-alive", &[("keep-alive", "x")]),
    ("proxy-connection", &[("proxy-connection", "close")]),
    ("upgrade", &[("upgrade", "h2c")]),
    ("http2-settings", &[("http2-settings", "AAMAAABk")]),
    ("te with more", &[("te", "trailers, chunked")]),
    ("a length without body", &[("content-length", "44")]),
    (
        "two lengths",
        &[("content-length", "0"), ("content-length", "44")],
    ),
    ("a list of lengths", &[("content-length", "0, 0")]),
    ("expect", &[("expect", "100-continue")]),
    ("an override", &[("x-http-method-override", "DELETE")]),
    ("another url", &[("x-original-url", "/forbidden/@M@")]),
];

/// The body of a POST, its fields beside the usual ones, and trailers.
type Post = (&'static str, Fields, &'static str, Option<Fields>);

const INNER: &str = "GET /forbidden/@M@ HTTP/1.1\r\nhost: @H@\r\n\r\n";

const POSTS: &[Post] = &[
    ("a body", &[], "hello", None),
    ("a body that is a request", &[], INNER, None),
    (
        "the end of chunks in a body",
        &[],
        "0\r\n\r\nGET /forbidden/@M@ HTTP/1.1\r\n\r\n",
        None,
    ),
    (
        "a length that fits",
        &[("content-length", "5")],
        "hello",
        None,
    ),
    (
        "a length too small",
        &[("content-length", "1")],
        INNER,
        None,
    ),
    (
        "a length too large",
        &[("content-length", "999")],
        INNER,
        None,
    ),
    (
        "length 0 and a body",
        &[("content-length", "0")],
        INNER,
        None,
    ),
    (
        "a length with a sign",
        &[("content-length", "+5")],
        "hello",
        None,
    ),
    (
        "a length with zeros",
        &[("content-length", "005")],
        "hello",
        None,
    ),
    (
        "chunked and a body",
        &[("transfer-encoding", "chunked")],
        "0\r\n\r\n",
        None,
    ),
    ("GET with a body", &[(":method", "GET")], INNER, None),
    ("HEAD with a body", &[(":method", "HEAD")], INNER, None),
    ("trailers", &[], "hello", Some(&[("x-t", "a")])),
    (
        "trailers with a length",
        &[],
        "hello",
        Some(&[("content-length", "44")]),
    ),
    (
        "trailers with a coding",
        &[],
        "hello",
        Some(&[("transfer-encoding", "chunked")]),
    ),
    (
        "trailers with a host",
        &[],
        "hello",
        Some(&[("host", "other.test")]),
    ),
    (
        "trailers with a path",
        &[],
        "hello",
        Some(&[(":path", "/forbidden/@M@")]),
    ),
    (
        "trailers with a line",
        &[],
        "hello",
        Some(&[("x-t", "a\r\n\r\nGET /forbidden/@M@ HTTP/1.1")]),
    ),
];

/// Every HTTP/2 payload, not yet marked.
pub(super) fn all(host: &str) -> Vec<(&'static str, Vec<u8>)> {
    let mut made: Vec<_> = GETS
        .iter()
        .map(|(what, changes)| {
            let block = block("GET", changes, host);
            (*what, frame(HEADERS, END_STREAM | END_HEADERS, &block))
        })
        .collect();
    made.extend(POSTS.iter().map(|(what, changes, body, trailers)| {
        let mut bytes = frame(HEADERS, END_HEADERS, &block("POST", changes, host));
        let end = if trailers.is_none() { END_STREAM } else { 0 };
        bytes.extend(frame(DATA, end, filled(body, host).as_bytes()));
        if let Some(trailers) = trailers {
            let fields: Vec<u8> = trailers
                .iter()
                .flat_map(|(name, value)| field(name, &filled(value, host)))
                .collect();
            bytes.extend(frame(HEADERS, END_STREAM | END_HEADERS, &fields));
        }
        (*what, bytes)
    }));
    let usual = block("GET", &[], host);
    let (first, rest) = usual.split_at_checked(usual.len() / 2).unwrap_or_default();
    let cut = [
        frame(HEADERS, END_STREAM, first),
        frame(CONTINUATION, END_HEADERS, rest),
    ];
    made.push(("a block in two frames", cut.concat()));
    made
}

fn filled(text: &str, host: &str) -> String {
    text.replace("@M@", UNMARKED).replace("@H@", host)
}

fn block(method: &str, changes: Fields, host: &str) -> Vec<u8> {
    let usual = [
        (":method", method),
        (":scheme", "https"),
        (":authority", "@H@"),
        (":path", "/ok/@M@"),
    ];
    let mut block = Vec::new();
    for (name, value) in usual {
        let changed = changes.iter().find(|(changed, _)| *changed == name);
        let value = changed.map_or(value, |(_, value)| *value);
        if value != "-" {
            block.extend(field(name, &filled(value, host)));
        }
    }
    let is_new = |(name, _): &&(&str, &str)| !usual.iter().any(|(usual, _)| usual == name);
    for (name, value) in changes.iter().filter(is_new) {
        // A plus adds what stands there already.
        let name = name.strip_prefix('+').unwrap_or(name);
        block.extend(field(name, &filled(value, host)));
    }
    block
}

/// A field that is spelled out and enters no table (RFC 7541 §6.2.2).
fn field(name: &str, value: &str) -> Vec<u8> {
    let mut bytes = vec![0];
    for text in [name, value] {
        // INVARIANT: every text of the lists is shorter than the 127 bytes of a one-byte length.
        bytes.push(u8::try_from(text.len()).unwrap_or_default());
        bytes.extend_from_slice(text.as_bytes());
    }
    bytes
}

fn frame(kind: u8, flags: u8, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len())
        .unwrap_or_default()
        .to_be_bytes();
    let mut frame = length.get(1..).unwrap_or_default().to_vec();
    frame.extend_from_slice(&[kind, flags, 0, 0, 0, 1]);
    frame.extend_from_slice(payload);
    frame
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_text_fits_a_length_of_one_byte() {
        let host = "a-name-as-long-as-it-gets.torno.test";
        let of = |fields: Fields| fields.iter().flat_map(|(name, value)| [*name, *value]);
        let gets = GETS.iter().flat_map(|(_, fields)| of(fields));
        let posts = POSTS.iter().flat_map(|(_, fields, _, trailers)| {
            of(fields).chain(of(trailers.unwrap_or_default()))
        });
        for text in gets.chain(posts) {
            assert!(filled(text, host).len() < 127, "{text}");
        }
        assert!(all(host).len() > 80);
    }
}
