// SPDX-License-Identifier: Apache-2.0
//! RFC 9113 §8: requests as fields and data.

use super::super::http2_frames::raw::{block, field};
use super::*;

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    cases.extend(bodies());
    cases.extend(fields());
    cases.extend(pseudo());
    cases.extend(trailers());
    cases
}

fn whole(fields: &[u8]) -> Vec<u8> {
    frame(HEADERS, END_STREAM | END_HEADERS, 1, fields)
}

fn with(changes: &[(&str, &str)]) -> Vec<u8> {
    whole(&get_with(changes))
}

/// A usual request and one more field behind it.
fn and(name: &str, value: &str) -> Vec<u8> {
    whole(&[get_with(&[]), field(name, value)].concat())
}

/// A POST with this length and these parts of a body.
fn long(length: &str, parts: &[&[u8]]) -> Vec<u8> {
    let fields = get_with(&[(":method", "POST"), ("content-length", length)]);
    let mut frames = frame(HEADERS, END_HEADERS, 1, &fields);
    for (at, part) in parts.iter().enumerate() {
        let end = u8::from(at + 1 == parts.len());
        frames.extend(frame(DATA, end, 1, part));
    }
    frames
}

fn bodies() -> Vec<Case> {
    let reset = Right::Stream(PROTOCOL);
    vec![
        case("8.1", "a head alone", get(1), Right::Answered),
        case(
            "8.1",
            "a head and data",
            [post(1), frame(DATA, END_STREAM, 1, b"abc")].concat(),
            Right::Answered,
        ),
        case(
            "8.1",
            "a head and an empty end",
            [post(1), frame(DATA, END_STREAM, 1, b"")].concat(),
            Right::Answered,
        ),
        case(
            "8.1",
            "a second head that does not end",
            [post(1), frame(HEADERS, END_HEADERS, 1, &field("a", "b"))].concat(),
            reset,
        ),
        case(
            "8.1.1",
            "a length that fits one part",
            long("5", &[b"hello"]),
            Right::Answered,
        ),
        case(
            "8.1.1",
            "a length that fits three parts",
            long("5", &[b"he", b"", b"llo"]),
            Right::Answered,
        ),
        case(
            "8.1.1",
            "more than the length",
            long("1", &[b"hello"]),
            reset,
        ),
        case(
            "8.1.1",
            "less than the length",
            long("9", &[b"hello"]),
            reset,
        ),
        case(
            "8.1.1",
            "more than the length in two parts",
            long("5", &[b"hel", b"lo!"]),
            reset,
        ),
        case(
            "8.1.1",
            "less than the length in two parts",
            long("9", &[b"hel", b"lo!"]),
            reset,
        ),
        case(
            "8.1.1",
            "a length and no data",
            with(&[("content-length", "1")]),
            reset,
        ),
        case("8.1.1", "length 0 and data", long("0", &[b"a"]), reset),
        case(
            "8.1.1",
            "length 0 and an empty end",
            long("0", &[b""]),
            Right::Answered,
        ),
        case("8.1.1", "no number", long("a", &[b"a"]), reset),
        case("8.1.1", "a sign", long("+1", &[b"a"]), reset),
        case("8.1.1", "a negative number", long("-1", &[b"a"]), reset),
        case(
            "8.1.1",
            "a number beyond all",
            long("99999999999999999999", &[b"a"]),
            reset,
        ),
    ]
}

fn fields() -> Vec<Case> {
    let reset = Right::Stream(PROTOCOL);
    let mut cases = vec![
        case(
            "8.2",
            "a field of the client's own",
            and("x-own", "b"),
            Right::Answered,
        ),
        case(
            "8.2.1",
            "a value of nothing",
            and("x-own", ""),
            Right::Answered,
        ),
        case(
            "8.2.3",
            "a cookie in crumbs",
            whole(
                &[
                    get_with(&[]),
                    field("cookie", "a=b"),
                    field("cookie", "c=d"),
                ]
                .concat(),
            ),
            Right::Answered,
        ),
        case(
            "8.2.2",
            "te: trailers",
            and("te", "trailers"),
            Right::Answered,
        ),
    ];
    for (what, name) in [
        ("upper case", "X-Own"),
        ("one letter of upper case", "x-oWn"),
        ("a space in the name", "x own"),
        ("a colon in the name", "x:own"),
        ("a line in the name", "x\r\nown"),
        ("nul in the name", "x\0own"),
        ("delete in the name", "x\u{7f}own"),
        ("a byte above ASCII in the name", "x\u{e9}"),
        ("no name", ""),
    ] {
        cases.push(case("8.2.1", what, and(name, "b"), reset));
    }
    for (what, value) in [
        ("a return in the value", "a\rb"),
        ("a feed in the value", "a\nb"),
        ("a line in the value", "a\r\nb"),
        ("nul in the value", "a\0b"),
    ] {
        cases.push(case("8.2.1", what, and("x-own", value), reset));
    }
    for (name, value) in [
        ("connection", "keep-alive"),
        ("proxy-connection", "keep-alive"),
        ("keep-alive", "max=5"),
        ("transfer-encoding", "chunked"),
        ("upgrade", "h2c"),
        ("te", "gzip"),
        ("te", "trailers, gzip"),
    ] {
        cases.push(case("8.2.2", name, and(name, value), reset));
    }
    cases
}

fn pseudo() -> Vec<Case> {
    let reset = Right::Stream(PROTOCOL);
    let late = [field("x-own", "b"), get_with(&[])].concat();
    let amid = [
        block(&[(":method", "GET"), (":scheme", "https")]),
        field("x-own", "b"),
        block(&[(":authority", "allow.test"), (":path", "/")]),
    ];
    let order = block(&[
        (":path", "/"),
        (":authority", "allow.test"),
        (":scheme", "https"),
        (":method", "GET"),
    ]);
    vec![
        case("8.3", "in another order", whole(&order), Right::Answered),
        case("8.3", "an unknown one", and(":own", "b"), reset),
        case("8.3", "one of answers", and(":status", "200"), reset),
        case("8.3", "behind the fields", whole(&late), reset),
        case("8.3", "amid the fields", whole(&amid.concat()), reset),
        case("8.3.1", "no method", with(&[(":method", "-")]), reset),
        case("8.3.1", "no scheme", with(&[(":scheme", "-")]), reset),
        case("8.3.1", "no path", with(&[(":path", "-")]), reset),
        case("8.3.1", "an empty path", with(&[(":path", "")]), reset),
        case("8.3.1", "an empty method", with(&[(":method", "")]), reset),
        case(
            "8.3.1",
            "an empty scheme",
            with(&[(":scheme", "")]),
            Right::Refused,
        ),
        case("8.3.1", "two methods", and(":method", "GET"), reset),
        case("8.3.1", "two schemes", and(":scheme", "https"), reset),
        case("8.3.1", "two paths", and(":path", "/"), reset),
        case(
            "8.3.1",
            "two authorities",
            and(":authority", "allow.test"),
            reset,
        ),
        case(
            "8.3.1",
            "a path with a space",
            with(&[(":path", "/ a")]),
            reset,
        ),
        case(
            "8.3.1",
            "a method with a space",
            with(&[(":method", "GET /")]),
            reset,
        ),
        case(
            "8.5",
            "CONNECT with a path",
            with(&[(":method", "CONNECT")]),
            Right::OneOf(&[PROTOCOL]),
        ),
        case(
            "8.5",
            "CONNECT without authority",
            whole(&block(&[(":method", "CONNECT")])),
            Right::Refused,
        ),
    ]
}

fn trailers() -> Vec<Case> {
    let reset = Right::Stream(PROTOCOL);
    let behind = |fields: &[u8]| {
        let end = frame(HEADERS, END_STREAM | END_HEADERS, 1, fields);
        [post(1), frame(DATA, 0, 1, b"abc"), end].concat()
    };
    vec![
        case(
            "8.1",
            "trailers",
            behind(&field("x-sum", "1")),
            Right::Answered,
        ),
        case(
            "8.1",
            "trailers that go on in a second frame",
            [
                post(1),
                frame(HEADERS, END_STREAM, 1, &field("x-sum", "1")),
                frame(CONTINUATION, END_HEADERS, 1, &field("x-more", "2")),
            ]
            .concat(),
            Right::Answered,
        ),
        case(
            "8.1",
            "a path in trailers",
            behind(&field(":path", "/")),
            Right::Waived,
        ),
        case(
            "8.1",
            "a method in trailers",
            behind(&field(":method", "GET")),
            Right::Waived,
        ),
        case(
            "8.1",
            "a status in trailers",
            behind(&field(":status", "200")),
            Right::Waived,
        ),
        case(
            "8.1",
            "upper case in trailers",
            behind(&field("X-Sum", "1")),
            reset,
        ),
        case(
            "8.1",
            "connection in trailers",
            behind(&field("connection", "close")),
            reset,
        ),
        case(
            "8.1",
            "data behind trailers",
            [
                behind(&field("x-sum", "1")),
                frame(DATA, END_STREAM, 1, b"a"),
            ]
            .concat(),
            Right::Stream(CLOSED),
        ),
    ]
}
