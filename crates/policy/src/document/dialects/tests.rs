// SPDX-License-Identifier: Apache-2.0
//! Rules with a dialect: what they mean, what is refused, and what of them widens.

use crate::document::{Presets, describe, parse, render, widens};
use crate::grant::Grant;

fn read(text: &str) -> Grant {
    parse(text, &Presets::shipped()).unwrap_or_else(|error| panic!("{}", render(&error, text)))
}

fn rule(keys: &str) -> String {
    format!("[[allow]]\nhost = \"a.test\"\n{keys}\n")
}

fn shown(keys: &str) -> String {
    describe(&read(&rule(keys))).remove(1)
}

#[test]
fn rules_read_like_the_sentences_that_their_owner_would_say() {
    for (keys, sentence) in [
        (
            "registry = \"npm\"",
            "uses https://a.test as npm registry: reads",
        ),
        (
            "registry = \"oci\"\noperations = [\"read\", \"publish\"]\nown_credentials = true",
            "uses https://a.test as oci registry: reads and publishes, with the client's own \
             credentials",
        ),
        (
            "registry = \"pypi\"\nunder = \"/api/pypi/main\"",
            "uses https://a.test/api/pypi/main as pypi registry: reads",
        ),
        (
            "paths = [\"/graphql\"]\ngraphql = [\"query\", \"mutation\"]",
            "asks https://a.test in GraphQL at /graphql: query mutation",
        ),
        (
            "paths = [\"/mcp\"]\njsonrpc = [\"ping\", \"tools/*\"]",
            "calls https://a.test in JSON-RPC at POST /mcp: ping tools/*",
        ),
    ] {
        assert_eq!(shown(keys), sentence);
    }
}

#[test]
fn a_rule_that_contradicts_its_dialect_is_refused_with_what_to_write() {
    for (keys, message) in [
        (
            "registry = \"maven\"",
            "one of `npm`, `pypi`, `crates`, `oci`",
        ),
        (
            "registry = \"npm\"\nmethods = [\"GET\"]",
            "leave `methods` out",
        ),
        ("registry = \"npm\"\npaths = [\"/x\"]", "under = \"/path\""),
        (
            "paths = [\"/graphql\"]\ngraphql = [\"query\"]\nwebsocket = true",
            "leave `websocket` out",
        ),
        (
            "registry = \"npm\"\noperations = [\"publish\"]",
            "[\"read\", \"publish\"]",
        ),
        (
            "registry = \"npm\"\noperations = [\"delete\"]",
            "one of `read`, `publish`",
        ),
        ("registry = \"npm\"\noperations = []", "an empty list"),
        ("registry = \"npm\"\nunder = \"x\"", "a plain path"),
        ("registry = \"npm\"\nunder = \"/x/\"", "a plain path"),
        ("registry = \"npm\"\nunder = \"/*\"", "a plain path"),
        ("registry = \"npm\"\nunder = \"/x%2Fy\"", "a plain path"),
        ("registry = \"npm\"\nunder = \"/a/../b\"", "a plain path"),
        ("registry = \"npm\"\nunder = \"/a?b\"", "a plain path"),
        (
            "operations = [\"read\"]",
            "belongs to a rule with `registry`",
        ),
        ("under = \"/x\"", "belongs to a rule with `registry`"),
        ("graphql = [\"query\"]", "`paths` is missing"),
        ("paths = [\"/g\"]\ngraphql = [\"drop\"]", "one of `query`"),
        (
            "paths = [\"/g\"]\ngraphql = [\"query\", \"query\"]",
            "listed twice",
        ),
        (
            "paths = [\"/g\"]\nmethods = [\"POST\"]\ngraphql = [\"query\"]",
            "leave `methods` out",
        ),
        ("jsonrpc = [\"a\"]", "`paths` is missing"),
        ("paths = [\"/r\"]\njsonrpc = [\"a*b\"]", "a final `*`"),
        ("paths = [\"/r\"]\njsonrpc = [\"\"]", "a final `*`"),
        ("paths = [\"/r\"]\njsonrpc = []", "an empty list"),
        (
            "paths = [\"/r\"]\njsonrpc = [\"a\"]\ngraphql = [\"query\"]",
            "write two rules",
        ),
    ] {
        let text = rule(keys);
        let error = parse(&text, &Presets::shipped()).expect_err(&text);
        assert!(error.message.contains(message), "{text}\n{}", error.message);
        assert!(error.span.is_some(), "{text}");
    }
}

#[test]
fn what_a_dialect_lets_through_more_is_shown_and_less_is_not() {
    let graphql = |list: &str| rule(&format!("paths = [\"/g\"]\ngraphql = [{list}]"));
    let plain = rule("methods = [\"GET\", \"POST\"]");
    let both = |list: &str| format!("{plain}{}", graphql(list));
    let count = |old: &str, new: &str| widens(&read(old), &read(new)).len();
    assert_eq!(
        count(&graphql("\"query\""), &graphql("\"query\", \"mutation\"")),
        1
    );
    assert_eq!(
        count(&graphql("\"query\", \"mutation\""), &graphql("\"query\"")),
        0
    );
    assert_eq!(count(&plain, &both("\"query\"")), 0);
    // When the rule goes, the wide one beside it counts there again.
    assert_eq!(count(&both("\"query\""), &plain), 1);
    let calls = |list: &str| rule(&format!("paths = [\"/r\"]\njsonrpc = [{list}]"));
    assert_eq!(
        count(
            &calls("\"tools/*\""),
            &calls("\"tools/list\", \"tools/x/*\"")
        ),
        0
    );
    assert_eq!(count(&calls("\"tools/list\""), &calls("\"tools/*\"")), 1);
    let npm = |more: &str| rule(&format!("registry = \"npm\"\n{more}"));
    let publish = "operations = [\"read\", \"publish\"]";
    assert_eq!(count(&npm(""), &npm(publish)), 1);
    assert_eq!(count(&npm(publish), &npm("")), 0);
    // Another place: the new one is given, and the old one is judged no longer.
    assert_eq!(count(&npm(""), &npm("under = \"/x\"")), 2);
}

#[test]
fn a_rule_for_aws_names_service_and_actions_and_where_the_bucket_is() {
    for (host, keys, sentence) in [
        (
            "s3.eu-central-1.amazonaws.com",
            "service = \"s3\", action = [\"read\", \"PutObject\"]",
            "uses https://s3.eu-central-1.amazonaws.com as s3 of AWS at /**: read PutObject",
        ),
        (
            "bucket.s3.eu-central-1.amazonaws.com",
            "service = \"s3\", action = [\"write\"]",
            "uses https://bucket.s3.eu-central-1.amazonaws.com as s3 of AWS at /**: write",
        ),
        (
            "a.test",
            "service = \"s3\", action = [\"read\"], bucket = \"host\"",
            "uses https://a.test as s3 of AWS at /**: read",
        ),
        (
            "sts.amazonaws.com",
            "service = \"sts\", action = [\"AssumeRole\"]",
            "uses https://sts.amazonaws.com as sts of AWS at /**: AssumeRole",
        ),
    ] {
        let text = format!("[[allow]]\nhost = \"{host}\"\naws = {{ {keys} }}\n");
        assert_eq!(describe(&read(&text)).remove(1), sentence);
    }
    for (keys, message) in [
        (
            "aws = { service = \"s3\", action = [\"read\"] }",
            "bucket = \"path\"",
        ),
        (
            "aws = { service = \"lambda\", action = [\"read\"] }",
            "one of `s3`",
        ),
        (
            "aws = { service = \"sts\", action = [\"write\"] }",
            "name each action",
        ),
        (
            "aws = { service = \"sts\", action = [\"Get*\"] }",
            "name an action",
        ),
        ("aws = { service = \"sts\", action = [] }", "an empty list"),
        ("aws = { service = \"sts\" }", "`action` is missing"),
        (
            "aws = { service = \"kms\", action = [\"read\"], bucket = \"path\" }",
            "belongs to the service s3",
        ),
        (
            "methods = [\"GET\"]\naws = { service = \"kms\", action = [\"read\"] }",
            "leave `methods` out",
        ),
    ] {
        let text = rule(keys);
        let error = parse(&text, &Presets::shipped()).unwrap_err();
        let shown = render(&error, &text);
        assert!(shown.contains(message), "{keys}: {shown}");
    }
    let rule = |action: &str| {
        read(&rule(&format!(
            "aws = {{ service = \"kms\", action = [{action}] }}"
        )))
    };
    let wider = |old: &str, new: &str| widens(&rule(old), &rule(new)).len();
    assert_eq!(wider("\"read\"", "\"DescribeKey\""), 0);
    assert_eq!(wider("\"DescribeKey\"", "\"read\""), 1);
    assert_eq!(wider("\"read\"", "\"read\", \"Encrypt\""), 1);
}
