// SPDX-License-Identifier: Apache-2.0
//! What a person is told of a directory that was, or was not, sent into a machine.

use super::*;

fn copied(hidden: &[(&str, &str)], left_out: &[&str]) -> PorterReply {
    let hidden = hidden
        .iter()
        .map(|&(place, shape)| (place.to_owned(), shape.to_owned()));
    PorterReply::Copied {
        hidden: hidden.collect(),
        left_out: left_out.iter().map(|&place| place.to_owned()).collect(),
        bytes: 7,
    }
}

#[test]
fn what_is_hidden_of_a_directory_is_named_as_the_person_wrote_it() {
    let reply = copied(&[(".npmrc", "npm"), ("", "2 entries")], &["socket"]);
    let (hidden, bytes) = outcome("~/tools", Some(Ok((reply, None)))).unwrap();
    assert_eq!(bytes, 7);
    let hidden: Vec<_> = hidden.iter().map(|(place, _)| place.as_str()).collect();
    assert_eq!(hidden, ["~/tools/.npmrc", "~/tools", "~/tools/socket"]);
}

#[test]
fn a_directory_that_did_not_arrive_whole_is_no_start_and_says_why() {
    let failed = || PorterReply::Failed {
        message: "the porter's word".to_owned(),
    };
    let whole = || copied(&[], &[]);
    for (moved, word) in [
        (None, "300 s"),
        (Some(Ok((failed(), None))), "the porter's word"),
        (
            Some(Ok((failed(), Some(FileFailure::Failed)))),
            "the porter's word",
        ),
        (
            Some(Ok((failed(), Some(FileFailure::NoSpace)))),
            "limits.memory",
        ),
        (Some(Ok((failed(), Some(FileFailure::Denied)))), "no place"),
        (
            Some(Ok((whole(), Some(FileFailure::NoSpace)))),
            "limits.memory",
        ),
        (
            Some(Ok((whole(), Some(FileFailure::NotADirectory)))),
            "no place",
        ),
        (Some(Ok((whole(), Some(FileFailure::Failed)))), "agent"),
    ] {
        let failure = outcome("/opt/tools", moved).unwrap_err();
        assert_eq!(failure.code, "also_unusable");
        assert!(failure.message.contains("`/opt/tools`"), "{failure:?}");
        assert!(failure.message.contains(word), "{word}: {failure:?}");
    }
    let value = PorterReply::VaultValue {
        place: "a/b".to_owned(),
        credential: "github".to_owned(),
    };
    let failure = outcome("~/tools", Some(Ok((value, Some(FileFailure::Failed))))).unwrap_err();
    assert_eq!(failure.code, "vault_value_inside");
    assert!(failure.message.contains("~/tools/a/b"), "{failure:?}");
}
