// SPDX-License-Identifier: Apache-2.0
//! Section 6: UTF-8, whole and in fragments that are cut within a character.

use super::*;

/// Texts that are UTF-8, each the edge of something.
const GOOD: &[(&str, &str, &[u8])] = &[
    (
        "6.2",
        "words with umlauts and a gap",
        "Hallo-\u{fc}\u{f6}\u{e4} \u{1f600}\u{2264}".as_bytes(),
    ),
    (
        "6.5",
        "Greek",
        "\u{3ba}\u{1f79}\u{3c3}\u{3bc}\u{3b5}".as_bytes(),
    ),
    ("6.7", "the first of one byte", b"\0"),
    ("6.7", "the first of two", b"\xc2\x80"),
    ("6.7", "the first of three", b"\xe0\xa0\x80"),
    ("6.7", "the first of four", b"\xf0\x90\x80\x80"),
    ("6.9", "the last of one byte", b"\x7f"),
    ("6.9", "the last of two", b"\xdf\xbf"),
    ("6.9", "the last of three", b"\xef\xbf\xbf"),
    ("6.9", "the last of four", b"\xf4\x8f\xbf\xbf"),
    ("6.11", "before the surrogates", b"\xed\x9f\xbf"),
    ("6.11", "behind the surrogates", b"\xee\x80\x80"),
    ("6.11", "the replacement character", b"\xef\xbf\xbd"),
    ("6.22", "U+FFFE, which is no character", b"\xef\xbf\xbe"),
    (
        "6.22",
        "U+1FFFF, which is no character",
        b"\xf0\x9f\xbf\xbf",
    ),
    (
        "6.22",
        "U+10FFFE, which is no character",
        b"\xf4\x8f\xbf\xbe",
    ),
    ("6.23", "private use", b"\xee\x80\x81\xef\xa3\xbf"),
    (
        "6.23",
        "a mark that says the order of bytes",
        b"\xef\xbb\xbfx",
    ),
];

/// Texts that are not.
const BAD: &[(&str, &str, &[u8])] = &[
    (
        "6.3",
        "a surrogate in a word",
        b"\xce\xba\xe1\xbd\xb9\xcf\x83\xed\xa0\x80edited",
    ),
    (
        "6.4",
        "beyond the last, in a word",
        b"\xce\xba\xe1\xbd\xb9\xf4\x90\x80\x80edited",
    ),
    ("6.6", "half of a character at the end", b"\xce\xba\xe1\xbd"),
    ("6.6", "a third of a character", b"\xe1"),
    ("6.6", "the start of two", b"\xce"),
    ("6.8", "the first of five bytes", b"\xf8\x88\x80\x80\x80"),
    ("6.8", "the first of six", b"\xfc\x84\x80\x80\x80\x80"),
    ("6.10", "the last of five", b"\xfb\xbf\xbf\xbf\xbf"),
    ("6.10", "the last of six", b"\xfd\xbf\xbf\xbf\xbf\xbf"),
    ("6.11", "the first beyond all", b"\xf4\x90\x80\x80"),
    ("6.12", "a continuation alone", b"\x80"),
    ("6.12", "the last continuation alone", b"\xbf"),
    ("6.12", "two", b"\x80\xbf"),
    ("6.12", "seven", b"\x80\xbf\x80\xbf\x80\xbf\x80"),
    ("6.13", "starts of two, each with a space", b"\xc2 \xdf "),
    ("6.13", "starts of three", b"\xe0 \xef "),
    ("6.13", "starts of four", b"\xf0 \xf4 "),
    ("6.14", "the last byte of two is missing", b"\xc2"),
    ("6.14", "the last of three", b"\xe0\xa0"),
    ("6.14", "the last of four", b"\xf0\x90\x80"),
    ("6.14", "the last of three at its end", b"\xef\xbf"),
    ("6.14", "the last of four at its end", b"\xf4\x8f\xbf"),
    ("6.15", "those together", b"\xc2\xe0\xa0\xf0\x90\x80"),
    ("6.16", "a byte that never is: fe", b"\xfe"),
    ("6.16", "ff", b"\xff"),
    ("6.16", "c0", b"\xc0\x80"),
    ("6.16", "f5", b"\xf5\x80\x80\x80"),
    ("6.17", "a slash in two bytes", b"\xc0\xaf"),
    ("6.17", "in three", b"\xe0\x80\xaf"),
    ("6.17", "in four", b"\xf0\x80\x80\xaf"),
    ("6.17", "in five", b"\xf8\x80\x80\x80\xaf"),
    ("6.18", "the longest that is too long, in two", b"\xc1\xbf"),
    ("6.18", "in three", b"\xe0\x9f\xbf"),
    ("6.18", "in four", b"\xf0\x8f\xbf\xbf"),
    ("6.19", "nul in two bytes", b"\xc0\x80"),
    ("6.19", "in three", b"\xe0\x80\x80"),
    ("6.20", "the first surrogate", b"\xed\xa0\x80"),
    ("6.20", "the last of the first half", b"\xed\xaf\xbf"),
    ("6.20", "the first of the second half", b"\xed\xb0\x80"),
    ("6.20", "the last surrogate", b"\xed\xbf\xbf"),
    ("6.21", "a pair of surrogates", b"\xed\xa0\x80\xed\xb0\x80"),
];

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (section, what, text) in GOOD {
        cases.push(case(section, what, &[(TEXT, text)], Right::Passes));
        // Every byte a fragment of its own.
        let mut frames: Vec<(u8, &[u8])> = text.chunks(1).map(|byte| (PART, byte)).collect();
        frames[0].0 = TEXT_PART;
        frames.push((LAST, b""));
        let cut = format!("{what}, a fragment for each byte");
        cases.push(case(section, &cut, &frames, Right::Passes));
    }
    for (section, what, text) in BAD {
        cases.push(case(section, what, &[(TEXT, text)], Right::Fails(1007)));
        let (first, rest) = text.split_at(text.len() / 2);
        let frames = [(TEXT_PART, first), (PART, rest), (LAST, &b""[..])];
        let cut = format!("{what}, in two fragments");
        cases.push(case(section, &cut, &frames, Right::Fails(1007)));
    }
    let early: &[(u8, &[u8])] = &[(TEXT_PART, b"good \xf4\x90"), (PART, b"more")];
    cases.push(case(
        "6.4",
        "told before the text ends",
        early,
        Right::Fails(1007),
    ));
    let binary: &[(u8, &[u8])] = &[(BINARY, b"\xff\xfe\xed\xa0\x80")];
    cases.push(case(
        "6.1",
        "a binary need not be UTF-8",
        binary,
        Right::Passes,
    ));
    cases
}
