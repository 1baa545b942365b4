// SPDX-License-Identifier: Apache-2.0
//! Each mode, for each thing that a client can say on a WebSocket with a slot.

use super::*;
use torno_policy::placeholder::Placeholder;

const VALUE: &str = "sk-live-\"canary\\0123";
const SPELLED: &str = r#"sk-live-\"canary\\0123"#;

fn ph(seed: u8) -> String {
    Placeholder::new("sk-", [seed; 16]).as_str().to_owned()
}

fn slot(mode: Mode) -> MessageSlot {
    MessageSlot {
        pointer: Pointer::parse("/d/token").unwrap(),
        passes_binary: false,
        mode,
        placeholder: Placeholder::parse(&ph(7)).map(|one| one.digest()),
        value: Some(Zeroizing::new(VALUE.as_bytes().to_vec())),
    }
}

fn said(slot: &mut MessageSlot, message: &str) -> String {
    match slot.take(message.as_bytes().to_vec()) {
        Ok(out) => {
            let out = String::from_utf8(out.to_vec()).unwrap();
            out.replace(SPELLED, "VALUE")
        }
        Err(fault) => fault.reason.code().to_owned(),
    }
}

const MODES: [Mode; 3] = [Mode::Placeholder, Mode::PlaceholderOrInject, Mode::Inject];

fn token(value: &str) -> String {
    format!(r#"{{"op":2,"d":{{"token":{value}}}}}"#)
}

// ATTACK: 063, 083, 086
#[test]
fn each_mode_fills_a_message_as_it_fills_a_request() {
    let (mine, filled) = (token(&format!("\"{}\"", ph(7))), token("\"VALUE\""));
    let (empty, null, own) = (token("\"\""), token("null"), token("\"mine\""));
    let foreign = token(&format!("\"{}\"", ph(9)));
    let beside = format!(r#"{{"d":{{"token":"{0}","again":"{0}"}}}}"#, ph(7));
    let elsewhere = format!(r#"{{"d":{{}},"token":"{}"}}"#, ph(7));
    let twice = format!(r#"{{"d":{{"token":"{}","TOKEN":""}}}}"#, ph(7));
    let hidden = data_encoding::BASE64.encode(ph(7).as_bytes());
    let hidden = format!(r#"{{"d":{{"a":"{hidden}"}}}}"#);
    for mode in MODES {
        let by_itself = mode != Mode::Placeholder;
        let replaces = mode == Mode::Inject;
        let when = |is: bool, or: &str| if is { filled.clone() } else { or.to_owned() };
        for (message, expected) in [
            (mine.as_str(), filled.clone()),
            (&empty, when(by_itself, &empty)),
            (&null, when(by_itself, &null)),
            (&own, when(replaces, "own_credential")),
            (&token("1"), when(replaces, "own_credential")),
            (&foreign, "credential_endpoint_mismatch".to_owned()),
            (&beside, "credential_endpoint_mismatch".to_owned()),
            (&elsewhere, "credential_endpoint_mismatch".to_owned()),
            (&hidden, "credential_endpoint_mismatch".to_owned()),
            (&twice, "placeholder_repeated".to_owned()),
            // Other messages than the one that logs in.
            (r#"{"op":1,"d":251}"#, r#"{"op":1,"d":251}"#.to_owned()),
            (
                r#"{"op":3,"d":{"since":91}}"#,
                r#"{"op":3,"d":{"since":91}}"#.to_owned(),
            ),
            ("[]", "[]".to_owned()),
            ("hello", "malformed_request".to_owned()),
            ("", "malformed_request".to_owned()),
            (
                r#"{"d":1}{"d":{"token":"mine"}}"#,
                "malformed_request".to_owned(),
            ),
        ] {
            assert_eq!(
                said(&mut slot(mode), message),
                expected,
                "{mode:?} {message}"
            );
        }
    }
}

#[test]
fn the_value_goes_into_one_message_and_is_gone() {
    for mode in MODES {
        let mut slot = slot(mode);
        let mine = token(&format!("\"{}\"", ph(7)));
        let other = r#"{"op":1,"d":null}"#;
        assert_eq!(said(&mut slot, other), other);
        assert_eq!(said(&mut slot, &mine), token("\"VALUE\""));
        assert!(slot.value.is_none());
        assert_eq!(said(&mut slot, other), other);
        assert_eq!(said(&mut slot, &mine), "placeholder_repeated");
        let own = said(&mut slot, &token("\"mine\""));
        assert_eq!(
            own,
            if mode == Mode::Inject {
                "placeholder_repeated"
            } else {
                "own_credential"
            }
        );
    }
}
