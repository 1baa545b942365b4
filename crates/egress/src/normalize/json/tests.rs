// SPDX-License-Identifier: Apache-2.0

#![expect(clippy::string_slice, reason = "ranges end beside ASCII bytes")]

use super::*;
use proptest::prelude::*;

fn is_text(text: &str) -> bool {
    read(text.as_bytes()).is_ok()
}

#[test]
fn json_that_two_parsers_could_read_in_two_ways_is_refused() {
    // ATTACK: 200
    for wrong in [
        "",
        " ",
        "{",
        "[1,]",
        "{\"a\":1,}",
        "{\"a\":1}x",
        "{\"a\":1}{}",
        "\u{feff}{}",
        "NaN",
        "[Infinity]",
        "{a:1}",
        "{'a':1}",
        "01",
        "1.",
        ".5",
        "+1",
        "1e",
        "--1",
        "\"\n\"",
        "\"\\x\"",
        "\"\\ud800\"",
        "\"\\udc00\"",
        "\"\\ud800\\u0041\"",
        "\"\\u00g0\"",
        "// x\n{}",
        "/**/{}",
        "{\"a\":1,\"a\":2}",
        "{\"a\":{\"b\":[{\"c\":1,\"\\u0063\":2}]}}",
        "tru",
        "nulll",
        "\0",
        "{\"a\" 1}",
        "{\"a\":}",
        "[1 2]",
        "\u{a0}{}",
        "{\"a\":1,\"b\":1,\"a\":1}",
    ] {
        assert!(!is_text(wrong), "{wrong}");
    }
    assert!(read(b"\"\xff\"").is_err());
    assert!(read(b"\"\xc0\xaf\"").is_err());
    let deep = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    assert!(is_text(&deep(DEPTH_MAX)));
    assert!(!is_text(&deep(DEPTH_MAX + 2)));
    assert!(!is_text(&"[".repeat(1 << 20)));
}

#[test]
fn what_is_well_formed_is_read_as_it_is_meant() {
    let text = " {\"a\\u0062\" : [ 1, -0.5e+3, true , null ], \"é\\ud83d\\ude00\":\"x\\n\\/\" } \n";
    let Value::Object(members) = read(text.as_bytes()).unwrap() else {
        panic!("no object")
    };
    assert_eq!(members[0].0, "ab");
    let of = [Value::Scalar, Value::Scalar, Value::Scalar, Value::Null];
    assert_eq!(members[0].1, Value::Array(of.to_vec()));
    assert_eq!(
        members[1],
        ("é😀".to_owned(), Value::Text("x\n/".to_owned()))
    );
}

/// A second parser's value, in our words; nothing where a name may stand twice.
pub(crate) fn other(bytes: &[u8]) -> Option<Value> {
    fn of(value: serde_json::Value) -> Value {
        match value {
            serde_json::Value::Null => Value::Null,
            serde_json::Value::String(text) => Value::Text(text),
            serde_json::Value::Array(values) => Value::Array(values.into_iter().map(of).collect()),
            serde_json::Value::Object(members) => {
                Value::Object(members.into_iter().map(|(n, v)| (n, of(v))).collect())
            }
            serde_json::Value::Bool(_) | serde_json::Value::Number(_) => Value::Scalar,
        }
    }
    serde_json::from_slice(bytes).ok().map(of)
}

/// The same with the members of every object in order of their names.
fn sorted(value: Value) -> Value {
    match value {
        Value::Object(members) => {
            let mut members: Vec<_> = members.into_iter().map(|(n, v)| (n, sorted(v))).collect();
            members.sort_by(|a, b| a.0.cmp(&b.0));
            Value::Object(members)
        }
        Value::Array(values) => Value::Array(values.into_iter().map(sorted).collect()),
        leaf => leaf,
    }
}

fn pieces() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("{".to_owned()),
        Just("}".to_owned()),
        Just("[".to_owned()),
        Just("]".to_owned()),
        Just(":".to_owned()),
        Just(",".to_owned()),
        Just("null".to_owned()),
        Just("\"a\":1".to_owned()),
        Just("\"\\u0061\":2".to_owned()),
        "[-0-9.e+]{1,4}",
        "\"[a-c\\\\u0-9\"]{0,4}\"",
        "[ \t\n]{1}",
        any::<char>().prop_map(String::from),
    ];
    prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

proptest! {
    /// What we take another parser takes too, and reads the same.
    #[test]
    fn what_is_taken_means_the_same_to_another_parser(text in pieces()) {
        if let Ok(value) = read(text.as_bytes()) {
            match other(text.as_bytes()) {
                Some(same) => prop_assert_eq!(sorted(value), sorted(same)),
                // A number too large for it, and nothing else.
                None => prop_assert!(text.bytes().any(|b| b.is_ascii_digit()), "{}", text),
            }
        }
    }
}

fn led(text: &str, pointer: &str) -> Option<String> {
    match find(text.as_bytes(), &Pointer::parse(pointer).unwrap()).unwrap() {
        Spot::Value(range) => Some(text[range].to_owned()),
        Spot::Room(room) => Some(format!("room {} {}", room.at, room.is_empty)),
        Spot::Nowhere => None,
        Spot::Twice => Some("twice".to_owned()),
    }
}

#[test]
fn a_pointer_leads_to_one_value_or_to_the_room_for_it() {
    let text = r#" {"a" : {"b": "x", "list":[1,{"c":"y"}], "n":null}, "d":{}, "/":"z"} "#;
    for (pointer, found) in [
        ("/a/b", Some(r#""x""#)),
        ("/a/n", Some("null")),
        ("/a/list/1/c", Some(r#""y""#)),
        ("/a/list/0", Some("1")),
        ("/~1", Some(r#""z""#)),
        ("/d", Some("{}")),
        ("/d/x", Some("room 57 true")),
        ("/new", Some("room 2 false")),
        ("/a/list/1/new", Some("room 30 false")),
        ("/a/list/2", None),
        ("/a/list/01", None),
        ("/a/b/c", None),
        ("/x/y", None),
    ] {
        assert_eq!(led(text, pointer).as_deref(), found, "{pointer}");
    }
    assert_eq!(led("[\"x\"]", "/0").as_deref(), Some("\"x\""));
    assert_eq!(led("\"x\"", "/0"), None);
}

// ATTACK: 200
#[test]
fn a_member_on_the_way_in_another_spelling_is_seen() {
    for text in [
        r#"{"d":{"token":"x","Token":"y"}}"#,
        r#"{"d":{"token":"x"},"D":{}}"#,
        r#"{"D":{"token":"x"}}"#,
        r#"{"d":{"TOKEN":"x"}}"#,
        r#"{"d":{"tok\u0065n":"x"}}"#,
        r#"{"\u0064":{"token":"x"}}"#,
        r#"{"d":{"token":"x","to\u212aen":"y"}}"#,
        r#"{"d":{"token":"x","token\u0000y":"y"}}"#,
    ] {
        assert_eq!(led(text, "/d/token").as_deref(), Some("twice"), "{text}");
    }
    // Beside the way nothing is meant.
    let text = r#"{"d":{"token":"x"},"e":{"Token":"y"},"token":"z"}"#;
    assert_eq!(led(text, "/d/token").as_deref(), Some(r#""x""#));
    for text in [
        r#"{"d":{"token":"x","token":"y"}}"#,
        "\u{feff}{}",
        "{} x",
        "{}{}",
    ] {
        let pointer = Pointer::parse("/d/token").unwrap();
        assert!(find(text.as_bytes(), &pointer).is_err(), "{text}");
    }
}

fn tree() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<i32>().prop_map(Into::into),
        "[a-z\"\\\\µ]{0,4}".prop_map(Into::into),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Into::into),
            prop::collection::btree_map("[a-c01]", inner, 0..4)
                .prop_map(|map| serde_json::Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    /// What is found is what another implementation of RFC 6901 finds, spelled as it was.
    #[test]
    fn a_pointer_leads_where_another_reader_goes(tree in tree(), pointer in "(/[a-c01]){1,4}") {
        let text = tree.to_string();
        let known = tree.pointer(&pointer);
        match find(text.as_bytes(), &Pointer::parse(&pointer).unwrap()).unwrap() {
            Spot::Value(range) => {
                let read: serde_json::Value = serde_json::from_str(&text[range]).unwrap();
                prop_assert_eq!(Some(&read), known);
            }
            Spot::Room(room) => {
                prop_assert_eq!(known, None);
                let parent = tree.pointer(pointer.rsplit_once('/').unwrap().0).unwrap();
                prop_assert!(parent.is_object());
                let next = if room.is_empty { "" } else { "," };
                let name = pointer.rsplit_once('/').unwrap().1;
                let (front, back) = text.split_at(room.at);
                let filled = format!("{front}\"{name}\":\"SECRET\"{next}{back}");
                let read: serde_json::Value = serde_json::from_str(&filled).unwrap();
                prop_assert_eq!(read.pointer(&pointer).unwrap(), "SECRET");
            }
            Spot::Nowhere => prop_assert_eq!(known, None),
            Spot::Twice => prop_assert!(false, "no name has a second spelling"),
        }
    }
}
