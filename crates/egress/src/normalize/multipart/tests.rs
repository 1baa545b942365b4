// SPDX-License-Identifier: Apache-2.0
//! Forms of parts as clients write them, and what could be cut in two ways.

#![expect(clippy::string_slice, reason = "ranges end beside ASCII bytes")]

use super::*;
use crate::normalize::slot::Place;

const CURL: &str = "--X\r\nContent-Disposition: form-data; name=\"token\"\r\n\r\nVALUE\r\n\
    --X\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.txt\"\r\n\
    Content-Type: text/plain\r\n\r\none\r\ntwo\r\n--X--\r\n";

fn place(body: &str) -> (Held, Option<Place>) {
    let found = find(body.as_bytes(), "X", "token").unwrap();
    (found.held, found.place)
}

#[test]
fn the_one_part_of_a_name_is_found_by_its_bytes() {
    let (held, at) = place(CURL);
    let cut = at.unwrap().cut;
    assert_eq!((held, &CURL[cut]), (Held::Own, "VALUE"));
    let empty = CURL.replace("VALUE", "");
    assert_eq!(place(&empty).0, Held::Nothing);
    // The line end behind the last boundary is no part of the form.
    assert_eq!(place(CURL.trim_end()).0, Held::Own);
    let typed = CURL.replace(
        "\r\n\r\nVALUE",
        "\r\nContent-Type: text/plain; charset=utf-8\r\n\r\nVALUE",
    );
    assert_eq!(place(&typed).0, Held::Own);
}

#[test]
fn where_there_is_none_a_part_has_room_behind_the_last() {
    for body in [
        CURL.replace("\"token\"", "\"other\""),
        "--X--\r\n".to_owned(),
    ] {
        let (held, at) = place(&body);
        let at = at.unwrap();
        assert_eq!(held, Held::Nothing);
        let filled = format!(
            "{}{}VALUE{}{}",
            &body[..at.cut.start],
            at.before,
            at.after,
            &body[at.cut.end..]
        );
        let (held, again) = place(&filled);
        assert_eq!((held, &filled[again.unwrap().cut]), (Held::Own, "VALUE"));
    }
}

// ATTACK: 086
#[test]
fn a_second_part_of_the_name_in_any_spelling_is_seen() {
    let second = |name: &str| {
        let part =
            format!("--X\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\nx\r\n--X--");
        CURL.replace("--X--", &part)
    };
    for name in ["token", "TOKEN", "t%6fken", "token[]", "token[0]", " token"] {
        assert_eq!(place(&second(name)).0, Held::Twice, "{name}");
    }
    let alone = |name: &str| CURL.replace("\"token\"", &format!("\"{name}\""));
    for name in ["Token", "tok%65n", "token[]"] {
        assert_eq!(place(&alone(name)).0, Held::Twice, "{name}");
    }
    for more in [
        "; filename=\"x\"",
        "\r\nContent-Type: text/plain; charset=utf-16",
        "\r\nContent-Type: application/json",
        "\r\nContent-Length: 5",
    ] {
        let body = CURL.replace("\"token\"", &format!("\"token\"{more}"));
        assert_eq!(place(&body).0, Held::Twice, "{more}");
    }
}

// ATTACK: 080, 086
#[test]
fn what_could_be_cut_in_two_ways_is_refused() {
    let with = |from: &str, to: &str| CURL.replacen(from, to, 1);
    for body in [
        String::new(),
        format!("preamble\r\n{CURL}"),
        format!("\r\n{CURL}"),
        format!("{CURL}epilogue"),
        format!("{CURL}\r\n"),
        with("--X--\r\n", ""),
        with("--X--", "--X"),
        with("--X\r\n", "--X \r\n"),
        with("--X\r\n", "--X\n"),
        with("\r\n--X\r\n", "\n--X\r\n"),
        with("VALUE", "VALUE--X"),
        with("VALUE", "VALUE\n--X\nmore"),
        with("VALUE", "VALUE\r\n--XY\r\nmore"),
        with("one", "--X--"),
        with("\r\n\r\nVALUE", "\n\nVALUE"),
        with("\r\n\r\nVALUE", "\r\n folded: x\r\n\r\nVALUE"),
        with("form-data; name", "form-data;\r\n name"),
        with("name=\"token\"", "name=token"),
        with("name=\"token\"", "name='token'"),
        with("name=\"token\"", "name=\"to\\\"ken\""),
        with("name=\"token\"", "name=\"token\"; name=\"other\""),
        with("name=\"token\"", "name*=utf-8''token"),
        with("filename=\"a.txt\"", "filename*=utf-8''a.txt"),
        with(
            "filename=\"a.txt\"",
            "filename=\"a.txt\"; filename*=utf-8''token",
        ),
        with("name=\"token\"", "name=\"token\";"),
        with("form-data", "attachment"),
        with("Content-Disposition", "Content-Disposition "),
        with(
            "Content-Disposition: form-data; name=\"token\"",
            "X-Other: 1",
        ),
        with(
            "\r\n\r\nVALUE",
            "\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\nVALUE",
        ),
        with(
            "\r\n\r\nVALUE",
            "\r\nContent-Transfer-Encoding: base64\r\n\r\nVALUE",
        ),
        with("\r\n\r\nVALUE", "\r\nContent-Length: 4\r\n\r\nVALUE"),
        with("text/plain", "multipart/mixed; boundary=Y"),
        with("text/plain", "message/rfc822"),
        with("\"file\"", "\"_method\""),
        with("\"file\"", "\"_charset_\""),
    ] {
        assert!(find(body.as_bytes(), "X", "token").is_err(), "{body:?}");
    }
}

#[test]
fn a_form_has_bounds() {
    let part = "--X\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\nx\r\n";
    let many = |count: usize| format!("{}--X--", part.repeat(count));
    assert!(find(many(PARTS_MAX).as_bytes(), "X", "token").is_ok());
    assert!(find(many(PARTS_MAX + 2).as_bytes(), "X", "token").is_err());
    let long = CURL.replacen("a.txt", &"a".repeat(PART_HEAD_BYTES_MAX), 1);
    assert!(find(long.as_bytes(), "X", "token").is_err());
}

#[test]
fn a_boundary_is_named_in_one_way() {
    let named = |value: &str| {
        let head = format!("POST / HTTP/1.1\r\n{value}\r\n\r\n");
        boundary(&Head::parse(head.as_bytes()).unwrap()).ok()
    };
    for (value, boundary) in [
        ("Content-Type: multipart/form-data; boundary=X", "X"),
        (
            "content-type: Multipart/Form-Data;boundary=\"a-b_c.d\"",
            "a-b_c.d",
        ),
    ] {
        assert_eq!(named(value).as_deref(), Some(boundary));
    }
    let long = format!(
        "Content-Type: multipart/form-data; boundary={}",
        "x".repeat(71)
    );
    for value in [
        "X: 1",
        "Content-Type: multipart/form-data",
        "Content-Type: multipart/form-data; boundary=",
        "Content-Type: multipart/mixed; boundary=X",
        "Content-Type: multipart/form-data; boundary=X; charset=utf-8",
        "Content-Type: multipart/form-data; boundary=X; boundary=Y",
        "Content-Type: multipart/form-data; boundary*=utf-8''X",
        "Content-Type: multipart/form-data; boundary=\"a b\"",
        "Content-Type: multipart/form-data; boundary=a=b",
        "Content-Type: multipart/form-data; boundary=X\r\nContent-Type: multipart/form-data; boundary=Y",
        &long,
    ] {
        assert_eq!(named(value), None, "{value}");
    }
}
