// SPDX-License-Identifier: Apache-2.0

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
