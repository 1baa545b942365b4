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

#[test]
fn a_credential_behind_an_escape_of_json_is_found() {
    const TOKEN: &str = "ghs_0123456789abcdefABCDEF";
    for text in [
        format!(r#"{{"note":"your token:\n{TOKEN}"}}"#),
        format!(r#"{{"note":"your token:\t{TOKEN}\r\n"}}"#),
        // As Go writes `<code>…</code>`.
        format!(r#"{{"html":"\u003ccode\u003e{TOKEN}\u003c/code\u003e"}}"#),
        r#"{"url":"https:\/\/x-access-token:\u0067hs_0123456789abcdefABCDEF@git"}"#.to_owned(),
    ] {
        let found = values(in_json(text.as_bytes()));
        assert_eq!(found, [TOKEN], "{text}");
    }
}

#[test]
fn a_rotated_token_has_a_shape_of_two_parts() {
    let text = br#"{"ok":true,"token":"xoxe.xoxp-1-Mi0yLTEyMzQ1Njc4OTAxMjM0NTY3ODk"}"#;
    assert_eq!(in_json(text).len(), 1);
}

#[test]
fn a_type_is_read_in_whatever_case_it_is_written() {
    for kind in [
        "Text/Plain",
        "Application/X-WWW-Form-Urlencoded; charset=UTF-8",
    ] {
        assert!(is_read(kind.as_bytes()), "{kind}");
    }
}

/// STS and EC2 answer so: `SecretAccessKey`, `SessionToken` and `KeyMaterial` are elements.
#[test]
fn what_aws_makes_comes_in_xml() {
    for kind in ["text/xml", "text/xml;charset=UTF-8", "application/xml"] {
        assert!(is_read(kind.as_bytes()), "{kind}");
    }
    let text = b"<Credentials><AccessKeyId>ASIA0123456789ABCDEF</AccessKeyId>\
        <SecretAccessKey>wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY</SecretAccessKey></Credentials>";
    let found = values(in_text(text));
    assert!(
        found.iter().any(|one| one.starts_with("wJalr")),
        "{found:?}"
    );
}

/// 64 KiB that unpack to 8 MiB hold this many.
#[test]
fn many_credentials_in_one_text_are_no_work_without_end() {
    let one = "\"AKIA0123456789abcdef\",";
    let best = |count: usize| {
        let text = format!("[{}0]", one.repeat(count));
        let runs = (0..5).map(|_| {
            let began = std::time::Instant::now();
            assert_eq!(in_json(text.as_bytes()).len(), count);
            began.elapsed()
        });
        runs.min().unwrap().as_secs_f64()
    };
    // Eight times as many: eight times as long, not sixty-four.
    let ratio = best(32_000) / best(4_000);
    assert!(ratio < 24.0, "{ratio:.0} times as long");
}

/// Who asks for a token says how long it is: scopes, a nonce and tags stand in it.
#[test]
fn a_token_of_any_length_does_not_come_in() {
    for length in [8_192, 8_193, 20_000] {
        let text = format!("{{\"access_token\":\"{}\"}}", "t".repeat(length));
        assert_eq!(in_json(text.as_bytes()).len(), 1, "{length}");
    }
}

/// Of each provider that there is a template for.
#[test]
fn keys_of_the_providers_with_templates_have_known_shapes() {
    let missed: Vec<_> = [
        "sk-proj-0123456789abcdefABCDEF0123456789",
        "sk-svcacct-0123456789abcdefABCDEF0123456789",
        "sk-admin-0123456789abcdefABCDEF0123456789",
        "ek_0123456789abcdefABCDEF0123456789",
        "sk_live_0123456789abcdefABCDEF01",
        "rk_live_0123456789abcdefABCDEF01",
        "whsec_0123456789abcdefABCDEF0123456789",
        "gloas-0123456789abcdef0123456789abcdef",
        "xoxe.xoxp-1-Mi0yLTEyMzQ1Njc4OTAxMjM0NTY3ODk",
    ]
    .into_iter()
    .filter(|key| in_json(format!("{{\"value\":\"{key}\"}}").as_bytes()).is_empty())
    .collect();
    assert!(missed.is_empty(), "{missed:?}");
}

#[test]
fn what_is_no_token_and_no_member_is_not_taken_for_one() {
    for text in [
        r#"{"a":"xghs_0123456789abcdefABCDEF"}"#,
        r#"{"a":"\\xxghs_0123456789abcdefABCDEF"}"#,
        r#"{"a":"\ud83d\ude00 <AccessToken>0123456789abcdef</AccessToken>"}"#,
    ] {
        assert_eq!(values(in_json(text.as_bytes())), [""; 0], "{text}");
    }
    for text in [
        "<AccessToken/>0123456789abcdef<b>",
        "<RequestId>0123456789abcdef</RequestId>",
        "<AccessToken><b>0123456789abcdef</b></AccessToken>",
        "<<<<<",
        "a > b < c",
    ] {
        assert_eq!(values(in_text(text.as_bytes())), [""; 0], "{text}");
    }
}

#[test]
fn an_escaped_place_is_replaced_as_it_stands_and_a_private_key_is_found_whole() {
    let text = r#"{"a":"x \u0067hs_0123456789abcdef\u0041BCDEF y"}"#;
    let found = in_json(text.as_bytes());
    let place = found[0].place.clone();
    let there = text.get(place).unwrap();
    assert_eq!(there, r"\u0067hs_0123456789abcdef\u0041BCDEF");
    // In a text inside of a text, an escape is undone once and seen once.
    let twice = r#"{"a":"{\"b\":\"your token:\\nghs_0123456789abcdefABCDEF\"}"}"#;
    assert_eq!(
        values(in_json(twice.as_bytes())),
        ["ghs_0123456789abcdefABCDEF"]
    );
    let key = "-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEA\n-----END RSA PRIVATE KEY-----";
    let json = format!("{{\"pem\":{}}}", serde_json::to_string(key).unwrap());
    let xml = format!("<keyMaterial>{key}</keyMaterial>");
    for found in [in_json(json.as_bytes()), in_text(xml.as_bytes())] {
        assert_eq!(values(found), [key]);
    }
    assert!(!can_be_kept(key.as_bytes()) && !can_be_kept(&[b't'; 8193]));
    assert!(can_be_kept(&[b't'; 8192]));
}
