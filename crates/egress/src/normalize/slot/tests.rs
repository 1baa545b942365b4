// SPDX-License-Identifier: Apache-2.0
//! What the client has in the slot of a body, for each kind of body.

#![expect(clippy::string_slice, reason = "ranges end beside ASCII bytes")]

use super::*;
use crate::normalize::Found;

fn ph() -> String {
    Placeholder::new("sk-", [7; 16]).as_str().to_owned()
}

fn in_form(body: &str) -> Held {
    form::find(body.as_bytes(), "secret").unwrap().held
}

fn at(body: &str) -> Held {
    in_json(body.as_bytes(), &Pointer::parse("/d/token").unwrap())
        .unwrap()
        .held
}

#[test]
fn a_value_is_nothing_one_placeholder_or_the_clients_own() {
    let ph = ph();
    assert_eq!(held(b""), Held::Nothing);
    assert_eq!(held(ph.as_bytes()), Held::Placeholder);
    for own in [
        format!(" {ph}"),
        format!("Bearer {ph}"),
        format!("{ph}{ph}"),
        "x".to_owned(),
    ] {
        assert_eq!(held(own.as_bytes()), Held::Own, "{own}");
    }
    assert_eq!(held(b"\xff"), Held::Own);
}

#[test]
fn a_form_says_what_its_field_holds() {
    let ph = ph();
    for (body, held) in [
        (format!("a=1&secret={ph}&b=%20"), Held::Placeholder),
        (format!("secret={ph}"), Held::Placeholder),
        ("a=1".to_owned(), Held::Nothing),
        ("secret=&a=1".to_owned(), Held::Nothing),
        ("secret&a=1".to_owned(), Held::Nothing),
        ("secret=mine".to_owned(), Held::Own),
        (format!("secret=%73{ph}"), Held::Own),
        (format!("secret={ph}&secret=mine"), Held::Twice),
        (format!("secret={ph}&SECRET=mine"), Held::Twice),
        (format!("secret={ph}&s%65cret=mine"), Held::Twice),
        (format!("secret={ph}&s%2565cret=mine"), Held::Twice),
        (format!("secret={ph}&secret[]=mine"), Held::Twice),
        (format!("secret={ph}&a=1;secret=mine"), Held::Twice),
        (format!("secret={ph}&+secret=mine"), Held::Twice),
    ] {
        assert_eq!(in_form(&body), held, "{body}");
    }
    // ATTACK: 080
    for body in [
        "secret=x\n",
        "secret=x y",
        "secret=\u{e9}",
        "a=\0&secret=x",
        "_method=DELETE",
        "a=1&%5Fmethod=PUT",
        "_charset_=utf-16",
    ] {
        assert!(form::find(body.as_bytes(), "secret").is_err(), "{body:?}");
    }
    assert!(form::find(b"a=\xff", "secret").is_err());
}

#[test]
fn json_says_what_its_member_holds() {
    let ph = ph();
    for (body, held) in [
        (format!(r#"{{"d":{{"token":"{ph}"}}}}"#), Held::Placeholder),
        (r#"{"d":{"token":""}}"#.to_owned(), Held::Nothing),
        (r#"{"d":{"token":null}}"#.to_owned(), Held::Nothing),
        (r#"{"d":{}}"#.to_owned(), Held::Nothing),
        (r#"{"d":1}"#.to_owned(), Held::Nowhere),
        (r#"{}"#.to_owned(), Held::Nowhere),
        ("[]".to_owned(), Held::Nowhere),
        (r#"{"d":{"token":["x"]}}"#.to_owned(), Held::Own),
        (r#"{"d":{"token":false}}"#.to_owned(), Held::Own),
        (format!(r#"{{"d":{{"token":"Bot {ph}"}}}}"#), Held::Own),
        (
            format!(r#"{{"d":{{"token":"\u0073{}"}}}}"#, &ph[1..]),
            Held::Own,
        ),
        (
            format!(r#"{{"d":{{"token":"{ph}","TOKEN":1}}}}"#),
            Held::Twice,
        ),
    ] {
        assert_eq!(at(&body), held, "{body}");
    }
}

#[test]
fn every_placeholder_of_a_body_is_presented_in_the_slot_or_beside_it() {
    let (ph, other) = (ph(), Placeholder::new("ghp_", [9; 16]));
    let hidden = data_encoding::BASE64.encode(other.as_str().as_bytes());
    let body = format!("secret={ph}&a={ph}&b={hidden}");
    let found = form::find(body.as_bytes(), "secret").unwrap();
    let said = presented(&found, body.as_bytes()).unwrap();
    let at = |location: &Location| said.iter().filter(|p| p.location == *location).count();
    assert_eq!(
        (at(&Location::Slot), at(&Location::Body)),
        (1, 2),
        "{said:?}"
    );
    let body = format!("secret={ph}&SECRET={}", other.as_str());
    let found = form::find(body.as_bytes(), "secret").unwrap();
    let said = presented(&found, body.as_bytes()).unwrap();
    assert!(said.len() == 2 && said.iter().all(|one| one.location == Location::Slot));
    let many: String = (0..20)
        .map(|n| format!("a={}&", Placeholder::new("", [n; 16]).as_str()))
        .collect();
    let found = Found::without_place(Held::Nothing);
    assert!(presented(&found, many.as_bytes()).is_err());
}
