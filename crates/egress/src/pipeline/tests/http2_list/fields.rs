// SPDX-License-Identifier: Apache-2.0
//! RFC 7541: what compressed fields may say, and what ends the connection, whose table is in doubt
//! from then on.

use super::super::http2_frames::raw::field;
use super::*;

pub(super) fn cases() -> Vec<Case> {
    let mut cases = taken();
    cases.extend(refused());
    cases
}

/// Fields behind a usual request.
fn and(bytes: &[u8]) -> Vec<u8> {
    let fields = [&get_with(&[])[..], bytes].concat();
    frame(HEADERS, END_STREAM | END_HEADERS, 1, &fields)
}

/// The same, with bytes before.
fn before(bytes: &[u8]) -> Vec<u8> {
    let fields = [bytes, &get_with(&[])[..]].concat();
    frame(HEADERS, END_STREAM | END_HEADERS, 1, &fields)
}

/// A literal that enters the table: name and value plain.
fn entered(name: &str, value: &str) -> Vec<u8> {
    let mut bytes = field(name, value);
    bytes[0] = 0x40;
    bytes
}

fn taken() -> Vec<Case> {
    let never = {
        let mut bytes = field("x-own", "b");
        bytes[0] = 0x10;
        bytes
    };
    let twice = [entered("x-own", "b"), vec![0xbe]].concat();
    let named = [entered("x-own", "b"), vec![0x7e, 1, b'c']].concat();
    // GET, https, / by their indices; the authority by its name's.
    let indexed = [&[0x82, 0x87, 0x84, 0x41, 10][..], b"allow.test"].concat();
    // `a` in Huffman's code is five bits of 00011, then ones.
    let huffman = [&[0x00, 0x81, 0x1f, 0x81, 0x1f][..]].concat();
    let kept = [
        frame(
            HEADERS,
            END_STREAM | END_HEADERS,
            1,
            &[get_with(&[]), entered("x-own", "b")].concat(),
        ),
        frame(
            HEADERS,
            END_STREAM | END_HEADERS,
            3,
            &[&get_with(&[])[..], &[0xbe]].concat(),
        ),
    ];
    let answered = [
        (
            "2.3.1",
            "indices of the static table",
            frame(HEADERS, 5, 1, &indexed),
        ),
        ("2.3.2", "an entry used in its own block", and(&twice)),
        ("2.3.2", "a name of an entry", and(&named)),
        ("2.3.2", "an entry of an earlier request", kept.concat()),
        ("5.2", "Huffman's code", and(&huffman)),
        (
            "6.2.1",
            "a literal that enters the table",
            and(&entered("x-own", "b")),
        ),
        (
            "6.2.2",
            "a literal that enters no table",
            and(&field("x-own", "b")),
        ),
        ("6.2.3", "a literal that never enters one", and(&never)),
        ("6.3", "a smaller table", before(&[0x3f, 0x01])),
        ("6.3", "no table", before(&[0x20])),
        (
            "6.3",
            "a table of its full size",
            before(&[0x3f, 0xe1, 0x1f]),
        ),
        (
            "6.3",
            "no table and then its full size",
            before(&[0x20, 0x3f, 0xe1, 0x1f]),
        ),
        (
            "4.4",
            "an entry larger than the table",
            before(&[&[0x3f, 0x01][..], &entered("x-own", &"b".repeat(60))].concat()),
        ),
    ];
    answered
        .into_iter()
        .map(|(section, what, frames)| {
            let right = match what {
                // A field stands before the pseudo-fields there.
                "an entry larger than the table" => Right::Stream(PROTOCOL),
                _ => Right::Answered,
            };
            case(section, what, frames, right)
        })
        .collect()
}

fn refused() -> Vec<Case> {
    let refused = [
        ("2.3.3", "an index of nothing", vec![0xc6]),
        (
            "2.3.3",
            "a name's index of nothing",
            vec![0x40 | 0x3f, 7, 1, b'a'],
        ),
        ("2.3.3", "an index far beyond", vec![0xff, 0xff, 0xff, 0x0f]),
        (
            "4.1",
            "an entry that was pushed out",
            [&[0x20][..], &entered("x-own", "b"), &[0xbe]].concat(),
        ),
        ("4.2", "a size at the end of the block", vec![0x20]),
        (
            "4.2",
            "a size amid the block",
            [&[0x20][..], &field("x-own", "b")].concat(),
        ),
        (
            "5.1",
            "a number beyond all",
            vec![0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f],
        ),
        ("5.1", "a number that is cut", vec![0xff, 0x80]),
        ("5.2", "a text longer than the block", vec![0, 5, b'a']),
        (
            "5.2",
            "a text that is cut",
            [&[0, 1, b'a'][..], &[9, b'b']].concat(),
        ),
        (
            "5.2",
            "a block that ends before its value",
            vec![0, 1, b'a'],
        ),
        (
            "5.2",
            "Huffman's code with eight bits of padding",
            vec![0, 1, b'a', 0x82, 0x1f, 0xff],
        ),
        (
            "5.2",
            "Huffman's code padded with zeros",
            vec![0, 1, b'a', 0x81, 0x18],
        ),
        (
            "5.2",
            "Huffman's code with its end in it",
            vec![0, 1, b'a', 0x84, 0xff, 0xff, 0xff, 0xff],
        ),
        ("6.1", "index 0", vec![0x80]),
    ];
    let mut cases: Vec<_> = refused
        .into_iter()
        .map(|(section, what, bytes)| {
            // Huffman's code is read by the library alone, which has no code of its own for it.
            let right = if what.starts_with("Huffman") {
                Right::Unspecific(COMPRESSION)
            } else {
                Right::Connection(COMPRESSION)
            };
            case(section, what, and(&bytes), right)
        })
        .collect();
    let elsewhere = [
        (
            "trailers that can't be unpacked",
            [
                post(1),
                frame(HEADERS, END_STREAM | END_HEADERS, 1, &[0x80]),
            ],
        ),
        (
            "the end of a block that can't be unpacked",
            [
                frame(HEADERS, END_STREAM, 1, &get_with(&[])),
                frame(CONTINUATION, END_HEADERS, 1, &[0x80]),
            ],
        ),
        (
            "fields that can't be unpacked behind others that could",
            [get(1), frame(HEADERS, END_STREAM | END_HEADERS, 3, &[0x80])],
        ),
    ];
    cases.extend(
        elsewhere.map(|(what, frames)| {
            case("4.3", what, frames.concat(), Right::Connection(COMPRESSION))
        }),
    );
    cases.push(case(
        "6.3",
        "a table larger than was offered",
        before(&[0x3f, 0xe2, 0x1f]),
        Right::Connection(COMPRESSION),
    ));
    cases
}
