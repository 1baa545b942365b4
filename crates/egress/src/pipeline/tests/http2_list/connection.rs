// SPDX-License-Identifier: Apache-2.0
//! RFC 9113 §6.5 to §6.10: settings, pings, farewells, windows, and blocks in several frames.

use super::super::http2_frames::raw::{PUSH_PROMISE, WINDOW_UPDATE};
use super::states::{ping, sized};
use super::*;

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    cases.extend(settings());
    cases.extend(connection());
    cases.extend(windows());
    cases.extend(continuations());
    cases
}

fn settings() -> Vec<Case> {
    let one = |id: u16, value: u32| frame(SETTINGS, 0, 0, &setting(id, value));
    let then = |settings: Vec<u8>| [settings, get(1)].concat();
    let two = frame(
        SETTINGS,
        0,
        0,
        &[setting(4, 1), setting(4, 65_535)].concat(),
    );
    vec![
        case(
            "6.5",
            "an acknowledgement with content",
            frame(SETTINGS, ACK, 0, &setting(1, 0)),
            Right::Connection(SIZE),
        ),
        case(
            "6.5",
            "settings of a stream",
            frame(SETTINGS, 0, 1, &[]),
            Right::Connection(PROTOCOL),
        ),
        case(
            "6.5",
            "settings cut",
            sized(SETTINGS, 0, 0, 5),
            Right::Connection(SIZE),
        ),
        case(
            "6.5",
            "settings with a rest",
            sized(SETTINGS, 0, 0, 7),
            Right::Connection(SIZE),
        ),
        case(
            "6.5",
            "an acknowledgement of nothing that was said",
            then(frame(SETTINGS, ACK, 0, &[])),
            Right::Answered,
        ),
        case(
            "6.5",
            "an acknowledgement more than settings",
            [frame(SETTINGS, ACK, 0, &[]), frame(SETTINGS, ACK, 0, &[])].concat(),
            Right::Connection(PROTOCOL),
        ),
        case("6.5.2", "push 0", then(one(2, 0)), Right::Answered),
        case("6.5.2", "push 1", then(one(2, 1)), Right::Answered),
        case("6.5.2", "push 2", one(2, 2), Right::Connection(PROTOCOL)),
        case(
            "6.5.2",
            "a window over its limit",
            one(4, 0x8000_0000),
            Right::Connection(FLOW),
        ),
        case(
            "6.5.2",
            "the largest window",
            then(one(4, 0x7fff_ffff)),
            Right::Answered,
        ),
        case(
            "6.5.2",
            "frames too small",
            one(5, 16_383),
            Right::Connection(PROTOCOL),
        ),
        case(
            "6.5.2",
            "the smallest frames",
            then(one(5, 16_384)),
            Right::Answered,
        ),
        case(
            "6.5.2",
            "the largest frames",
            then(one(5, 16_777_215)),
            Right::Answered,
        ),
        case(
            "6.5.2",
            "frames too large",
            one(5, 16_777_216),
            Right::Connection(PROTOCOL),
        ),
        case("6.5.2", "no table", then(one(1, 0)), Right::Answered),
        case(
            "6.5.2",
            "an unknown setting",
            then(one(0x9999, 7)),
            Right::Answered,
        ),
        case(
            "6.5.3",
            "each is acknowledged",
            one(3, 100),
            Right::Says(SETTINGS, ACK),
        ),
        case(
            "6.5.3",
            "the last of two counts",
            then(two),
            Right::Answered,
        ),
        case(
            "6.6",
            "a push",
            frame(
                PUSH_PROMISE,
                4,
                1,
                &[&[0, 0, 0, 2][..], &get_with(&[])].concat(),
            ),
            Right::Connection(PROTOCOL),
        ),
        case(
            "6.6",
            "a push on an open stream",
            [post(1), frame(PUSH_PROMISE, 4, 1, &[0, 0, 0, 2])].concat(),
            Right::Connection(PROTOCOL),
        ),
    ]
}

fn connection() -> Vec<Case> {
    let goaway = [&0_u32.to_be_bytes()[..], &0_u32.to_be_bytes()].concat();
    vec![
        case(
            "6.7",
            "a ping is answered",
            ping(&[1; 8]),
            Right::Says(PING, ACK),
        ),
        case(
            "6.7",
            "an answer is none to a ping",
            [frame(PING, ACK, 0, &[1; 8]), get(1)].concat(),
            Right::Answered,
        ),
        case(
            "6.7",
            "ping of a stream",
            frame(PING, 0, 1, &[0; 8]),
            Right::Connection(PROTOCOL),
        ),
        case("6.7", "ping cut", ping(&[0; 6]), Right::Connection(SIZE)),
        case(
            "6.7",
            "ping too long",
            ping(&[0; 9]),
            Right::Connection(SIZE),
        ),
        case("6.7", "an empty ping", ping(&[]), Right::Connection(SIZE)),
        case(
            "6.8",
            "goaway of a stream",
            frame(GOAWAY, 0, 1, &goaway),
            Right::Connection(PROTOCOL),
        ),
        case(
            "6.8",
            "goaway cut",
            sized(GOAWAY, 0, 0, 7),
            Right::Connection(SIZE),
        ),
        case(
            "6.8",
            "a later goaway names a higher stream",
            {
                let higher = [&2_u32.to_be_bytes()[..], &[0; 4]].concat();
                let first = frame(GOAWAY, 0, 0, &goaway);
                [first, frame(GOAWAY, 0, 0, &higher)].concat()
            },
            Right::Connection(PROTOCOL),
        ),
        case(
            "6.8",
            "a request before goaway",
            [get(1), frame(GOAWAY, 0, 0, &goaway)].concat(),
            Right::Answered,
        ),
    ]
}

fn windows() -> Vec<Case> {
    let window = |stream: u32, by: u32| frame(WINDOW_UPDATE, 0, stream, &by.to_be_bytes());
    let small = frame(SETTINGS, 0, 0, &setting(4, 1));
    let most = 0x7fff_ffff;
    vec![
        case(
            "6.9",
            "nothing for the connection",
            window(0, 0),
            Right::Connection(PROTOCOL),
        ),
        case(
            "6.9",
            "nothing for a stream",
            [post(1), window(1, 0)].concat(),
            Right::Stream(PROTOCOL),
        ),
        case(
            "6.9",
            "cut",
            sized(WINDOW_UPDATE, 0, 0, 3),
            Right::Connection(SIZE),
        ),
        case(
            "6.9",
            "too long",
            sized(WINDOW_UPDATE, 0, 0, 5),
            Right::Connection(SIZE),
        ),
        case(
            "6.9",
            "the reserved bit of the step",
            [window(0, 0x8000_0001), get(1)].concat(),
            Right::Answered,
        ),
        case(
            "6.9.1",
            "the connection's overflows",
            [window(0, most), window(0, most)].concat(),
            Right::Connection(FLOW),
        ),
        case(
            "6.9.1",
            "a stream's overflows",
            [post(1), window(1, most), window(1, most)].concat(),
            Right::Stream(FLOW),
        ),
        case(
            "6.9.2",
            "a window of one byte",
            [small.clone(), get(1)].concat(),
            Right::Answered,
        ),
        case(
            "6.9.2",
            "a window that grows by a setting",
            [small, get(1), frame(SETTINGS, 0, 0, &setting(4, 9))].concat(),
            Right::Says(SETTINGS, ACK),
        ),
        case(
            "6.9.2",
            "a setting that overflows an open window",
            [
                post(1),
                window(1, most - 65_535),
                frame(SETTINGS, 0, 0, &setting(4, 65_536)),
            ]
            .concat(),
            Right::Connection(FLOW),
        ),
    ]
}

fn continuations() -> Vec<Case> {
    let block = get_with(&[]);
    let (first, rest) = block.split_at(7);
    let begun = frame(HEADERS, END_STREAM, 1, first);
    let more = |flags: u8, stream: u32, part: &[u8]| frame(CONTINUATION, flags, stream, part);
    let (second, third) = rest.split_at(5);
    vec![
        case(
            "6.10",
            "one",
            [begun.clone(), more(END_HEADERS, 1, rest)].concat(),
            Right::Answered,
        ),
        case(
            "6.10",
            "two",
            [
                begun.clone(),
                more(0, 1, second),
                more(END_HEADERS, 1, third),
            ]
            .concat(),
            Right::Answered,
        ),
        case(
            "6.10",
            "an empty one",
            [begun.clone(), more(0, 1, rest), more(END_HEADERS, 1, &[])].concat(),
            Right::Answered,
        ),
        case(
            "6.10",
            "behind the end",
            [get(1), more(END_HEADERS, 1, rest)].concat(),
            Right::OneOf(&[PROTOCOL, CLOSED]),
        ),
        case(
            "6.10",
            "two behind the end",
            [
                begun.clone(),
                more(END_HEADERS, 1, rest),
                more(END_HEADERS, 1, rest),
            ]
            .concat(),
            Right::OneOf(&[PROTOCOL, CLOSED]),
        ),
        case(
            "6.10",
            "on stream 0",
            [begun.clone(), more(END_HEADERS, 0, rest)].concat(),
            Right::Connection(PROTOCOL),
        ),
        case(
            "6.10",
            "of another stream",
            [begun, more(END_HEADERS, 3, rest)].concat(),
            Right::Connection(PROTOCOL),
        ),
        case(
            "6.10",
            "behind data",
            [post(1), frame(DATA, 0, 1, b"a"), more(END_HEADERS, 1, rest)].concat(),
            Right::Connection(PROTOCOL),
        ),
    ]
}
