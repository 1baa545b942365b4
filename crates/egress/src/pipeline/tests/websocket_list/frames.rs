// SPDX-License-Identifier: Apache-2.0
//! Sections 1 to 5 and 10: sizes, pings and pongs, reserved bits, opcodes, fragments.

use super::*;

pub(super) fn cases() -> Vec<Case> {
    let mut cases = sizes();
    cases.extend(beats());
    cases.extend(reserved_bits());
    cases.extend(opcodes());
    cases.extend(fragments());
    cases.extend(broken_order());
    cases
}

fn sizes() -> Vec<Case> {
    let mut cases = Vec::new();
    for (section, first) in [("1.1", TEXT), ("1.2", BINARY)] {
        for size in [0, 125, 126, 127, 128, 65_535, 65_536] {
            let payload = vec![b'x'; size];
            cases.push(case(
                section,
                &format!("{size} bytes"),
                &[(first, &payload)],
                Right::Passes,
            ));
        }
        let payload = vec![b'x'; 65_536];
        cases.push(
            case(
                section,
                "in parts of 997 bytes",
                &[(first, &payload)],
                Right::Passes,
            )
            .cut(997),
        );
        let payload = vec![b'x'; 300];
        cases.push(case(section, "byte by byte", &[(first, &payload)], Right::Passes).cut(1));
    }
    let payload = vec![b'x'; 65_536];
    let parts: Vec<(u8, &[u8])> = payload
        .chunks(1_300)
        .enumerate()
        .map(|(at, part)| (if at == 0 { TEXT_PART } else { PART }, part))
        .chain([(LAST, &b""[..])])
        .collect();
    cases.push(case(
        "10.1",
        "one message in many fragments",
        &parts,
        Right::Passes,
    ));
    cases
}

fn beats() -> Vec<Case> {
    let longest = [0xfe; 125];
    let too_long = [0xfe; 126];
    let ten: Vec<(u8, &[u8])> = vec![(PING, b"again"); 10];
    vec![
        case("2.1", "an empty ping", &[(PING, b"")], Right::Passes),
        case(
            "2.2",
            "a ping with text",
            &[(PING, b"Hello")],
            Right::Passes,
        ),
        case(
            "2.3",
            "a ping with any bytes",
            &[(PING, b"\0\xff\xfe\xfd")],
            Right::Passes,
        ),
        case(
            "2.4",
            "the longest ping",
            &[(PING, &longest)],
            Right::Passes,
        ),
        case(
            "2.5",
            "a ping that is too long",
            &[(PING, &too_long)],
            Right::Fails(1002),
        ),
        case(
            "2.6",
            "the longest ping, byte by byte",
            &[(PING, &longest)],
            Right::Passes,
        )
        .cut(1),
        case(
            "2.7",
            "an empty pong that nobody asked for",
            &[(PONG, b"")],
            Right::Passes,
        ),
        case(
            "2.8",
            "a pong that nobody asked for",
            &[(PONG, b"unasked")],
            Right::Passes,
        ),
        case(
            "2.9",
            "a pong and then a ping",
            &[(PONG, b"unasked"), (PING, b"p")],
            Right::Passes,
        ),
        case("2.10", "ten pings", &ten, Right::Passes),
        case("2.11", "ten pings, byte by byte", &ten, Right::Passes).cut(1),
        case(
            "2.12",
            "a pong that is too long",
            &[(PONG, &too_long)],
            Right::Fails(1002),
        ),
    ]
}

fn reserved_bits() -> Vec<Case> {
    let broken = Right::Fails(1002);
    vec![
        case(
            "3.1",
            "the third bit",
            &[(0x10 | TEXT, b"a")],
            broken.clone(),
        ),
        case(
            "3.2",
            "the second bit, behind a text",
            &[(TEXT, b"a"), (0x20 | TEXT, b"b"), (PING, b"")],
            broken.clone(),
        ),
        case(
            "3.3",
            "both, behind a text",
            &[(TEXT, b"a"), (0x30 | TEXT, b"b"), (PING, b"")],
            broken.clone(),
        ),
        case(
            "3.4",
            "the first bit, byte by byte",
            &[(TEXT, b"a"), (0x40 | TEXT, b"b")],
            broken.clone(),
        )
        .cut(1),
        case(
            "3.5",
            "first and third bit of a binary",
            &[(0x50 | BINARY, b"\xff")],
            broken.clone(),
        ),
        case(
            "3.6",
            "first and second bit of a ping",
            &[(0x60 | PING, b"a")],
            broken.clone(),
        ),
        case(
            "3.7",
            "all bits of a close",
            &[(0x70 | CLOSE, b"\x03\xe8")],
            broken.clone(),
        ),
        case(
            "3.8",
            "the first bit of a fragment",
            &[(TEXT_PART, b"a"), (0x40 | LAST, b"b")],
            broken,
        ),
    ]
}

fn opcodes() -> Vec<Case> {
    let mut cases = Vec::new();
    for (section, range) in [("4.1", 3..=7_u8), ("4.2", 11..=15_u8)] {
        for opcode in range {
            let name = format!("opcode {opcode}");
            let alone = case(section, &name, &[(0x80 | opcode, b"")], Right::Fails(1002));
            let frames: [(u8, &[u8]); 3] = [(TEXT, b"Hello"), (0x80 | opcode, b"x"), (PING, b"")];
            cases.push(alone);
            let behind = format!("{name} behind a text");
            cases.push(case(section, &behind, &frames, Right::Fails(1002)));
        }
    }
    cases
}

fn fragments() -> Vec<Case> {
    let pass = Right::Passes;
    let two: &[(u8, &[u8])] = &[(TEXT_PART, b"one "), (LAST, b"two")];
    let between: &[(u8, &[u8])] = &[(TEXT_PART, b"one "), (PING, b"p"), (LAST, b"two")];
    let five: &[(u8, &[u8])] = &[
        (TEXT_PART, b"1"),
        (PART, b"2"),
        (PING, b"first"),
        (PART, b"3"),
        (PART, b"4"),
        (PING, b"second"),
        (LAST, b"5"),
    ];
    vec![
        case(
            "5.1",
            "a ping in two fragments",
            &[(0x09, b"a"), (LAST, b"b")],
            Right::Fails(1002),
        ),
        case(
            "5.2",
            "a pong in two fragments",
            &[(0x0a, b"a"), (LAST, b"b")],
            Right::Fails(1002),
        ),
        case("5.3", "a text in two", two, pass.clone()),
        case(
            "5.4",
            "a text in two, written at once and cut",
            two,
            pass.clone(),
        )
        .cut(3),
        case("5.5", "a text in two, byte by byte", two, pass.clone()).cut(1),
        case("5.6", "a ping between", between, pass.clone()),
        case("5.7", "a ping between, cut", between, pass.clone()).cut(5),
        case("5.8", "a ping between, byte by byte", between, pass.clone()).cut(1),
        case("5.19", "five fragments and two pings", five, pass.clone()),
        case("5.20", "the same, byte by byte", five, pass.clone()).cut(1),
        case(
            "5.21",
            "a binary in two",
            &[(BINARY_PART, b"\0\xff"), (LAST, b"\xfe")],
            pass.clone(),
        ),
        case(
            "5.22",
            "empty fragments",
            &[(TEXT_PART, b""), (PART, b""), (LAST, b"")],
            pass.clone(),
        ),
        case(
            "5.23",
            "two messages, each in two",
            &[
                (TEXT_PART, b"a"),
                (LAST, b"b"),
                (BINARY_PART, b"c"),
                (LAST, b"d"),
            ],
            pass,
        ),
    ]
}

fn broken_order() -> Vec<Case> {
    let broken = Right::Fails(1002);
    vec![
        case(
            "5.9",
            "goes on with nothing",
            &[(LAST, b"a"), (TEXT, b"b")],
            broken.clone(),
        ),
        case(
            "5.10",
            "the same, cut",
            &[(LAST, b"a"), (TEXT, b"b")],
            broken.clone(),
        )
        .cut(2),
        case(
            "5.11",
            "the same, byte by byte",
            &[(LAST, b"a"), (TEXT, b"b")],
            broken.clone(),
        )
        .cut(1),
        case(
            "5.12",
            "goes on with nothing and more follows",
            &[(PART, b"a"), (TEXT, b"b")],
            broken.clone(),
        ),
        case(
            "5.13",
            "the same, cut",
            &[(PART, b"a"), (TEXT, b"b")],
            broken.clone(),
        )
        .cut(2),
        case(
            "5.14",
            "the same, byte by byte",
            &[(PART, b"a"), (TEXT, b"b")],
            broken.clone(),
        )
        .cut(1),
        case(
            "5.15",
            "goes on behind the last",
            &[(TEXT_PART, b"a"), (LAST, b"b"), (PART, b"c"), (TEXT, b"d")],
            broken.clone(),
        ),
        case(
            "5.16",
            "goes on, and begins anew",
            &[(PART, b"a"), (TEXT_PART, b"b"), (LAST, b"c")],
            broken.clone(),
        ),
        case(
            "5.17",
            "ends, and begins anew",
            &[(LAST, b"a"), (TEXT_PART, b"b"), (LAST, b"c")],
            broken.clone(),
        ),
        case(
            "5.18",
            "begins twice",
            &[(TEXT_PART, b"a"), (TEXT, b"b")],
            broken.clone(),
        ),
        case(
            "5.24",
            "begins twice, the other kind",
            &[(TEXT_PART, b"a"), (BINARY, b"b")],
            broken,
        ),
    ]
}
