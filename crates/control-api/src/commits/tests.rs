// SPDX-License-Identifier: Apache-2.0
//! Tests of names, ids and frames.

use super::*;

// ATTACK: 166
#[test]
fn a_ref_has_a_name_that_git_allows_or_none() {
    for name in [
        "refs/heads/main",
        "refs/heads/agent/fix-1",
        "refs/tags/v1.0.0",
        "refs/heads/Straße",
        "refs/heads/a@b",
        "refs/heads/$(touch x)".trim_end_matches(" x)"),
        "refs/heads/'a;b",
    ] {
        assert_eq!(RefName::parse(name).unwrap().as_str(), name);
    }
    for name in [
        "",
        "HEAD",
        "main",
        "refs/heads",
        "refs/heads/",
        "refs/heads//a",
        "refs/heads/a/",
        "refs/heads/a//b",
        "refs/heads/../../config",
        "refs/heads/a..b",
        "refs/heads/.a",
        "refs/heads/a/.b",
        "refs/heads/a.lock",
        "refs/heads/a.lock/b",
        "refs/heads/a.",
        "refs/heads/a b",
        "refs/heads/a~1",
        "refs/heads/a^",
        "refs/heads/a:b",
        "refs/heads/a?",
        "refs/heads/a*",
        "refs/heads/a[",
        "refs/heads/a\\b",
        "refs/heads/a@{1}",
        "refs/heads/@",
        "refs/heads/HEAD",
        "refs/heads/-d",
        "refs/heads/a/--upload-pack=x",
        "refs/heads/a\0",
        "refs/heads/a\n",
        "refs/heads/a\r",
        "refs/heads/a\x1b[2J",
        "refs/heads/a\x7f",
        "refs/heads/a\u{9b}",
        "refs/remotes/origin/main",
        "refs/torno/x/heads/main",
        "refs/notes/commits",
        "refs/stash",
        "refs/Heads/a",
        "/refs/heads/a",
        " refs/heads/a",
    ] {
        assert!(RefName::parse(name).is_err(), "{name:?}");
    }
    let long = format!("refs/heads/{}", "a".repeat(NAME_BYTES_MAX));
    assert_eq!(RefName::parse(&long), Err(RefNameError::Long));
}

#[test]
fn every_name_of_two_odd_pieces_is_one_that_stays_below_its_session() {
    let pieces = [
        "a", "A", ".", "..", "/", "\\", "-", "@", "{", "HEAD", ".lock", " ", "\n", "\0", "~", ":",
        "é", "*",
    ];
    let session = SessionId::parse("abc").unwrap();
    let mut taken = 0;
    for one in pieces {
        for two in pieces {
            for three in pieces {
                let name = format!("refs/heads/{one}{two}{three}");
                let Ok(parsed) = RefName::parse(&name) else {
                    continue;
                };
                taken += 1;
                let there = parsed.of_session(&session);
                assert!(there.starts_with("refs/torno/abc/heads/"), "{there}");
                let path = std::path::Path::new(&there);
                let plain = path
                    .components()
                    .all(|part| matches!(part, std::path::Component::Normal(_)));
                assert!(plain && !there.ends_with('/'), "{there}");
                assert!(!there.contains(|c: char| c.is_control() || c == ' '));
            }
        }
    }
    assert!(taken > 100, "{taken}");
}

#[test]
fn names_that_one_directory_can_not_hold_clash() {
    let name = |text: &str| RefName::parse(text).unwrap();
    for (one, two) in [
        ("refs/heads/a", "refs/heads/a/b"),
        ("refs/heads/A/b", "refs/heads/a"),
        ("refs/heads/main", "refs/heads/Main"),
        ("refs/heads/É", "refs/heads/é"),
    ] {
        assert!(name(one).clashes(&name(two)), "{one} {two}");
        assert!(name(two).clashes(&name(one)), "{one} {two}");
    }
    assert!(!name("refs/heads/a").clashes(&name("refs/heads/ab")));
    assert!(!name("refs/heads/a").clashes(&name("refs/tags/a")));
}

#[test]
fn an_id_is_forty_digits() {
    let id = "0123456789abcdef0123456789abcdef01234567";
    assert_eq!(
        ObjectId::parse(id).unwrap().place(),
        ("01", "23456789abcdef0123456789abcdef01234567")
    );
    for odd in [
        "",
        &"a".repeat(39),
        &id.to_uppercase(),
        &format!("{id}0"),
        &"0".repeat(40),
        &"a".repeat(64),
        "../3456789abcdef0123456789abcdef01234567",
    ] {
        assert_eq!(ObjectId::parse(odd), None, "{odd}");
    }
}

#[test]
fn frames_come_out_as_they_went_in_and_nothing_else_does() {
    let id = ObjectId::parse(&"a".repeat(40)).unwrap();
    let frames = [
        Frame::Ref {
            name: RefName::parse("refs/heads/a").unwrap(),
            id: id.clone(),
        },
        Frame::Left {
            what: "x\u{1b}".to_owned(),
            why: "y".to_owned(),
        },
        Frame::Object { id, bytes: 7 },
        Frame::Pack { bytes: 9 },
        Frame::Failed {
            why: "z".to_owned(),
        },
        Frame::End,
    ];
    let mut stream = Vec::new();
    for frame in &frames {
        write_frame(&mut stream, frame).unwrap();
    }
    let mut from = stream.as_slice();
    for frame in &frames {
        assert_eq!(&read_frame(&mut from).unwrap(), frame);
    }
    assert!(read_frame(&mut from).is_err());
    let raw = |head: &[u8]| {
        let mut stream = u32::try_from(head.len()).unwrap().to_be_bytes().to_vec();
        stream.extend_from_slice(head);
        read_frame(&mut stream.as_slice())
    };
    raw(br#""end""#).unwrap();
    for odd in [
        &br#"{"ref":{"name":"refs/heads/../x","id":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}}"#[..],
        br#"{"ref":{"name":"refs/heads/x","id":"../"}}"#,
        br#"{"object":{"id":"../../../etc/x","bytes":1}}"#,
        br#"{"pack":{"bytes":1,"path":"x"}}"#,
        br#"{"pack":{"bytes":-1}}"#,
        b"",
    ] {
        assert!(raw(odd).is_err(), "{odd:?}");
    }
    assert!(read_frame(&mut &u32::MAX.to_be_bytes()[..]).is_err());
}

#[test]
fn a_stream_ends_at_its_limits() {
    let mut budget = Budget::default();
    budget.take(&Frame::Pack { bytes: BYTES_MAX }).unwrap();
    assert!(budget.take(&Frame::Pack { bytes: 1 }).is_err());
    let mut budget = Budget::default();
    for _ in 0..PACKS_MAX {
        budget.take(&Frame::Pack { bytes: 0 }).unwrap();
    }
    assert!(budget.take(&Frame::Pack { bytes: 0 }).is_err());
    assert!(budget.take(&Frame::End).is_ok());
}
