// SPDX-License-Identifier: Apache-2.0

use super::*;
use proptest::prelude::*;

fn values(found: Vec<Value>) -> Vec<String> {
    let text = |value: Value| String::from_utf8(value.value.to_vec()).unwrap();
    found.into_iter().map(text).collect()
}

#[test]
fn tokens_are_found_by_their_member_and_credentials_by_their_shape() {
    let text = br#"{"access_token":"opaque-0123456789","token_type":"Bearer","expires_in":3600,
        "refreshToken" : "a\/b\u002bc-0123456789", "id-token":"short", "next_page_token":
        "opaque-9876543210", "items":[{"note":"use ghs_0123456789abcdefABCDEF, soon"}],
        "token":"eyJhbGciOi.eyJzdWIiOiIx.c2ln", "other":"eyJhbGciOi.eyJzdWIiOiIx.c2ln",
        "access_token":"again-0123456789"}"#;
    let expected = [
        "opaque-0123456789",
        "a/b+c-0123456789",
        "ghs_0123456789abcdefABCDEF",
        "eyJhbGciOi.eyJzdWIiOiIx.c2ln",
        "again-0123456789",
    ];
    assert_eq!(values(in_json(text)), expected);
    // Their places are the insides of their strings.
    for value in in_json(text) {
        let around = &text[value.place.start - 1..=value.place.end];
        assert!(
            around.ends_with(b"\"") || around.ends_with(b","),
            "{around:?}"
        );
    }
    let form = b"access_token=gho_0123456789abcdefABCDEF&scope=repo&token_type=bearer";
    assert_eq!(values(in_text(form)), ["gho_0123456789abcdefABCDEF"]);
}

#[test]
fn what_is_no_credential_and_what_is_a_placeholder_stays() {
    let placeholder = torno_policy::placeholder::Placeholder::new("ghp_", [7; 16]);
    let placeholder = placeholder.as_str();
    let shaped = format!(
        "{{\"a\":\"{placeholder}\",\"b\":\"ghp_short\",\"c\":\"xghp_0123456789abcdefABCDEF\"}}"
    );
    assert_eq!(values(in_json(shaped.as_bytes())), [""; 0]);
    for broken in [
        &b"\"access_token\""[..],
        b"{\"access_token\":\"",
        b"\"\\",
        b"{\"a\\",
    ] {
        assert_eq!(values(in_json(broken)), [""; 0], "{broken:?}");
    }
}

#[test]
fn only_short_texts_of_known_kinds_are_read() {
    for kind in [
        "application/json",
        "Application/JSON; charset=utf-8",
        "application/problem+json",
        "application/x-www-form-urlencoded",
        "text/plain;charset=UTF-8",
    ] {
        assert!(is_read(kind.as_bytes()), "{kind}");
    }
    for kind in [
        "text/event-stream",
        "text/html",
        "application/grpc+json",
        "",
    ] {
        assert!(!is_read(kind.as_bytes()), "{kind}");
    }
}

proptest! {
    #[test]
    fn values_of_any_bytes_stand_apart_in_their_order(text in prop::collection::vec(any::<u8>(), 0..300)) {
        let mut done = 0;
        for value in in_json(&text) {
            prop_assert!(value.place.start >= done && value.place.end <= text.len());
            done = value.place.end;
        }
    }

    #[test]
    fn a_token_is_found_whatever_stands_around_it(
        before in "[a-z ,\\[\\]{}0-9]{0,30}",
        value in "[!-~&&[^\"\\\\]]{12,60}",
        behind in "[a-z ,\\[\\]{}0-9]{0,30}",
    ) {
        let text = format!("{before}\"access_token\" :\n \"{value}\"{behind}");
        prop_assert!(values(in_json(text.as_bytes())).contains(&value));
    }
}
