// SPDX-License-Identifier: Apache-2.0
//! Slots in the query and the path: what is read, and what is filled.

use super::*;
use proptest::prelude::*;

fn query(parameter: &str) -> Slot {
    Slot::Query {
        parameter: parameter.to_owned(),
    }
}

fn path(template: &str) -> Slot {
    Slot::Path {
        template: PathPattern::parse(template).unwrap(),
    }
}

fn held(slot: &Slot, target: &str) -> Option<Held> {
    slot.held(&RequestPath::parse_named(target).unwrap())
}

fn filled(slot: &Slot, target: &str) -> Option<String> {
    let filling = slot.fill(&RequestPath::parse_named(target).unwrap())?;
    Some(format!("{}SECRET{}", filling.before, filling.after))
}

#[test]
fn one_parameter_is_read_and_filled_and_every_other_byte_stays() {
    let key = query("key");
    for (target, state, out) in [
        ("/x", Held::Nothing, "/x?key=SECRET"),
        ("/x?", Held::Nothing, "/x?key=SECRET"),
        ("/x?a=1", Held::Nothing, "/x?a=1&key=SECRET"),
        ("/x?key", Held::Nothing, "/x?key=SECRET"),
        ("/x?key&a", Held::Nothing, "/x?key=SECRET&a"),
        ("/x?key=", Held::Nothing, "/x?key=SECRET"),
        ("/x?key={credential}", Held::Placeholder, "/x?key=SECRET"),
        (
            "/x?a=%41&key={credential}&&b=c=d",
            Held::Placeholder,
            "/x?a=%41&key=SECRET&&b=c=d",
        ),
        ("/x?key=own&b=1", Held::Own, "/x?key=SECRET&b=1"),
        ("/x?key=a=b", Held::Own, "/x?key=SECRET"),
        (
            "/x?monkey=1&keys=2",
            Held::Nothing,
            "/x?monkey=1&keys=2&key=SECRET",
        ),
        // Not the placeholder alone: the client's own.
        ("/x?key=a{credential}", Held::Own, "/x?key=SECRET"),
    ] {
        assert_eq!(held(&key, target), Some(state), "{target}");
        assert_eq!(filled(&key, target).as_deref(), Some(out), "{target}");
    }
}

// ATTACK: 086
#[test]
fn a_second_place_in_any_spelling_is_seen() {
    let key = query("api_key");
    for target in [
        "/?api_key=1&api_key={credential}",
        "/?api_key={credential}&api_key={credential}",
        "/?api_key={credential}&API_KEY=own",
        "/?api_key={credential}&api%5Fkey=own",
        "/?api_key={credential}&api%255Fkey=own",
        "/?api_key={credential}&%61pi_key=own",
        "/?api_key={credential}&api.key=own",
        "/?api_key={credential}&api+key=own",
        "/?api_key={credential}&api-key",
        "/?api_key={credential}&api_key[]=own",
        "/?api_key={credential}&api_key%5B0%5D=own",
        "/?api_key={credential}&+api_key=own",
        "/?api_key={credential}&api_key%00x=own",
        "/?api_key={credential}&a=1;api_key=own",
        "/?api_key={credential};a=1",
        // One place alone, and another spelling.
        "/?API_KEY={credential}",
        "/?api%5fkey={credential}",
        "/?a;api_key=1",
    ] {
        assert_eq!(held(&key, target), Some(Held::Twice), "{target}");
        assert_eq!(filled(&key, target), None, "{target}");
    }
}

#[test]
fn one_segment_is_read_and_filled() {
    let bot = path("/bot{credential}/**");
    for (target, state, out) in [
        (
            "/bot{credential}/getMe",
            Some(Held::Placeholder),
            Some("/botSECRET/getMe"),
        ),
        (
            "/bot{credential}/a?b={c}",
            Some(Held::Placeholder),
            Some("/botSECRET/a?b={c}"),
        ),
        ("/bot/getMe", Some(Held::Nothing), Some("/botSECRET/getMe")),
        ("/botown/getMe", Some(Held::Own), Some("/botSECRET/getMe")),
        ("/bota%2Fb/getMe", Some(Held::Own), Some("/botSECRET/getMe")),
        (
            "/bot{credential}x/getMe",
            Some(Held::Own),
            Some("/botSECRET/getMe"),
        ),
        ("/bot{credential}/{credential}", Some(Held::Twice), None),
        (
            "/bot{credential}/a?b={credential}",
            Some(Held::Placeholder),
            None,
        ),
        ("/x{credential}/getMe", None, None),
        ("/getMe", None, None),
    ] {
        assert_eq!(held(&bot, target), state, "{target}");
        assert_eq!(filled(&bot, target).as_deref(), out, "{target}");
    }
    let hook = path("/services/*/pre{credential}post");
    assert_eq!(held(&hook, "/services/T0/preXpost"), Some(Held::Own));
    assert_eq!(held(&hook, "/services/T0/prepost"), Some(Held::Nothing));
    assert_eq!(held(&hook, "/services/T0/prpost"), None);
    assert_eq!(held(&hook, "/services/T0/preXpost/more"), None);
    let last = path("/services/{credential}");
    assert_eq!(held(&last, "/services/"), Some(Held::Nothing));
    assert_eq!(held(&last, "/services"), None);
    let own = RequestPath::parse("/services/T0/preXpost?q").unwrap();
    assert_eq!(
        hook.named(&own).to_string(),
        "/services/T0/pre{credential}post?q"
    );
    assert_eq!(held(&path("/a"), "/a"), None);
}

#[test]
fn slots_of_one_place_contest_it() {
    let header = |name: &str| Slot::Header {
        name: name.to_owned(),
        scheme: None,
    };
    let basic = Slot::Basic {
        user: "git".to_owned(),
    };
    assert!(basic.contests(&header("authorization")));
    assert!(!basic.contests(&header("x-api-key")));
    assert!(query("api_key").contests(&query("API-Key")));
    assert!(!query("key").contests(&query("k")));
    assert!(path("/{credential}").contests(&path("/a/{credential}")));
    assert!(!path("/{credential}").contests(&query("key")));
    assert!(!query("key").contests(&header("key")));
    let pointer = Pointer::parse("/a").unwrap();
    let field = "a".to_owned();
    let json = Slot::Json {
        pointer: pointer.clone(),
    };
    let binary = false;
    let message = Slot::WebsocketJson { pointer, binary };
    // A body is read for one slot.
    assert!(json.contests(&Slot::Form { field }));
    assert!(message.contests(&message) && !message.contests(&json));
    assert!(!json.contests(&query("a")) && !json.contests(&path("/{credential}")));
}

/// The slow way: every pair by itself, put together again.
fn slow_fill(target: &str, parameter: &str, value: &str) -> String {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let mut pairs: Vec<String> = Vec::new();
    let mut found = false;
    for pair in query.split('&') {
        let name = pair.split('=').next().unwrap();
        if name == parameter {
            found = true;
            pairs.push(format!("{parameter}={value}"));
        } else {
            pairs.push(pair.to_owned());
        }
    }
    if !found {
        if query.is_empty() {
            pairs.clear();
        }
        pairs.push(format!("{parameter}={value}"));
    }
    format!("{path}?{}", pairs.join("&"))
}

// ATTACK: 083
#[test]
fn a_presigned_url_is_a_signature_of_the_clients_own() {
    let scope = Sigv4 {
        key_id: "AKIAIOSFODNN7EXAMPLE".to_owned(),
        region: "eu-central-1".to_owned(),
        service: "s3".to_owned(),
    };
    let slot = Slot::Sigv4(scope);
    for own in [
        "X-Amz-Signature=00",
        "a=1&x-amz-credential=mine",
        "X%2DAmz%2DSignature=00",
        "X%252DAmz-Algorithm=AWS4-HMAC-SHA256",
        "a=1;X-Amz-Security-Token=x",
        "AWSAccessKeyId=mine&Expires=1&Signature=x",
    ] {
        assert_eq!(held(&slot, &format!("/k?{own}")), Some(Held::Own), "{own}");
    }
    for plain in ["/k", "/k?x-id=GetObject&list-type=2", "/X-Amz-Signature=1"] {
        assert_eq!(held(&slot, plain), None, "{plain}");
    }
    assert_eq!(slot.header_name(), Some("authorization"));
    assert_eq!(slot.to_string(), "sigv4:eu-central-1/s3");
    assert_eq!(filled(&slot, "/k"), None);
}

proptest! {
    /// Bytes outside of the slot are identical, and the value stands there exactly once; what the
    /// slow reading finds twice is never filled.
    #[test]
    fn a_query_is_filled_as_the_slow_way_fills_it(
        pairs in prop::collection::vec("(key|k|KEY|a|%6Bey|key%20)?(=[a-z0-9%=]{0,4})?(;key=1)?", 0..5),
    ) {
        let target = format!("/p?{}", pairs.join("&"));
        let path = RequestPath::parse(&target).unwrap();
        let slot = query("key");
        let names: Vec<String> = target.split_once('?').unwrap().1
            .split(['&', ';'])
            .map(|pair| pair.split('=').next().unwrap().to_ascii_lowercase().replace("%6b", "k"))
            .collect();
        let alike = names.iter().filter(|name| *name == "key").count();
        match slot.fill(&path) {
            Some(filling) => {
                prop_assert!(alike <= 1, "{target}");
                let out = format!("{}SECRET{}", filling.before, filling.after);
                prop_assert_eq!(&out, &slow_fill(&target, "key", "SECRET"));
                prop_assert_eq!(out.matches("SECRET").count(), 1);
            }
            None => {
                prop_assert_eq!(slot.held(&path), Some(Held::Twice));
                let plain = target.matches("key").count() == 1
                    && (target.contains("?key=") || target.contains("&key="))
                    && !target.contains(';') && !target.contains("%6B")
                    && !target.contains("KEY") && !target.contains("key%");
                prop_assert!(!plain, "{target} could have been filled");
            }
        }
    }

    /// A path in a template's place keeps every byte but those of the one segment's middle.
    #[test]
    fn a_segment_is_filled_as_the_slow_way_fills_it(
        own in "[a-z0-9:~%]{0,8}", rest in "[a-z]{1,6}(/[a-z]{1,3}){0,2}", query in "[a-z=&]{0,6}",
    ) {
        let target = format!("/v1/k-{own}.json/{rest}?{query}");
        let slot = path("/v1/k-{credential}.json/**");
        if let Ok(read) = RequestPath::parse(&target) {
            let out = filled(&slot, &read.to_string()).unwrap();
            prop_assert_eq!(out, format!("/v1/k-SECRET.json/{rest}?{query}"));
            let state = slot.held(&read).unwrap();
            prop_assert_eq!(state == Held::Nothing, own.is_empty());
        }
    }
}
