// SPDX-License-Identifier: Apache-2.0
//! Paths: one spelling for the rule and the wire.

use super::*;

fn check(target: &str, expected: Result<&str, PathError>) {
    let got = RequestPath::parse(target).map(|path| path.to_string());
    assert_eq!(got, expected.map(str::to_owned), "{target:?}");
}

#[test]
fn canonical_targets_are_kept() {
    for target in [
        "/",
        "/a/b",
        "/a/",
        "/a?x=%2f%zz;&..",
        "/a?",
        "/a%20b",
        "/@x:y/(z)!*'",
        "/%C3%A9",
        "/100%25",
    ] {
        check(target, Ok(target));
    }
}

// ATTACK: 075
#[test]
fn unreserved_escapes_are_decoded_and_the_rest_is_written_in_upper_case() {
    check("/%70ublic", Ok("/public"));
    check("/%7euser/%c3%a9%20", Ok("/~user/%C3%A9%20"));
    check("/a%3ab", Ok("/a%3Ab"));
}

// ATTACK: 073
#[test]
fn dot_and_empty_segments_are_refused() {
    for target in [
        "/public/../secret",
        "/public/%2e%2e/secret",
        "/public/./../secret",
        "/../x",
        "/..",
        "/.",
        "/a/.%2E",
        "/a/%2e",
        "//",
        "//a",
        "/a//b",
        "/a//",
    ] {
        check(target, Err(PathError::Segment));
    }
    check("/a/...", Ok("/a/..."));
    check("/.hidden/..x", Ok("/.hidden/..x"));
}

// ATTACK: 075
#[test]
fn escapes_that_hide_something_or_are_malformed_are_refused() {
    for target in [
        "/a%2fb",
        "/a%2F..%2Fb",
        "/a%5cb",
        "/%00",
        "/a%0d%0a",
        "/a%7f",
        "/a%3bb",
        "/%",
        "/%2",
        "/%zz",
        "/%+1",
        "/%252e%252e/x",
        "/%252f",
        "/%25%32%66",
        "/%25252f",
        "/%2541",
        "/%c0%af",
        "/%c0%ae%c0%ae/",
        "/%e2%82",
        "/%ff",
        "/%ed%a0%80",
        "/%c3x%a9",
        "/%c3%41",
    ] {
        check(target, Err(PathError::Escape));
    }
}

// ATTACK: 075, 077
#[test]
fn bytes_that_are_never_needed_in_a_path_are_refused() {
    for target in [
        "/a b",
        "/a\\b",
        "/a;b",
        "/a#b",
        "/a\0",
        "/a\tb",
        "/é",
        "/a\"",
        "/<",
        "/a|b",
        "/{a}",
        "/[a]",
        "/a^",
        "/a`",
        "/a?b c",
        "/a?b#c",
        "/a?\r",
        "/a?é",
        "/a?\u{7f}",
    ] {
        check(target, Err(PathError::Character));
    }
}

#[test]
fn only_the_origin_form_is_a_path() {
    for target in ["", "*", "a", "http://allow.test/", "?a", "allow.test:443"] {
        check(target, Err(PathError::Form));
    }
    let long = format!("/{}", "a".repeat(8192));
    check(&long, Err(PathError::Form));
}

// ATTACK: 077
#[test]
fn a_query_is_no_part_of_the_path() {
    let path = RequestPath::parse("/secret?/public/?x").unwrap();
    assert_eq!((path.path(), path.query()), ("/secret", Some("/public/?x")));
}

#[test]
fn serde_takes_the_canonical_spelling_only() {
    assert!(serde_json::from_str::<RequestPath>("[\"/a\",\"q\"]").is_ok());
    for text in [
        "[\"/%61\",null]",
        "[\"/a?b\",null]",
        "[\"/a\",\"b#\"]",
        "[\"/a?b\",\"c\"]",
        "\"/a\"",
    ] {
        assert!(serde_json::from_str::<RequestPath>(text).is_err(), "{text}");
    }
}
