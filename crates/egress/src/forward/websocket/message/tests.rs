// SPDX-License-Identifier: Apache-2.0
//! Frames against the cases of the Autobahn suite that a relay can be asked, and against a slow
//! reference that sees the whole stream at once.

use super::*;
use proptest::prelude::*;

const MASK: Mask = [0x37, 0xfa, 0x21, 0x3d];

/// One frame as RFC 6455 §5.2 draws it; `first` is its first byte.
fn frame(first: u8, payload: &[u8], sender: Sender) -> Vec<u8> {
    let masked = if sender == Sender::Client { 0x80 } else { 0 };
    let mut out = vec![first];
    match payload.len() {
        length @ 0..126 => out.push(masked | u8::try_from(length).unwrap()),
        length @ 126..65_536 => {
            out.push(masked | 126);
            out.extend(u16::try_from(length).unwrap().to_be_bytes());
        }
        length => {
            out.push(masked | 127);
            out.extend(u64::try_from(length).unwrap().to_be_bytes());
        }
    }
    if sender == Sender::Server {
        out.extend_from_slice(payload);
    } else {
        out.extend_from_slice(&MASK);
        out.extend(payload.iter().zip(MASK.iter().cycle()).map(|(b, m)| b ^ m));
    }
    out
}

/// What a stream says: whole messages and control frames in the order of their ends, then the
/// fault, if any.
type Said = (Vec<(u8, Vec<u8>)>, Option<Violation>);

fn read(stream: &[u8], sender: Sender, sizes: &[usize]) -> Said {
    let mut messages = Messages::new(sender);
    let (mut said, mut message) = (Vec::new(), Vec::new());
    let (mut start, mut end, mut data) = (0, 0, Vec::new());
    let mut sizes = sizes.iter().copied().cycle();
    loop {
        match messages.next(&stream[start..end], &mut data) {
            Err(violation) => return (said, Some(violation)),
            Ok((count, event)) => {
                start += count;
                match event {
                    None if end == stream.len() => return (said, None),
                    None => end = stream.len().min(end + sizes.next().unwrap()),
                    Some(Event::Piece { kind, is_last }) => {
                        message.extend_from_slice(&data);
                        if is_last {
                            let kind = if kind == Kind::Text { 1 } else { 2 };
                            said.push((kind, std::mem::take(&mut message)));
                        }
                    }
                    Some(Event::Beat(Opcode::Ping)) => said.push((9, data.clone())),
                    Some(Event::Beat(_)) => said.push((10, data.clone())),
                    Some(Event::Close) => said.push((8, data.clone())),
                }
            }
        }
    }
}

/// The same from all bytes at once, frame by frame, with nothing kept but the message so far.
fn reference(stream: &[u8], sender: Sender) -> Said {
    let (mut said, mut rest) = (Vec::new(), stream);
    let mut open: Option<(u8, Vec<u8>)> = None;
    let text = |bytes: &[u8], whole: bool| match std::str::from_utf8(bytes) {
        Ok(_) => true,
        Err(error) => error.error_len().is_none() && !whole,
    };
    loop {
        let (Some(first), second) = (rest.first(), rest.get(1)) else {
            return (said, None);
        };
        let (opcode, is_final) = (first & 15, first & 128 != 0);
        if first & 0x70 != 0 || !matches!(opcode, 0..=2 | 8..=10) || (opcode > 7 && !is_final) {
            return (said, Some(Violation::Protocol));
        }
        let Some(second) = second else {
            return (said, None);
        };
        let (masked, short) = (second & 128 != 0, usize::from(second & 127));
        if masked != (sender == Sender::Client) || (opcode > 7 && short > 125) {
            return (said, Some(Violation::Protocol));
        }
        let more = [0, 2, 8][usize::from(short > 125) + usize::from(short > 126)];
        let Some(digits) = rest.get(2..2 + more) else {
            return (said, None);
        };
        let spelled = digits.iter().fold(0_u64, |n, d| (n << 8) | u64::from(*d));
        let (least, most) =
            [(0, 125), (126, 65_535), (65_536, u64::MAX >> 1)][more.min(3).div_ceil(2)];
        let length = if more == 0 { short as u64 } else { spelled };
        if length < least || length > most {
            return (said, Some(Violation::Protocol));
        }
        let head = 2 + more + if masked { 4 } else { 0 };
        if rest.len() < head {
            return (said, None);
        }
        if opcode < 3 && (opcode == 0) != open.is_some() {
            return (said, Some(Violation::Protocol));
        }
        let end = head + usize::try_from(length).unwrap();
        let Some(body) = rest.get(head..end) else {
            return (said, None);
        };
        // Without a mask these are other bytes, and not used.
        let mask = rest[head.max(4) - 4..].iter().take(4).cycle();
        let unmasked = body.iter().zip(mask).map(|(b, m)| b ^ m);
        let payload = if masked {
            unmasked.collect()
        } else {
            body.to_vec()
        };
        rest = &rest[end..];
        if opcode == 8 && !payload.is_empty() {
            let code = payload
                .iter()
                .take(2)
                .fold(0, |n, d| (n << 8) | u32::from(*d));
            let may = matches!(code, 1000..1004 | 1007..1015 | 3000..5000);
            if payload.len() < 2 || !may {
                return (said, Some(Violation::Protocol));
            }
            if !text(&payload[2..], true) {
                return (said, Some(Violation::Text));
            }
        }
        if opcode > 7 {
            said.push((opcode, payload));
            continue;
        }
        let (kind, mut message) = open.take().unwrap_or((opcode, Vec::new()));
        message.extend_from_slice(&payload);
        if kind == 1 && !text(&message, is_final) {
            return (said, Some(Violation::Text));
        }
        if is_final {
            said.push((kind, message));
        } else {
            open = Some((kind, message));
        }
    }
}

/// `(case of the suite, frames as first byte and payload, what is heard before the end, the end)`.
type Row = (
    &'static str,
    &'static [(u8, &'static [u8])],
    &'static [(u8, &'static [u8])],
    Option<Violation>,
);

const FAULT: Option<Violation> = Some(Violation::Protocol);
const NO_TEXT: Option<Violation> = Some(Violation::Text);

/// Rows of the Autobahn suite: sections 1 to 7. What its echo server answers is what a relay passes.
const ROWS: &[Row] = &[
    ("1.1.1", &[(0x81, b"")], &[(1, b"")], None),
    ("1.1.2", &[(0x81, &[b'*'; 125])], &[(1, &[b'*'; 125])], None),
    ("1.1.3", &[(0x81, &[b'*'; 126])], &[(1, &[b'*'; 126])], None),
    ("1.1.5", &[(0x81, &[b'*'; 128])], &[(1, &[b'*'; 128])], None),
    ("1.2.1", &[(0x82, b"")], &[(2, b"")], None),
    ("1.2.4", &[(0x82, &[0xfe; 127])], &[(2, &[0xfe; 127])], None),
    ("2.1", &[(0x89, b"")], &[(9, b"")], None),
    (
        "2.3",
        &[(0x89, b"\x00\xff\xfe\xfd")],
        &[(9, b"\x00\xff\xfe\xfd")],
        None,
    ),
    ("2.4", &[(0x89, &[0xfe; 125])], &[(9, &[0xfe; 125])], None),
    ("2.5", &[(0x89, &[0xfe; 126])], &[], FAULT),
    (
        "2.8",
        &[(0x8a, b"unasked"), (0x89, b"p")],
        &[(10, b"unasked"), (9, b"p")],
        None,
    ),
    ("3.1", &[(0xc1, b"rsv1")], &[], FAULT),
    (
        "3.2",
        &[(0x81, b"a"), (0xa1, b"rsv2"), (0x89, b"")],
        &[(1, b"a")],
        FAULT,
    ),
    ("3.3", &[(0x81, b"a"), (0x91, b"rsv3")], &[(1, b"a")], FAULT),
    ("3.5", &[(0xd2, b"rsv1 and 3")], &[], FAULT),
    ("3.6", &[(0xe9, b"rsv1 and 2")], &[], FAULT),
    ("3.7", &[(0xf8, b"all of them")], &[], FAULT),
    ("4.1.1", &[(0x83, b"")], &[], FAULT),
    (
        "4.1.3",
        &[(0x81, b"a"), (0x85, b""), (0x89, b"")],
        &[(1, b"a")],
        FAULT,
    ),
    ("4.1.5", &[(0x81, b"a"), (0x87, b"")], &[(1, b"a")], FAULT),
    ("4.2.1", &[(0x8b, b"")], &[], FAULT),
    ("4.2.5", &[(0x81, b"a"), (0x8f, b"")], &[(1, b"a")], FAULT),
    ("5.1", &[(0x09, b"a"), (0x80, b"b")], &[], FAULT),
    ("5.2", &[(0x0a, b"a"), (0x80, b"b")], &[], FAULT),
    ("5.3", &[(0x01, b"a"), (0x80, b"b")], &[(1, b"ab")], None),
    (
        "5.6",
        &[(0x01, b"a"), (0x89, b"p"), (0x80, b"b")],
        &[(9, b"p"), (1, b"ab")],
        None,
    ),
    ("5.9", &[(0x80, b"a"), (0x81, b"b")], &[], FAULT),
    ("5.12", &[(0x00, b"a"), (0x81, b"b")], &[], FAULT),
    (
        "5.15",
        &[(0x01, b"a"), (0x80, b"b"), (0x00, b"c")],
        &[(1, b"ab")],
        FAULT,
    ),
    ("5.18", &[(0x01, b"a"), (0x81, b"b")], &[], FAULT),
    (
        "5.19",
        &[
            (0x01, b"1"),
            (0x00, b"2"),
            (0x89, b"x"),
            (0x00, b"3"),
            (0x89, b"y"),
            (0x80, b"4"),
        ],
        &[(9, b"x"), (9, b"y"), (1, b"1234")],
        None,
    ),
    (
        "6.1.2",
        &[(0x01, b""), (0x00, b""), (0x80, b"")],
        &[(1, b"")],
        None,
    ),
    (
        "6.1.3",
        &[(0x01, b""), (0x00, b"middle"), (0x80, b"")],
        &[(1, b"middle")],
        None,
    ),
    (
        "6.2.1",
        &[(0x81, "Hello-µ@ßöä".as_bytes())],
        &[(1, "Hello-µ@ßöä".as_bytes())],
        None,
    ),
    (
        "6.2.3",
        &[(0x01, b"\xce"), (0x80, b"\xba")],
        &[(1, "κ".as_bytes())],
        None,
    ),
    (
        "6.3.1",
        &[(0x81, b"\xce\xba\xed\xa0\x80edited")],
        &[],
        NO_TEXT,
    ),
    (
        "6.4.1",
        &[(0x01, b"ok"), (0x00, b"\xf4\x90\x80\x80"), (0x80, b"")],
        &[],
        NO_TEXT,
    ),
    ("6.5.1", &[(0x81, b"\xce\xba\xe1\xbd")], &[], NO_TEXT),
    ("6.6.1", &[(0x81, b"\xce")], &[], NO_TEXT),
    ("6.7.1", &[(0x81, b"\x00")], &[(1, b"\x00")], None),
    ("6.8.1", &[(0x81, b"\xf8\x88\x80\x80\x80")], &[], NO_TEXT),
    (
        "6.9.4",
        &[(0x81, b"\xf4\x8f\xbf\xbf")],
        &[(1, b"\xf4\x8f\xbf\xbf")],
        None,
    ),
    ("6.10.1", &[(0x81, b"\xf7\xbf\xbf\xbf")], &[], NO_TEXT),
    ("6.11.5", &[(0x81, b"\xf4\x90\x80\x80")], &[], NO_TEXT),
    ("6.12.1", &[(0x81, b"\x80")], &[], NO_TEXT),
    ("6.14.1", &[(0x81, b"\xc0")], &[], NO_TEXT),
    ("6.15.1", &[(0x81, b"\xc0\xdf\xe0")], &[], NO_TEXT),
    ("6.17.1", &[(0x81, b"\xfe")], &[], NO_TEXT),
    ("6.18.1", &[(0x81, b"\xc0\xaf")], &[], NO_TEXT),
    ("6.19.1", &[(0x81, b"\xc1\xbf")], &[], NO_TEXT),
    ("6.20.1", &[(0x81, b"\xed\xa0\x80")], &[], NO_TEXT),
    (
        "6.22.1",
        &[(0x81, b"\xef\xbf\xbe")],
        &[(1, b"\xef\xbf\xbe")],
        None,
    ),
    ("7.3.1", &[(0x88, b"")], &[(8, b"")], None),
    ("7.3.2", &[(0x88, b"a")], &[], FAULT),
    ("7.3.3", &[(0x88, b"\x03\xe8")], &[(8, b"\x03\xe8")], None),
    (
        "7.3.4",
        &[(0x88, b"\x03\xe8bye")],
        &[(8, b"\x03\xe8bye")],
        None,
    ),
    ("7.3.6", &[(0x88, &[3; 126])], &[], FAULT),
    (
        "7.5.1",
        &[(0x88, b"\x03\xe8\xce\xba\xed\xa0\x80")],
        &[],
        NO_TEXT,
    ),
    ("7.7.3", &[(0x88, b"\x03\xea")], &[(8, b"\x03\xea")], None),
    ("7.7.10", &[(0x88, b"\x0b\xb8")], &[(8, b"\x0b\xb8")], None),
    ("7.7.13", &[(0x88, b"\x13\x87")], &[(8, b"\x13\x87")], None),
    ("7.9.1", &[(0x88, b"\x00\x00")], &[], FAULT),
    ("7.9.3", &[(0x88, b"\x03\xec")], &[], FAULT),
    ("7.9.4", &[(0x88, b"\x03\xed")], &[], FAULT),
    ("7.9.6", &[(0x88, b"\x03\xf8")], &[], FAULT),
    ("7.9.9", &[(0x88, b"\x0b\xb7")], &[], FAULT),
    ("7.13.1", &[(0x88, b"\x13\x88")], &[], FAULT),
];

#[test]
fn the_rows_of_the_autobahn_suite_hold_for_both_senders_however_they_are_cut() {
    for (case, frames, heard, end) in ROWS {
        let heard: Vec<_> = heard.iter().map(|(k, p)| (*k, p.to_vec())).collect();
        for sender in [Sender::Client, Sender::Server] {
            let parts = frames.iter().map(|(first, p)| frame(*first, p, sender));
            let stream: Vec<u8> = parts.flatten().collect();
            for sizes in [&[usize::MAX >> 1][..], &[1], &[2, 3], &[7]] {
                let said = read(&stream, sender, sizes);
                assert_eq!(said, (heard.clone(), *end), "{case} {sender:?} {sizes:?}");
            }
            assert_eq!(reference(&stream, sender), (heard.clone(), *end), "{case}");
        }
    }
}

#[test]
fn lengths_are_spelled_in_the_shortest_form_and_masks_are_the_clients() {
    for (stream, sender) in [
        (&b"\x81\xfe\x00\x7d"[..], Sender::Client),
        (b"\x81\xff\0\0\0\0\0\0\xff\xff", Sender::Client),
        (b"\x82\x7f\x80\0\0\0\0\x01\0\0", Sender::Server),
        (b"\x81\x05Hello", Sender::Client),
        (b"\x81\x85\x01\x02\x03\x04Hello", Sender::Server),
    ] {
        assert_eq!(read(stream, sender, &[1]).1, FAULT, "{stream:?}");
        assert_eq!(reference(stream, sender).1, FAULT, "{stream:?}");
    }
}

#[test]
fn a_large_frame_is_passed_on_before_it_is_whole_and_a_small_one_in_one_piece() {
    let large = frame(0x82, &[7; 3 * PIECE_BYTES], Sender::Client);
    let mut messages = Messages::new(Sender::Client);
    let mut data = Vec::new();
    let (count, event) = messages.next(&large[..1000], &mut data).unwrap();
    assert_eq!((count, data.len()), (1000, 1000 - 14));
    let is_piece =
        |event, last| matches!(event, Some(Event::Piece { is_last, .. }) if is_last == last);
    assert!(is_piece(event, false));
    let small = frame(0x82, &[7; PIECE_BYTES], Sender::Client);
    let mut messages = Messages::new(Sender::Client);
    let cut = small.len() - 1;
    assert_eq!(messages.next(&small[..cut], &mut data).unwrap(), (0, None));
    let (count, event) = messages.next(&small, &mut data).unwrap();
    assert_eq!((count, data.len()), (small.len(), PIECE_BYTES));
    assert!(is_piece(event, true));
}

/// A payload that is mostly a text.
fn payload() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        "[a-zµ€😀]{0,40}".prop_map(String::into_bytes),
        proptest::collection::vec(any::<u8>(), 0..200),
        (120_usize..140).prop_map(|length| vec![b'x'; length]),
        (65_530_usize..65_540).prop_map(|length| vec![b'x'; length]),
    ]
}

/// Frames that mostly follow on each other.
fn stream(sender: Sender) -> impl Strategy<Value = Vec<u8>> {
    let first = prop_oneof![
        6 => Just(0x80_u8), 3 => Just(0x00), 3 => Just(0x81), 3 => Just(0x01), 2 => Just(0x82),
        2 => Just(0x02), 2 => Just(0x89), 1 => Just(0x8a), 1 => Just(0x88), 1 => any::<u8>(),
    ];
    let frames = proptest::collection::vec((first, payload()), 1..12);
    let frames = frames.prop_map(move |frames| {
        let parts = frames
            .iter()
            .map(|(first, data)| frame(*first, data, sender));
        parts.flatten().collect::<Vec<u8>>()
    });
    // A byte that is flipped, and an end that is missing.
    (frames, any::<Option<(u16, u8)>>(), any::<Option<u16>>()).prop_map(|(mut bytes, flip, cut)| {
        let length = bytes.len();
        if let Some((at, with)) = flip {
            bytes[usize::from(at) % length] ^= with;
        }
        if let Some(at) = cut {
            bytes.truncate(usize::from(at) % length);
        }
        bytes
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_stream_of_frames_says_what_the_slow_reference_says_however_it_is_cut(
        (sender, bytes) in prop_oneof![Just(Sender::Client), Just(Sender::Server)]
            .prop_flat_map(|sender| (Just(sender), stream(sender))),
        sizes in proptest::collection::vec(1_usize..5_000, 1..8),
    ) {
        let (said, end) = read(&bytes, sender, &sizes);
        let (known, known_end) = reference(&bytes, sender);
        prop_assert_eq!(said, known);
        // In a frame that is passed on before it is whole, a fault of its text is seen earlier.
        if end != known_end {
            prop_assert_eq!((end, known_end), (Some(Violation::Text), None));
        }
    }

    #[test]
    fn what_is_written_anew_says_the_same(
        (sender, bytes) in prop_oneof![Just(Sender::Client), Just(Sender::Server)]
            .prop_flat_map(|sender| (Just(sender), stream(sender))),
    ) {
        let first = if sender == Sender::Client { 0 } else { 1 };
        crate::fuzz::fuzz_websocket_frames(&[&[first], bytes.as_slice()].concat());
    }
}
