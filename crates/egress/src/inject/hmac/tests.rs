// SPDX-License-Identifier: Apache-2.0
//! What is signed is what RFC 4231 signs, and what services document of their own signatures.

use super::*;
use crate::head::Head;
use crate::identify::{Arrival, Asked};
use crate::normalize::{RawRequest, Request, normalize};
use torno_notary_protocol::gate::Allowed;
use torno_policy::binding::{Recipe, SignedField};
use torno_policy::facts::Entry;
use torno_policy::names::{Authority, RecordSeq, Scheme};

const NOW: Duration = Duration::from_millis(1_531_420_618_123);

fn slot(hash: Hash, key: KeyForm, text: &str, fields: &[(&str, &str)]) -> Hmac {
    let field = |(name, value): &(&str, &str)| SignedField {
        name: (*name).to_owned(),
        value: Recipe::parse(value).unwrap(),
    };
    Hmac {
        hash,
        key,
        text: Recipe::parse(text).unwrap(),
        fields: fields.iter().map(field).collect(),
    }
}

fn request(text: &str) -> Request {
    let arrival = Arrival {
        entry: Entry::Captured,
        scheme: Scheme::Https,
        asked: Asked::Name(Authority::parse("allow.test", Scheme::Https).unwrap()),
        disagreement: None,
    };
    let head = Head::parse(text.as_bytes()).unwrap();
    let raw = RawRequest {
        arrival: &arrival,
        head,
    };
    normalize(raw).unwrap_or_else(|fault| panic!("{text}: {fault:?}"))
}

/// The lines that go out for a request.
fn lines(hmac: &Hmac, head: &str, body: &[u8], value: &[u8]) -> Result<String, Refusal> {
    let request = request(&head.replace('|', "\r\n"));
    let allowed = Allowed {
        keeping: None,
        transcripts: false,
        minted: false,
        record: RecordSeq(1),
        receipt: None,
        endpoint: request.facts.endpoint.clone(),
        injection: None,
        unlock: true,
        strip: Vec::new(),
        own_credentials: false,
    };
    let sending = Sending {
        allowed: &allowed,
        request: &request,
        framing: request.framing,
        is_scrubbed: true,
    };
    let lines = Tagging::new(hmac, NOW).fields(sending, body, value)?;
    Ok(String::from_utf8(lines.to_vec()).unwrap())
}

type Sends<'a> = &'a [(&'a str, &'a str)];

const POST: &str = "POST /orders?x=1 HTTP/1.1|Host: allow.test|Content-Type: text/plain||";

#[test]
fn the_cases_of_rfc_4231_come_out() {
    for (key, text, sha256, sha512) in [
        (
            "0b".repeat(20),
            "Hi There",
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7",
            "87aa7cdea5ef619d4ff0b4241a1d6cb02379f4e2ce4ec2787ad0b30545e17cde\
             daa833b7d6b8a702038b274eaea3f4e4be9d914eeb61f1702e696c203a126854",
        ),
        (
            "4a656665".to_owned(),
            "what do ya want for nothing?",
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
            "164b7a7bfcf819e2e395fbe73b56e0a387bd64222e831fd610270cd7ea250554\
             9758bf75c05a994a6d034f65f8f0e6fdcaeab1a34d4a6b4b636e070a38bce737",
        ),
        (
            "aa".repeat(131),
            "Test Using Larger Than Block-Size Key - Hash Key First",
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54",
            "80b24263c7c1a3ebb71493c1dd7be8b49b46d1f41b4aeec1121b013783f8f352\
             6b56d037e05f2598bd0fd2215d6a1e5295e64f73f63f0aec8b915a985d786598",
        ),
    ] {
        for (hash, expected) in [(Hash::Sha256, sha256), (Hash::Sha512, sha512)] {
            let hmac = slot(hash, KeyForm::Hex, "{body}", &[("x-s", "{hex}")]);
            let said = lines(&hmac, POST, text.as_bytes(), key.as_bytes()).unwrap();
            assert_eq!(said, format!("x-s: {expected}\r\n"), "{text}");
        }
    }
}

/// The first two are the examples of the services' own documentation.
#[test]
fn signatures_as_services_document_them_come_out() {
    let slack = "token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&\
        channel_id=G8PSS9T3V&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&\
        command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2F\
        T1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN&\
        trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c";
    let cases: [(&str, Sends<'_>, &str, &str, &str); 4] = [
        (
            "{body}",
            &[("x-hub-signature-256", "sha256={hex}")],
            "It's a Secret to Everybody",
            "Hello, World!",
            "x-hub-signature-256: \
             sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17\r\n",
        ),
        (
            "v0:{timestamp}:{body}",
            &[
                ("x-slack-request-timestamp", "{timestamp}"),
                ("x-slack-signature", "v0={hex}"),
            ],
            "8f742231b10e8888abcd99yyyzzz85a5",
            slack,
            "x-slack-request-timestamp: 1531420618\r\nx-slack-signature: \
             v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503\r\n",
        ),
        (
            "{timestamp}.{body}",
            &[("stripe-signature", "t={timestamp},v1={hex}")],
            "whsec_test_secret",
            "{\"id\":\"evt_1\"}",
            "stripe-signature: t=1531420618,\
             v1=70d9df1b8be551cf987e38ee6198e50a80368d6b4242cbfd7e570ad6e1bb59f5\r\n",
        ),
        (
            "{timestamp_ms}{lf}{method}{lf}{host}{lf}{path}{lf}{query}{lf}{header:content-type}{lf}\
             {body_sha256}",
            &[("x-time", "{timestamp_ms}"), ("x-sign", "{base64}")],
            "another-secret",
            "{\"size\":\"1\"}",
            "x-time: 1531420618123\r\nx-sign: \
             Z/kvR+dRkAEkP8ZoELsBMZvtbll04oOZMrmOBe0aWsY=\r\n",
        ),
    ];
    for (text, fields, key, body, expected) in cases {
        let hmac = slot(Hash::Sha256, KeyForm::Text, text, fields);
        let said = lines(&hmac, POST, body.as_bytes(), key.as_bytes()).unwrap();
        assert_eq!(said, expected, "{text}");
    }
    let exchange = slot(
        Hash::Sha256,
        KeyForm::Base64,
        "{timestamp}{method}{target}{body}",
        &[
            ("x-access-key", "the-id"),
            ("x-access-timestamp", "{timestamp}"),
            ("x-access-sign", "{base64}"),
        ],
    );
    let key = "YSBrZXkgb2YgYW4gZXhjaGFuZ2UsIDMyIGJ5dGVzLi4=";
    let said = lines(&exchange, POST, b"{\"size\":\"1\"}", key.as_bytes()).unwrap();
    let expected = "x-access-key: the-id\r\nx-access-timestamp: 1531420618\r\n\
                    x-access-sign: 54CJbYZZZecyZl6NQrHHzeROPN0Qww6K6lIpiYKE8NM=\r\n";
    assert_eq!(said, expected);
}

#[test]
fn a_field_that_is_signed_goes_out_once_or_nothing_does() {
    let text = "{header:x-id}{method}";
    let hmac = slot(Hash::Sha256, KeyForm::Text, text, &[("x-s", "{hex}")]);
    for (fields, is_signed) in [
        ("X-Id: 1|", true),
        ("", false),
        ("X-Id: 1|X-Id: 1|", false),
        ("X-Id: 1|x-id: 2|", false),
        // Of this hop alone, so it does not go out.
        ("X-Id: 1|Connection: x-id|", false),
    ] {
        let head = format!("GET / HTTP/1.1|Host: allow.test|{fields}|");
        let said = lines(&hmac, &head, b"", b"a-secret-of-16-b");
        assert_eq!(said.is_ok(), is_signed, "{fields}");
    }
}

#[test]
fn a_value_that_is_no_key_in_its_form_signs_nothing() {
    for (form, value) in [
        (KeyForm::Base64, "not base64!!!!"),
        (KeyForm::Base64, "YWJjZA"),
        (KeyForm::Hex, "0b0b0"),
        (KeyForm::Hex, "0x0b0b0b0b"),
        (KeyForm::Text, ""),
    ] {
        let hmac = slot(Hash::Sha256, form, "{body}", &[("x-s", "{hex}")]);
        let refused = lines(&hmac, POST, b"", value.as_bytes()).unwrap_err();
        assert!(refused.hint.contains("store or bind it again"), "{value}");
        assert!(!refused.hint.contains("0b0b"), "{refused:?}");
    }
}
