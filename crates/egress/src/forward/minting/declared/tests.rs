// SPDX-License-Identifier: Apache-2.0

use super::*;
use crate::forward::answer::{AnswerTo, status, understand};
use crate::head::Head;
use proptest::prelude::*;

const ACCESS: &str = "opaque~access/0123456789";
const REFRESH: &str = "opaque~refresh/012345678";

fn answer(code: u16, kind: &str, body: &str) -> Answer {
    let length = body.len();
    let head = format!("HTTP/1.1 {code} X\r\n{kind}Content-Length: {length}\r\n\r\n");
    let head = Head::parse(head.as_bytes()).unwrap();
    let code = status(head.first()).unwrap();
    understand(head, code, AnswerTo::Other).unwrap()
}

/// What is kept of an answer, and which of it is a refresh token.
fn kept(kind: &str, body: &str) -> Result<Vec<(String, bool)>, Fault> {
    let kind = format!("Content-Type: {kind}\r\n");
    let found = read(&answer(200, &kind, body), body.as_bytes())?;
    let text = |value: &Value| String::from_utf8(value.value.to_vec()).unwrap();
    Ok(found.iter().map(|v| (text(v), v.is_refresh)).collect())
}

const JSON: &str = "application/json";
const FORM: &str = "application/x-www-form-urlencoded; charset=utf-8";

#[test]
fn tokens_are_found_in_json_and_in_a_form_whatever_they_look_like() {
    let both = vec![(ACCESS.to_owned(), false), (REFRESH.to_owned(), true)];
    let json = format!(
        r#"{{"access_token":"{}","token_type":"Bearer","refresh_token" : "{REFRESH}","id_token":null}}"#,
        ACCESS.replace('/', "\\/")
    );
    assert_eq!(kept(JSON, &json).unwrap(), both);
    let form = format!(
        "access_token={}&scope=a+b&refresh_token={REFRESH}&id_token=&token_type=bearer",
        ACCESS.replace('/', "%2F")
    );
    assert_eq!(kept(FORM, &form).unwrap(), both);
    assert_eq!(kept(FORM, "error=slow_down").unwrap(), []);
    let shaped = "token_type=bearer&other=gho_0123456789abcdefABCDEF";
    assert_eq!(kept(FORM, shaped).unwrap().len(), 1);
}

#[test]
fn what_can_not_be_read_in_one_way_or_kept_is_refused() {
    for (kind, body) in [
        (
            JSON,
            r#"{"access_token":"a-0123456789ab","access_token":"b-0123456789ab"}"#,
        ),
        (
            JSON,
            r#"{"a":{"x":1,"x":2},"access_token":"a-0123456789ab"}"#,
        ),
        (JSON, r#"{"access_token":"a-0123456789ab"} {}"#),
        (JSON, r#"{"access_token":"a-0123456789ab""#),
        (JSON, r#"{"access_token":"short"}"#),
        (JSON, r#"{"data":[{"refreshToken":"short"}]}"#),
        (JSON, r#"{"access_token":"with a space in it"}"#),
        (JSON, r#"{"access_token":{"value":"a-0123456789ab"}}"#),
        (JSON, r#"{"id_token":["a-0123456789ab"]}"#),
        (JSON, r#"{"access_token":123456789012}"#),
        (JSON, "access_token=a-0123456789ab"),
        (JSON, "\u{feff}{}"),
        (FORM, "access_token=short"),
        (
            FORM,
            "access_token=a-0123456789ab&access_token=b-0123456789ab",
        ),
        (
            FORM,
            "access_token=a-0123456789ab&access%5Ftoken=b-0123456789ab",
        ),
        (FORM, "access_token=a 0123456789ab"),
        (FORM, "access_token=a%000123456789ab"),
        (FORM, "access_token=\u{e9}"),
    ] {
        assert!(kept(kind, body).is_err(), "{kind}: {body}");
    }
    let long = format!(r#"{{"access_token":"{}"}}"#, "x".repeat(8193));
    assert!(kept(JSON, &long).is_err());
}

#[test]
fn an_answer_that_grants_is_json_or_a_form_and_one_that_refuses_may_be_a_page() {
    let of = |code, kind: &str| is_read(&answer(code, kind, "x")).ok();
    let json = "Content-Type: Application/JSON; charset=utf-8\r\n";
    let form = format!("Content-Type: {FORM}\r\n");
    for (code, kind, expected) in [
        (200, json, Some(true)),
        (201, &form, Some(true)),
        (400, json, Some(true)),
        (500, "Content-Type: text/html\r\n", Some(false)),
        (302, "", Some(false)),
        (200, "", None),
        (200, "Content-Type: text/plain\r\n", None),
        (200, "Content-Type: text/html\r\n", None),
        (
            200,
            "Content-Type: application/json\r\nContent-Type: text/html\r\n",
            None,
        ),
    ] {
        assert_eq!(of(code, kind), expected, "{code} {kind}");
    }
    assert!(!is_read(&answer(204, "", "")).unwrap());
}

proptest! {
    #[test]
    fn no_token_of_a_form_is_left_in_it(token in "[!-~]{1,30}", name in "(access|refresh|id)[_-]?token") {
        let encoded: String = token.bytes().map(|b| format!("%{b:02x}")).collect();
        let form = format!("a=1&{name}={encoded}&b=2");
        if let Ok(kept) = kept(FORM, &form) {
            prop_assert_eq!(&kept[0].0, &token);
        } else {
            prop_assert!(token.len() < 12);
        }
    }
}
