// SPDX-License-Identifier: Apache-2.0
//! Placeholders are found wherever they stand, plain or encoded, in linear time.

use super::*;
use data_encoding::{BASE64, BASE64URL, BASE64URL_NOPAD};

fn sample() -> Placeholder {
    Placeholder::new("ghp_", *b"0123456789abcdef")
}

#[test]
fn a_placeholder_has_its_shape_its_mark_and_38_more_characters() {
    let text = sample().as_str().to_owned();
    assert!(text.starts_with("ghp_TRNO"), "{text}");
    assert_eq!(text.len(), 4 + 4 + 26 + 6);
    assert!(text.bytes().all(is_shape_byte));
}

#[test]
fn a_placeholder_is_found_with_its_shape_and_its_place() {
    let text = format!("token {}; next", sample().as_str());
    let found = Placeholder::find_all(text.as_bytes());
    assert_eq!(found, vec![(6..46, sample())]);
    assert_eq!(Placeholder::parse(sample().as_str()), Some(sample()));
    assert_eq!(Placeholder::parse(&text), None);
}

#[test]
fn letters_glued_to_the_front_do_not_change_the_shape() {
    let text = format!("abcdefghijklmnopqrstuvwxyz{}", sample().as_str());
    assert_eq!(Placeholder::find_all(text.as_bytes())[0].1, sample());
}

#[test]
fn one_wrong_character_makes_it_no_placeholder() {
    let text = sample().as_str().to_owned();
    for at in 0..text.len() {
        let mut bytes = text.clone().into_bytes();
        bytes[at] = if bytes[at] == b'q' { b'r' } else { b'q' };
        let same = |p: &Placeholder| *p == sample();
        assert!(
            !Placeholder::find_all(&bytes).iter().any(|(_, p)| same(p)),
            "at {at}"
        );
        if at >= 4 {
            assert!(Placeholder::find_all(&bytes).is_empty(), "at {at}");
        }
    }
}

#[test]
fn a_shape_with_foreign_or_too_many_characters_still_makes_a_findable_placeholder() {
    for shape in [
        "a b\r\n:",
        "TRNO",
        "TRNOTRNOTRNO",
        "é",
        "abcdefghijklmnopqrstuvwxyz0123456789",
        "",
    ] {
        let made = Placeholder::new(shape, [7; 16]);
        let found = Placeholder::find_all(made.as_str().as_bytes());
        assert!(found.iter().any(|(_, p)| *p == made), "{shape}");
        assert!(made.as_str().len() <= PLACEHOLDER_BYTES_MAX);
    }
}

#[test]
fn two_placeholders_side_by_side_are_both_found() {
    let second = Placeholder::new("", [9; 16]);
    let text = format!("{}{}", sample().as_str(), second.as_str());
    let found: Vec<_> = Placeholder::find_all(text.as_bytes())
        .into_iter()
        .map(|f| f.1)
        .collect();
    assert_eq!(found, vec![sample(), second]);
}

// ATTACK: 086, 091
#[test]
fn an_encoded_placeholder_is_found_in_every_encoding() {
    let plain = sample().as_str().to_owned();
    let percent: String = plain.bytes().map(|b| format!("%{b:02x}")).collect();
    let json: String = plain.bytes().map(|b| format!("\\u00{b:02X}")).collect();
    let partly = plain.replace("TRNO", "T%52NO");
    let basic = BASE64.encode(format!("user:{plain}").as_bytes());
    let in_percent: String = basic.bytes().map(|b| format!("%{b:02X}")).collect();
    let mut hidden = vec![plain.clone(), percent, json, partly, basic, in_percent];
    for front in ["", "x", "xy", "xyz"] {
        hidden.push(BASE64.encode(format!("{front}{plain}").as_bytes()));
        hidden.push(BASE64URL.encode(format!("{front}{plain}{front}").as_bytes()));
        hidden.push(format!(
            "{front}{}",
            BASE64URL_NOPAD.encode(plain.as_bytes())
        ));
    }
    for text in hidden {
        let text = format!("/a/{text}");
        assert_eq!(
            Placeholder::find_hidden(text.as_bytes()),
            vec![sample()],
            "{text}"
        );
    }
}

// ATTACK: 230
#[test]
fn hostile_text_is_searched_in_linear_time() {
    let count = |marks: usize| {
        let text = format!("{MARK}{}", "a".repeat(32)).repeat(marks);
        let start = std::time::Instant::now();
        let found = Placeholder::find_hidden(text.as_bytes()).len();
        assert_eq!(found, 0);
        start.elapsed()
    };
    count(100);
    let (small, large) = (count(200), count(2000));
    assert!(
        large < small * 60,
        "{small:?} for 200 marks, {large:?} for 2000"
    );
}

#[test]
fn the_digest_is_sha256_of_the_text() {
    let expected: [u8; 32] = Sha256::digest(sample().as_str()).into();
    assert_eq!(sample().digest(), PlaceholderDigest(expected));
}
