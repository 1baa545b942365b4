// SPDX-License-Identifier: Apache-2.0
//! The tables of what passes and what does not, and that chunk borders change neither.

use super::*;

fn once(bytes: &[u8]) -> Vec<u8> {
    Screen::default().filter(bytes)
}

/// Every way to cut the bytes in two, and byte by byte, gives the same as the whole.
fn check(bytes: &[u8], expected: &[u8]) {
    let shown = |b: &[u8]| String::from_utf8_lossy(b).escape_debug().to_string();
    assert_eq!(shown(&once(bytes)), shown(expected), "of {}", shown(bytes));
    for at in 0..=bytes.len() {
        let mut screen = Screen::default();
        let mut out = screen.filter(&bytes[..at]);
        out.extend(screen.filter(&bytes[at..]));
        assert_eq!(shown(&out), shown(expected), "{} cut at {at}", shown(bytes));
    }
    let mut screen = Screen::default();
    let out: Vec<u8> = bytes.iter().flat_map(|b| screen.filter(&[*b])).collect();
    assert_eq!(
        shown(&out),
        shown(expected),
        "{} byte by byte",
        shown(bytes)
    );
}

#[test]
fn what_full_screen_programs_need_passes_unchanged() {
    for passes in [
        "plain text, tabs\tand lines\r\n",
        "\x1b[1;38;2;255;0;0mred\x1b[0m",
        "\x1b[38:2::255:0:0m",
        "\x1b[H\x1b[2J\x1b[3;4H\x1b[K\x1b[?1049h\x1b[?25l\x1b[?2004h",
        "\x1b(0lqqk\x1b(B",
        "\x1b7\x1b8\x1b=\x1b>\x1bM\x1bc\x1b#8",
        "\x1b[4 q\x1b[!p\x1b[1;24r\x1b[4h",
        "Straße 日本 🚀 e\u{301}",
    ] {
        check(passes.as_bytes(), passes.as_bytes());
    }
}

// ATTACK: 133
#[test]
fn what_makes_a_terminal_answer_is_dropped() {
    for query in [
        "\x05",
        "\x1bZ",
        "\x1b[c",
        "\x1b[0c",
        "\x1b[>c",
        "\x1b[=c",
        "\x1b[5n",
        "\x1b[6n",
        "\x1b[?6n",
        "\x1b[?15n",
        "\x1b[x",
        "\x1b[?2026$p",
        "\x1b[4$p",
        "\x1b[>q",
        "\x1b[?u",
        "\x1b[>4;2m",
        "\x1b[?4m",
        "\x1b[?1;1;0S",
        "\x1b[1;1;1;1;1;1*y",
        "\x1b[1$w",
        "\x1b[14t",
        "\x1b[21t",
        "\x1b[22;0t",
        "\x1bP$qm\x1b\\",
        "\x1bP+q544e\x1b\\",
        "\x1b]4;1;?\x07",
        "\x1b]10;?\x1b\\",
        "\x1b]11;?\x07",
        "\x1b[i",
        "\x1b[5i",
    ] {
        check(format!("a{query}b").as_bytes(), b"ab");
    }
}

// ATTACK: 184
#[test]
fn clipboard_titles_links_and_strings_are_dropped() {
    for string in [
        "\x1b]52;c;aGVsbG8=\x07",
        "\x1b]52;c;?\x1b\\",
        "\x1b]0;title\x07",
        "\x1b]2;title ✓ ĜĚ\x1b\\",
        "\x1b]l title\x1b\\",
        "\x1bktitle\x1b\\",
        "\x1b]8;;https://evil.test\x07",
        "\x1b]1337;File=:AAAA\x07",
        "\x1bPq#0sixel\nmore\x1b\\",
        "\x1b_apc\x1b\\",
        "\x1b^pm\x1b\\",
        "\x1bXsos\x1b\\",
        "\x1b]0;cancelled\x18",
        "\x1b%@",
        "\x1b G",
        "\x1bn",
    ] {
        check(format!("a{string}b").as_bytes(), b"ab");
    }
}

#[test]
fn eight_bit_forms_count_like_their_seven_bit_ones() {
    check(b"a\x9b6nb", b"ab");
    check(b"a\x9d52;c;x\x9cb", b"ab");
    check(b"a\x90$qm\x9cb", b"ab");
    check("a\u{9b}6nb".as_bytes(), b"ab");
    check("a\u{9d}0;title\u{9c}b".as_bytes(), b"ab");
    check("a\u{9f}x\u{9c}b".as_bytes(), b"ab");
    // Listed ones are sent on in the form that every terminal reads the same.
    check(b"a\x9b1mb", b"a\x1b[1mb");
    check("a\u{9b}1mb".as_bytes(), b"a\x1b[1mb");
    // A character whose last byte looks like an 8-bit control is a character.
    check("ě\u{71b}6n".as_bytes(), "ě\u{71b}6n".as_bytes());
    check(b"\xffz\xc4", "\u{fffd}z".as_bytes());
    check(b"\xc4\x1b[6nb", "\u{fffd}b".as_bytes());
}

#[test]
fn a_sequence_inside_another_is_judged_for_itself() {
    check(b"\x1b[1\x1b[6nb", b"b");
    check(b"\x1b]0;t\x1b]52;c;x\x07b", b"b");
    check(b"\x1b]0;t\x1b[1mb", b"\x1b[1mb");
    check(b"\x1b\x1b\x1b[1mb", b"\x1b[1mb");
    check(b"\x1b[1\nmb", b"\nmb");
    check(b"\x1b[\xc2\x9b6nb", b"b");
}

#[test]
fn mixed_mode_lists_keep_only_the_listed_modes() {
    check(b"\x1b[?25;9999;1049h", b"\x1b[?25;1049h");
    check(b"\x1b[?3h\x1b[2h\x1b[4;2h", b"");
}

#[test]
fn an_unterminated_string_ends_at_a_line_or_at_the_bound() {
    check(b"\x1b]0;no end\nseen", b"\nseen");
    let mut screen = Screen::default();
    screen.filter(b"\x1bP");
    assert_eq!(screen.filter(&vec![b'x'; DROPPED_BYTES_MAX]), b"");
    assert_eq!(screen.filter(b"ab"), b"ab");
}

#[test]
fn an_endless_control_sequence_is_dropped_and_holds_little() {
    let mut screen = Screen::default();
    screen.filter(b"\x1b[");
    assert_eq!(screen.filter(&vec![b'1'; 1 << 20]), b"");
    assert!(matches!(screen.state, State::Control(None)));
    assert_eq!(screen.filter(b"mseen"), b"seen");
    let mut screen = Screen::default();
    screen.filter(b"\x1b");
    screen.filter(&vec![b' '; 1 << 20]);
    if let State::Escape(held) = &screen.state {
        assert!(held.len() <= SEQUENCE_BYTES_MAX);
    }
}

#[test]
fn modes_left_set_are_reset_at_the_end() {
    let mut screen = Screen::default();
    screen.filter(b"\x1b[?1049h\x1b[?25l\x1b[?2004h\x1b[?2004l");
    assert_eq!(screen.restore(), b"\x1b[?1049l\x1b[?25h");
    assert_eq!(screen.restore(), b"");
    screen.filter(b"\x1b[?7l\x1b[2;10r");
    assert_eq!(screen.restore(), b"\x1b[?7h\x1b7\x1b[r\x1b8");
    screen.filter(b"\x1b[2;10r\x1b[r");
    assert_eq!(screen.restore(), b"");
}
