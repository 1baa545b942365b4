// SPDX-License-Identifier: Apache-2.0
//! Bodies that are filled, against slow ways of filling them.

#![expect(clippy::string_slice, reason = "ranges end beside ASCII bytes")]

use super::*;
use crate::normalize::body_slot;
use proptest::prelude::*;
use torno_policy::binding::Pointer;

const VALUE: &str = "se\"cr\\et&=%+~/ 123";

fn filled(slot: &Slot, body: &str) -> Option<String> {
    let found = body_slot(slot, "X", body.as_bytes()).unwrap();
    let slot = slot.clone();
    let out = fill(&Spot { slot, found }, body.as_bytes(), VALUE.as_bytes())?;
    Some(String::from_utf8(out.to_vec()).unwrap())
}

fn form() -> Slot {
    let field = "secret".to_owned();
    Slot::Form { field }
}

fn json() -> Slot {
    let pointer = Pointer::parse("/d/token").unwrap();
    Slot::Json { pointer }
}

fn multipart() -> Slot {
    let part = "token".to_owned();
    Slot::Multipart { part }
}

#[test]
fn each_place_gets_the_value_in_its_own_encoding() {
    for (body, out) in [
        (
            "a=+&secret=x&&b",
            "a=+&secret=se%22cr%5Cet%26%3D%25%2B~%2F%20123&&b",
        ),
        ("secret&b", "secret=se%22cr%5Cet%26%3D%25%2B~%2F%20123&b"),
        ("a=1", "a=1&secret=se%22cr%5Cet%26%3D%25%2B~%2F%20123"),
    ] {
        assert_eq!(filled(&form(), body).as_deref(), Some(out), "{body}");
    }
    for (body, out) in [
        (
            r#"{ "d" : {"token" :"x", "n": 1.0e2} }"#,
            r#"{ "d" : {"token" :"se\"cr\\et&=%+~/ 123", "n": 1.0e2} }"#,
        ),
        (
            r#"{"d":{"a":1}}"#,
            r#"{"d":{"token":"se\"cr\\et&=%+~/ 123","a":1}}"#,
        ),
        (r#"{"d":{ }}"#, r#"{"d":{"token":"se\"cr\\et&=%+~/ 123" }}"#),
    ] {
        assert_eq!(filled(&json(), body).as_deref(), Some(out), "{body}");
    }
    let part = "--X\r\nContent-Disposition: form-data; name=\"token\"\r\n\r\nx\r\n--X--\r\n";
    assert_eq!(
        filled(&multipart(), part).unwrap(),
        part.replace("\nx\r", &format!("\n{VALUE}\r"))
    );
    for (slot, body) in [
        (form(), "secret=1&SECRET=2"),
        (json(), r#"{"d":{"token":1,"TOKEN":2}}"#),
        (json(), "{}"),
    ] {
        assert_eq!(filled(&slot, body), None, "{body}");
    }
}

#[test]
fn a_value_that_would_end_its_part_is_not_put_in() {
    let body = "--X\r\nContent-Disposition: form-data; name=\"token\"\r\n\r\nx\r\n--X--\r\n";
    let found = body_slot(&multipart(), "X", body.as_bytes()).unwrap();
    let spot = Spot {
        slot: multipart(),
        found,
    };
    for value in ["a--Xb and more", "a\r\nb and more", "a\nb and more"] {
        assert!(
            fill(&spot, body.as_bytes(), value.as_bytes()).is_none(),
            "{value:?}"
        );
    }
}

/// A form of the slow way: cut, changed, put together.
fn slow_form(body: &str, value: &str) -> String {
    let mut is_there = false;
    let mut pairs: Vec<String> = body
        .split('&')
        .map(|pair| match pair.split('=').next() {
            Some("secret") => {
                is_there = true;
                format!("secret={value}")
            }
            _ => pair.to_owned(),
        })
        .collect();
    if !is_there {
        pairs.push(format!("secret={value}"));
    }
    pairs.join("&")
}

fn part(name: &str, content: &str) -> String {
    format!("--X\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{content}\r\n")
}

proptest! {
    /// Bytes outside of the slot are identical, and the value stands there exactly once.
    #[test]
    fn a_form_is_filled_as_the_slow_way_fills_it(
        before in prop::collection::vec("[a-d]{1,3}(=[a-z%0-9+]{0,4})?", 0..4),
        own in "(secret(=[a-z0-9%]{0,8})?)?",
        after in prop::collection::vec("[a-d]{1,3}(=[a-z%0-9+]{0,4})?", 0..4),
    ) {
        let all: Vec<&str> = before.iter().map(String::as_str)
            .chain((!own.is_empty()).then_some(own.as_str()))
            .chain(after.iter().map(String::as_str)).collect();
        let body = all.join("&");
        prop_assume!(!body.is_empty());
        let out = filled(&form(), &body).unwrap();
        let encoded = String::from_utf8(percent_encoded(VALUE.as_bytes()).to_vec()).unwrap();
        prop_assert_eq!(&out, &slow_form(&body, &encoded));
        prop_assert_eq!(out.matches(&encoded).count(), 1);
    }

    #[test]
    fn json_is_filled_as_another_writer_fills_it(
        front in "[ \t\n]{0,3}", space in "[ \r\n]{0,2}",
        own in prop_oneof![Just("null".to_owned()), "\"[a-z µ]{0,6}\"", "-?[1-9][0-9]{0,3}", Just("{\"a\":[1]}".to_owned())],
        more in "(,\"[a-c]{1,3}\":\"[a-zA-Z\u{e9}]{0,5}\")?",
    ) {
        let body = format!("{front}{{\"x\":1,{space}\"d\"{space}:{{\"token\":{space}{own}{space}{more}}}}}{front}");
        let out = filled(&json(), &body).unwrap();
        let cut = body.find("\"token\":").unwrap() + 8 + space.len();
        prop_assert_eq!(&out[..cut], &body[..cut]);
        prop_assert!(out.ends_with(&body[cut + own.len()..]));
        let mut read: serde_json::Value = serde_json::from_str(&body).unwrap();
        read["d"]["token"] = VALUE.into();
        prop_assert_eq!(serde_json::from_str::<serde_json::Value>(&out).unwrap(), read);
    }

    #[test]
    fn parts_are_filled_as_the_slow_way_fills_them(
        names in prop::collection::vec("[a-d]{1,4}", 0..4),
        contents in prop::collection::vec("[a-z\r\n\u{0}\u{e9}-]{0,12}", 4),
        at in 0_usize..5,
    ) {
        let mut parts: Vec<String> = names.iter().zip(&contents).map(|(n, c)| part(n, c)).collect();
        let mut expected = parts.clone();
        // Beyond the end: there is none.
        if at <= parts.len() {
            parts.insert(at, part("token", &contents[3]));
            expected.insert(at, part("token", VALUE));
        } else {
            expected.push(part("token", VALUE).replace("Content-Disposition", "content-disposition"));
        }
        let close = |parts: &[String]| format!("{}--X--\r\n", parts.concat());
        let out = filled(&multipart(), &close(&parts)).unwrap();
        prop_assert_eq!(&out, &close(&expected));
        prop_assert_eq!(out.matches(VALUE).count(), 1);
    }
}
