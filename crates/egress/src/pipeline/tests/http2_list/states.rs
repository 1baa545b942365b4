// SPDX-License-Identifier: Apache-2.0
//! RFC 9113 §3 to §6.4: preface, frames, sizes, streams and what belongs to one of them.

use super::super::http2_frames::raw::{PRIORITY, WINDOW_UPDATE};
use super::*;

const PADDED: u8 = 0x08;
const WITH_PRIORITY: u8 = 0x20;

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    cases.extend(frames());
    cases.extend(streams());
    cases.extend(data_and_headers());
    cases
}

pub(super) fn ping(payload: &[u8]) -> Vec<u8> {
    frame(PING, 0, 0, payload)
}

/// A frame that says it has so many bytes.
pub(super) fn sized(kind: u8, flags: u8, stream: u32, length: usize) -> Vec<u8> {
    frame(kind, flags, stream, &vec![0; length])
}

fn reserved(mut frame: Vec<u8>) -> Vec<u8> {
    frame[5] |= 0x80;
    frame
}

fn frames() -> Vec<Case> {
    let block = get_with(&[]);
    let unknown = frame(0x42, 0, 0, b"any");
    let amid = [
        frame(HEADERS, END_STREAM, 1, &block),
        unknown.clone(),
        frame(CONTINUATION, END_HEADERS, 1, &[]),
    ];
    let other = [frame(HEADERS, END_STREAM, 1, &block), get(3)];
    let interrupted = [
        frame(HEADERS, END_STREAM, 1, &block),
        sized(PRIORITY, 0, 1, 5),
    ];
    vec![
        case(
            "3.4",
            "settings come first",
            get(1),
            Right::Says(SETTINGS, 0),
        ),
        case(
            "3.4",
            "settings are acknowledged",
            get(1),
            Right::Says(SETTINGS, ACK),
        ),
        case(
            "4.1",
            "an unknown type",
            [unknown, get(1)].concat(),
            Right::Answered,
        ),
        case(
            "4.1",
            "an unknown type on a stream",
            [get(1), frame(0xff, 0xff, 1, b"x")].concat(),
            Right::Answered,
        ),
        case(
            "4.1",
            "undefined flags of a ping",
            frame(PING, 0xfe, 0, &[7; 8]),
            Right::Says(PING, ACK),
        ),
        case(
            "4.1",
            "undefined flags of fields",
            frame(HEADERS, 0xd0 | 5, 1, &block),
            Right::Answered,
        ),
        case(
            "4.1",
            "the reserved bit of a ping",
            reserved(ping(&[7; 8])),
            Right::Says(PING, ACK),
        ),
        case(
            "4.1",
            "the reserved bit of fields",
            reserved(get(1)),
            Right::Answered,
        ),
        case(
            "4.2",
            "the largest data",
            [post(1), sized(DATA, END_STREAM, 1, 16_384)].concat(),
            Right::Answered,
        ),
        case(
            "4.2",
            "data too large",
            [post(1), sized(DATA, END_STREAM, 1, 16_385)].concat(),
            Right::Stream(SIZE),
        ),
        case(
            "4.2",
            "fields too large",
            sized(HEADERS, 5, 1, 16_385),
            Right::Connection(SIZE),
        ),
        case(
            "4.2",
            "settings too large",
            sized(SETTINGS, 0, 0, 16_386),
            Right::Connection(SIZE),
        ),
        case(
            "4.2",
            "an unknown type too large",
            sized(0x42, 0, 0, 16_385),
            Right::Connection(SIZE),
        ),
        case(
            "4.3",
            "priority amid a block",
            interrupted.concat(),
            Right::Connection(PROTOCOL),
        ),
        case(
            "4.3",
            "fields of another stream amid a block",
            other.concat(),
            Right::Connection(PROTOCOL),
        ),
        case(
            "4.3",
            "ping amid a block",
            [frame(HEADERS, 1, 1, &block), ping(&[0; 8])].concat(),
            Right::Connection(PROTOCOL),
        ),
        case(
            "4.3",
            "data amid a block",
            [frame(HEADERS, 0, 1, &block), frame(DATA, 1, 1, b"a")].concat(),
            Right::Connection(PROTOCOL),
        ),
        case(
            "4.3",
            "settings amid a block",
            [frame(HEADERS, 0, 1, &block), frame(SETTINGS, 0, 0, &[])].concat(),
            Right::Connection(PROTOCOL),
        ),
        case(
            "5.5",
            "an unknown type amid a block",
            amid.concat(),
            Right::Connection(PROTOCOL),
        ),
    ]
}

fn streams() -> Vec<Case> {
    let reset = |stream: u32| frame(RST_STREAM, 0, stream, &8_u32.to_be_bytes());
    let window = |stream: u32| frame(WINDOW_UPDATE, 0, stream, &1_u32.to_be_bytes());
    let data = |stream: u32| frame(DATA, END_STREAM, stream, b"a");
    let more = |stream: u32| frame(CONTINUATION, END_HEADERS, stream, &[]);
    let own = {
        // A stream that depends on itself.
        let fields = [&[0, 0, 0, 1, 15][..], &get_with(&[])].concat();
        frame(HEADERS, WITH_PRIORITY | 5, 1, &fields)
    };
    vec![
        case("5.1", "idle: data", data(1), Right::Connection(PROTOCOL)),
        case("5.1", "idle: reset", reset(1), Right::Connection(PROTOCOL)),
        case(
            "5.1",
            "idle: window",
            window(1),
            Right::Connection(PROTOCOL),
        ),
        case(
            "5.1",
            "idle: continuation",
            more(1),
            Right::Connection(PROTOCOL),
        ),
        case(
            "5.1",
            "idle: priority",
            [sized(PRIORITY, 0, 3, 5), get(1)].concat(),
            Right::Answered,
        ),
        case(
            "5.1",
            "half closed: data",
            [get(1), data(1)].concat(),
            Right::Stream(CLOSED),
        ),
        case(
            "5.1",
            "half closed: fields",
            [get(1), get(1)].concat(),
            Right::OneOf(&[CLOSED, PROTOCOL]),
        ),
        case(
            "5.1",
            "half closed: continuation",
            [get(1), more(1)].concat(),
            Right::OneOf(&[CLOSED, PROTOCOL]),
        ),
        case(
            "5.1",
            "half closed: window",
            [get(1), window(1)].concat(),
            Right::Answered,
        ),
        case(
            "5.1",
            "half closed: priority",
            [get(1), sized(PRIORITY, 0, 1, 5)].concat(),
            Right::Answered,
        ),
        case(
            "5.1",
            "half closed: reset",
            [get(1), reset(1), get(3)].concat(),
            Right::Answered,
        ),
        case(
            "5.1",
            "closed: data",
            [post(1), reset(1), data(1)].concat(),
            Right::Stream(CLOSED),
        ),
        case(
            "5.1",
            "closed: fields",
            [post(1), reset(1), get(1)].concat(),
            Right::OneOf(&[CLOSED, PROTOCOL]),
        ),
        case(
            "5.1",
            "closed: continuation",
            [post(1), reset(1), more(1)].concat(),
            Right::OneOf(&[CLOSED, PROTOCOL]),
        ),
        case(
            "5.1",
            "closed: priority",
            [post(1), reset(1), sized(PRIORITY, 0, 1, 5), get(3)].concat(),
            Right::Answered,
        ),
        case(
            "5.1",
            "closed: window",
            [post(1), reset(1), window(1), get(3)].concat(),
            Right::Answered,
        ),
        case(
            "5.1.1",
            "an even stream",
            get(2),
            Right::Connection(PROTOCOL),
        ),
        case(
            "5.1.1",
            "a lower stream",
            [get(5), get(3)].concat(),
            Right::OneOf(&[PROTOCOL, CLOSED]),
        ),
        case(
            "5.1.1",
            "streams left out",
            [get(7), get(9)].concat(),
            Right::Answered,
        ),
        case(
            "5.1.2",
            "more streams than may be",
            (0..120).flat_map(|n| post(2 * n + 1)).collect(),
            Right::Stream(REFUSED),
        ),
        case("5.3.1", "depends on itself", own, Right::OneOf(&[PROTOCOL])),
        case(
            "5.3.1",
            "priority of itself",
            [get(1), frame(PRIORITY, 0, 1, &[0, 0, 0, 1, 15])].concat(),
            Right::OneOf(&[PROTOCOL]),
        ),
        case(
            "5.4.1",
            "after an error nothing is served",
            [sized(PING, 0, 0, 7), get(1)].concat(),
            Right::Connection(SIZE),
        ),
    ]
}

fn data_and_headers() -> Vec<Case> {
    let block = get_with(&[]);
    let padded =
        |count: u8, rest: &[u8]| [&[count][..], rest, &vec![0; usize::from(count)]].concat();
    let over = [&[200][..], &block].concat();
    let prioritised = [&[0, 0, 0, 3, 9][..], &block].concat();
    vec![
        case(
            "6.1",
            "data on stream 0",
            frame(DATA, 0, 0, b"a"),
            Right::Connection(PROTOCOL),
        ),
        case(
            "6.1",
            "padded data",
            [post(1), frame(DATA, PADDED | 1, 1, &padded(5, b"a"))].concat(),
            Right::Answered,
        ),
        case(
            "6.1",
            "data with more padding than there is",
            [post(1), frame(DATA, PADDED | 1, 1, &[9, 1, 2])].concat(),
            Right::Connection(PROTOCOL),
        ),
        case(
            "6.1",
            "padded data of nothing",
            [post(1), frame(DATA, PADDED | 1, 1, &[])].concat(),
            Right::OneOf(&[PROTOCOL, SIZE]),
        ),
        case(
            "6.2",
            "fields on stream 0",
            frame(HEADERS, 5, 0, &block),
            Right::Connection(PROTOCOL),
        ),
        case(
            "6.2",
            "padded fields",
            frame(HEADERS, PADDED | 5, 1, &padded(9, &block)),
            Right::Answered,
        ),
        case(
            "6.2",
            "fields with more padding than there is",
            frame(HEADERS, PADDED | 5, 1, &over),
            Right::Connection(PROTOCOL),
        ),
        case(
            "6.2",
            "padded fields of nothing",
            frame(HEADERS, PADDED | 5, 1, &[]),
            Right::OneOf(&[PROTOCOL, SIZE]),
        ),
        case(
            "6.2",
            "fields with priority",
            frame(HEADERS, WITH_PRIORITY | 5, 1, &prioritised),
            Right::Answered,
        ),
        case(
            "6.2",
            "fields with half a priority",
            frame(HEADERS, WITH_PRIORITY | 5, 1, &[0; 3]),
            Right::OneOf(&[PROTOCOL, SIZE]),
        ),
        case(
            "6.3",
            "priority of stream 0",
            sized(PRIORITY, 0, 0, 5),
            Right::Connection(PROTOCOL),
        ),
        case(
            "6.3",
            "priority cut",
            sized(PRIORITY, 0, 1, 4),
            Right::Stream(SIZE),
        ),
        case(
            "6.3",
            "priority too long",
            sized(PRIORITY, 0, 1, 6),
            Right::Stream(SIZE),
        ),
        case(
            "6.4",
            "reset of stream 0",
            sized(RST_STREAM, 0, 0, 4),
            Right::Connection(PROTOCOL),
        ),
        case(
            "6.4",
            "reset cut",
            [post(1), sized(RST_STREAM, 0, 1, 3)].concat(),
            Right::Connection(SIZE),
        ),
        case(
            "6.4",
            "reset too long",
            [post(1), sized(RST_STREAM, 0, 1, 5)].concat(),
            Right::Connection(SIZE),
        ),
        case(
            "6.4",
            "a reset with an unknown code",
            [post(1), frame(RST_STREAM, 0, 1, &[0xff; 4]), get(3)].concat(),
            Right::Answered,
        ),
    ]
}
