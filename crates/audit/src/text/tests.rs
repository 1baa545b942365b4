// SPDX-License-Identifier: Apache-2.0
use super::*;
use proptest::prelude::*;

type Tiny = Text<16>;

// ATTACK: 212
#[test]
fn what_would_steer_a_reader_is_escaped() {
    let cases: &[(&[u8], &str)] = &[
        (b"plain", "plain"),
        (b"a\nb", "a\\u{a}b"),
        (b"a\0b", "a\\u{0}b"),
        (b"\\u{a}", "\\\\u{a}"),
        ("\u{2028}".as_bytes(), "\\u{2028}"),
        ("\u{202e}".as_bytes(), "\\u{202e}"),
        ("\u{200b}".as_bytes(), "\\u{200b}"),
        ("\u{e0041}".as_bytes(), "\\u{e0041}"),
        (b"\x7f", "\\u{7f}"),
        (b"\xff\xfe", "\\xff\\xfe"),
        (b"\xc3", "\\xc3"),
        ("é€🙂".as_bytes(), "é€🙂"),
    ];
    for (original, shown) in cases {
        let text = ShortText::new(original);
        assert_eq!(text.as_str(), *shown);
        assert!(text.cut().is_none());
    }
}

// ATTACK: 218
#[test]
fn a_long_text_keeps_length_and_digest_of_the_original_and_is_cut_at_a_character() {
    let original = "🙂".repeat(10);
    let text = Tiny::new(&original);
    assert_eq!(text.as_str(), "🙂🙂🙂🙂");
    let cut = text.cut().unwrap();
    assert_eq!(cut.bytes, 40);
    assert_eq!(cut.sha256, Digest::of(original.as_bytes()));

    let off = Tiny::new(format!("a{original}"));
    assert_eq!(off.as_str(), "a🙂🙂🙂");
    let escape = Tiny::new("123456789012345\n");
    assert_eq!(escape.as_str(), "123456789012345");
    assert_eq!(escape.cut().unwrap().bytes, 16);
    let invalid = Tiny::new([b"12345678901234".as_slice(), b"\xff"].concat());
    assert_eq!(invalid.as_str(), "12345678901234");
    assert!(Tiny::new("1234567890123456").cut().is_none());
}

// ATTACK: 218
#[test]
fn ten_megabytes_are_one_bounded_text() {
    let text = LongText::new(vec![0xff_u8; 10 << 20]);
    assert!(text.as_str().len() <= 1024);
    assert_eq!(text.cut().unwrap().bytes, 10 << 20);
    assert!(serde_json::to_string(&text).unwrap().len() < 2300);
}

#[test]
fn a_text_that_was_not_made_here_is_not_read() {
    let refused = [
        "\"a\\nb\"",
        "\"a\u{2028}b\"",
        "\"12345678901234567\"",
        "{\"text\":\"a\",\"bytes\":1}",
        "{\"text\":\"a\\u0000\",\"bytes\":1,\"sha256\":\"00\"}",
        "[]",
        "null",
    ];
    for json in refused {
        assert!(serde_json::from_str::<Tiny>(json).is_err(), "{json}");
    }
}

#[test]
fn a_list_keeps_its_first_items_and_counts_the_rest() {
    let list: List<u8, 3> = List::new(0..10);
    assert_eq!((list.count(), list.first()), (10, &[0, 1, 2][..]));
    let json = serde_json::to_string(&list).unwrap();
    assert_eq!(json, "{\"count\":10,\"first\":[0,1,2]}");
    assert_eq!(serde_json::from_str::<List<u8, 3>>(&json).unwrap(), list);
    assert!(serde_json::from_str::<List<u8, 3>>("{\"count\":4,\"first\":[0,1,2,3]}").is_err());
    assert!(serde_json::from_str::<List<u8, 3>>("{\"count\":1,\"first\":[0,1]}").is_err());
}

proptest! {
    #[test]
    fn any_bytes_become_inert_bounded_text_that_reads_back(bytes in any::<Vec<u8>>()) {
        let text = Tiny::new(&bytes);
        prop_assert!(text.as_str().len() <= 16);
        prop_assert!(text.as_str().chars().all(is_inert));
        let json = serde_json::to_string(&text).unwrap();
        prop_assert_eq!(serde_json::from_str::<Tiny>(&json).unwrap(), text);
    }

    #[test]
    fn two_originals_never_look_the_same(a in any::<Vec<u8>>(), b in any::<Vec<u8>>()) {
        let same = ShortText::new(&a) == ShortText::new(&b);
        prop_assert_eq!(same, a == b);
    }
}
