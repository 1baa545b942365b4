// SPDX-License-Identifier: Apache-2.0
//! Each fault has its code in every cut, and what is none has none. The whole list, against the
//! gate itself, stands in `pipeline/tests/http2_list`.

use super::super::frames::Frames;
use super::super::frames::tests::frame;
use super::*;
use crate::fuzz::fuzz_http2_frames;
use proptest::prelude::*;

const ACK: u8 = 1;

/// What is found in a client's frames behind its settings, when they come in pieces of that size.
fn found(bytes: &[u8], cut: usize) -> Result<(), Code> {
    let mut faults = Faults::default();
    follow(&mut faults, &frame(kind::SETTINGS, 0, 0, &[]), 9).unwrap();
    follow(&mut faults, bytes, cut)
}

fn follow(faults: &mut Faults, bytes: &[u8], cut: usize) -> Result<(), Code> {
    let mut frames = Frames::new(false);
    for mut piece in bytes.chunks(cut) {
        while let Some(part) = frames.next(&mut piece) {
            faults.came(part)?;
        }
    }
    Ok(())
}

fn headers(stream: u32, flags: u8) -> Vec<u8> {
    frame(kind::HEADERS, flag::END_HEADERS | flags, stream, b"\x82")
}

fn settings(list: &[(u16, u32)]) -> Vec<u8> {
    let each = list.iter().flat_map(|(name, value)| {
        let name = name.to_be_bytes().into_iter();
        name.chain(value.to_be_bytes())
    });
    frame(kind::SETTINGS, 0, 0, &each.collect::<Vec<_>>())
}

#[test]
fn each_fault_has_the_code_that_its_rfc_names() {
    let open = headers(1, 0);
    let over = headers(1, flag::END_STREAM);
    let data = |flags: u8, bytes: &[u8]| frame(kind::DATA, flags, 1, bytes);
    let begun = frame(kind::HEADERS, 0, 1, b"\x82");
    let size = Code::FRAME_SIZE_ERROR;
    let protocol = Code::PROTOCOL_ERROR;
    let unpackable = Code::COMPRESSION_ERROR;
    let two = |a: &[u8], b: &[u8]| [a, b].concat();
    let farewell = |last: u32| frame(kind::GOAWAY, 0, 0, &two(&last.to_be_bytes(), &[0; 4]));
    let window =
        |stream: u32, step: u32| frame(kind::WINDOW_UPDATE, 0, stream, &step.to_be_bytes());
    for (what, bytes, code) in [
        (
            "a ping of seven bytes",
            frame(kind::PING, 0, 0, &[0; 7]),
            size,
        ),
        ("half a setting", frame(kind::SETTINGS, 0, 0, &[0; 9]), size),
        ("a frame too large", frame(0x42, 0, 0, &[0; 16_385]), size),
        (
            "padding without its length",
            two(&open, &data(flag::PADDED, &[])),
            size,
        ),
        (
            "more padding than there is",
            two(&open, &data(flag::PADDED, &[2, 0])),
            protocol,
        ),
        ("a push of two", settings(&[(4, 1), (2, 2)]), protocol),
        (
            "a window beyond all",
            settings(&[(4, 1 << 31)]),
            Code::FLOW_CONTROL_ERROR,
        ),
        ("frames beyond all", settings(&[(5, 1 << 24)]), protocol),
        (
            "data behind the end",
            two(&over, &data(0, b"a")),
            Code::STREAM_CLOSED,
        ),
        (
            "fields behind the end",
            two(&over, &over),
            Code::STREAM_CLOSED,
        ),
        ("data of nobody", data(0, b"a"), protocol),
        ("an even stream", headers(2, 0), protocol),
        (
            "a window of nothing",
            two(&open, &window(1, 1 << 31)),
            protocol,
        ),
        ("a window of nobody", window(3, 1), protocol),
        (
            "another frame amid a block",
            two(&begun, &window(0, 1)),
            protocol,
        ),
        (
            "a block that was over",
            frame(kind::CONTINUATION, 0, 1, &[]),
            protocol,
        ),
        (
            "an answer to nothing",
            frame(kind::SETTINGS, ACK, 0, &[]),
            protocol,
        ),
        (
            "an index of nothing",
            frame(kind::HEADERS, 5, 1, b"\x82\x80"),
            unpackable,
        ),
        (
            "an index of nothing behind a priority, before padding",
            frame(kind::HEADERS, 0x2d, 1, b"\x01\0\0\0\0\x10\x80\x82"),
            unpackable,
        ),
        (
            "a block that ends too early",
            two(
                &frame(kind::HEADERS, 1, 1, b"\x82\0\x01a"),
                &frame(kind::CONTINUATION, 4, 1, &[]),
            ),
            unpackable,
        ),
        (
            "a promise",
            frame(kind::PUSH_PROMISE, 0, 1, &[0; 4]),
            protocol,
        ),
        (
            "a farewell taken back",
            two(&farewell(1), &farewell(3)),
            protocol,
        ),
    ] {
        for cut in [1, 3, 7, bytes.len()] {
            assert_eq!(found(&bytes, cut), Err(code), "{what}, by {cut}");
        }
    }
    let late = follow(&mut Faults::default(), &headers(1, 0), 5);
    assert_eq!(late, Err(protocol), "settings do not come first");
}

#[test]
fn what_is_right_and_what_is_on_its_way_has_no_fault() {
    let begun = frame(kind::HEADERS, flag::END_STREAM, 5, b"\x82");
    let right = [
        headers(1, 0),
        frame(kind::DATA, flag::PADDED, 1, &[1, b'a', 0]),
        frame(kind::WINDOW_UPDATE, 0, 1, &[0, 0, 0, 1]),
        // What looks like an index of nothing is padding and a priority.
        frame(kind::HEADERS, 0x2d, 1, b"\x01\0\0\0\0\x80\x82\x80"),
        frame(kind::WINDOW_UPDATE, 0, 1, &[0, 0, 0, 1]),
        frame(kind::PRIORITY, 0, 9, &[0; 5]),
        begun,
        frame(kind::CONTINUATION, 0, 5, b"\0\x01a"),
        frame(kind::CONTINUATION, 0, 5, &[]),
        frame(kind::CONTINUATION, flag::END_HEADERS, 5, b"\x01b"),
        frame(0x42, 0xff, 77, b"any"),
        settings(&[(0x9999, 7), (4, 0x7fff_ffff)]),
    ];
    assert_eq!(found(&right.concat(), 4), Ok(()));
    // A client has not read yet that its stream was reset.
    let mut faults = Faults::default();
    let greeting = frame(kind::SETTINGS, 0, 0, &[]);
    follow(&mut faults, &[greeting, headers(1, 0)].concat(), 4).unwrap();
    let header = |kind: u8, stream: u32| Header {
        kind,
        stream,
        ..Header::default()
    };
    faults.went(header(kind::RST_STREAM, 1));
    let late = frame(kind::DATA, flag::END_STREAM, 1, b"a");
    assert_eq!(follow(&mut faults, &late, 4), Ok(()));
    faults.went(header(kind::SETTINGS, 0));
    let told = frame(kind::SETTINGS, ACK, 0, &[]);
    assert_eq!(follow(&mut faults, &told, 4), Ok(()));
}

#[test]
fn a_flood_of_streams_is_too_much_and_what_is_remembered_is_bounded() {
    let mut faults = Faults::default();
    follow(&mut faults, &frame(kind::SETTINGS, 0, 0, &[]), 9).unwrap();
    let mut stream = 1;
    while follow(&mut faults, &headers(stream, 0), 99).is_ok() {
        stream += 2;
    }
    assert_eq!(usize::try_from(stream).unwrap() / 2, OPEN_MAX);
    for stream in (1..9_999).step_by(2) {
        faults.open.insert(stream);
        faults.went(Header {
            kind: kind::RST_STREAM,
            stream,
            ..Header::default()
        });
    }
    assert_eq!(faults.reset.len(), RESET_MAX);
}

proptest! {
    #[test]
    fn how_frames_are_cut_changes_no_fault(
        frames in prop::collection::vec(
            (0_u8..11, any::<u8>(), 0_u32..6, prop::collection::vec(any::<u8>(), 0..14)),
            0..12,
        ),
        cut in 1_usize..20,
    ) {
        let bytes: Vec<u8> = frames
            .iter()
            .flat_map(|(kind, flags, stream, payload)| frame(*kind, *flags, *stream, payload))
            .collect();
        prop_assert_eq!(found(&bytes, cut), found(&bytes, bytes.len().max(1)));
        fuzz_http2_frames(&bytes);
    }
}
