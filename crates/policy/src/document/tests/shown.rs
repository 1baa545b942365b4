// SPDX-License-Identifier: Apache-2.0
//! What people are shown: errors, descriptions, what widens.

use super::*;

#[test]
fn tripwires_stand_unless_the_document_says_no_and_that_is_shown_as_wider() {
    assert!(read("").sandbox.tripwires);
    let without = read("[sandbox]\ntripwires = false");
    assert!(!without.sandbox.tripwires);
    assert_eq!(widens(&read(""), &without), ["stands without tripwires"]);
    assert!(widens(&without, &read("")).is_empty());
    let rule = "[[allow]]\nhost = \"llm.test\"\n";
    let model = read(&format!("{rule}transcripts = true"));
    let wider = widens(&read(rule), &model);
    assert!(
        wider[0].ends_with("transcripts that quote tripwires too"),
        "{wider:?}"
    );
    assert!(widens(&model, &read(rule)).is_empty());
    refuse(
        "[[allow]]\nhost = \"*.llm.test\"\ntranscripts = «true»",
        "exact",
    );
}

#[test]
fn an_error_is_shown_under_its_line() {
    let text = "[sandbox]\n  isolatoin = \"vm\"\n";
    let error = parse(text, &Presets::shipped()).unwrap_err();
    let shown = render(&error, text);
    let lines: Vec<_> = shown.lines().collect();
    assert_eq!(lines[1], "2 |   isolatoin = \"vm\"");
    assert!(
        lines[2].starts_with("  |   ^^^^^^^^^ unknown key"),
        "{shown}"
    );
    let syntax = parse("a = ", &Presets::shipped()).unwrap_err();
    assert!(render(&syntax, "a = ").contains('^'), "{syntax:?}");
}

#[test]
fn a_description_names_everything_that_is_reached_or_used() {
    let lines = describe(&read(EXAMPLE)).join("\n");
    for part in [
        "strongest",
        "docs.example.org",
        "index.example.org",
        "github",
        "/acme/app",
        "refs/heads/agent/*",
        "pip install",
    ] {
        assert!(lines.contains(part), "{part}\n{lines}");
    }
}

#[test]
fn widening_is_shown_and_narrowing_is_not() {
    let old = read(EXAMPLE);
    assert_eq!(widens(&old, &old), Vec::<String>::new());
    let changes = [
        ("methods = [\"GET\", \"HEAD\"]", "methods = [\"GET\"]", 0),
        (
            "methods = [\"GET\", \"HEAD\"]",
            "methods = [\"GET\", \"POST\"]",
            1,
        ),
        ("host = \"docs.example.org\"", "host = \"*.example.org\"", 1),
        ("wall = \"1h\"", "wall = \"2h\"", 1),
        ("wall = \"1h\"", "wall = \"30m\"", 0),
        ("hide = [\"config/secrets/**\"]", "hide = []", 1),
        ("write = [\"src/**\"]", "write = [\"src/a\"]", 0),
        ("write = [\"src/**\"]", "write = [\"lib/**\"]", 1),
        (
            "\"/repos/acme/app/issues/**\"",
            "\"/repos/acme/app/issues/1\"",
            0,
        ),
        ("\"/repos/acme/app/issues/**\"", "\"/repos/acme/**\"", 1),
        ("delete = \"deny\"", "delete = \"allow\"", 1),
        (
            "\"mcp:mail/send\" = \"ask\"",
            "\"mcp:mail/send\" = \"deny\"",
            0,
        ),
        (
            "\"mcp:mail/send\" = \"ask\"",
            "\"mcp:mail/send\" = \"allow\"",
            1,
        ),
        ("isolation = \"strongest\"", "isolation = \"container\"", 1),
        ("mode = \"copy\"", "mode = \"bind\"", 1),
        ("[\"pip\", \"install\"", "[\"sh\", \"install\"", 1),
    ];
    for (from, to, expected) in changes {
        let text = EXAMPLE.replace(from, to);
        assert_ne!(text, EXAMPLE, "{from}");
        let lines = widens(&old, &read(&text));
        assert_eq!(lines.len(), expected, "{from} -> {to}: {lines:?}");
    }
}

#[test]
fn a_rule_opens_a_websocket_where_it_says_so_and_the_word_is_shown_as_wider() {
    let text = "[[allow]]\nhost = \"a.test\"\n";
    let (old, new) = (read(text), read(&format!("{text}websocket = true\n")));
    assert!(!old.allow[0].websocket && new.allow[0].websocket);
    let lines = widens(&old, &new);
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].contains("WebSocket too"), "{lines:?}");
    assert_eq!(widens(&new, &old).len(), 0);
}

#[test]
fn a_dropped_secret_shows_what_it_kept_away() {
    let open = "[[allow]]\nhost = \"a.test\"\nown_credentials = true\n";
    let old = read(&format!("{open}[secret.c1]"));
    assert_eq!(widens(&old, &read(open)).len(), 1);
    assert_eq!(widens(&old, &read("")).len(), 0);
}

// ATTACK: 081
#[test]
fn covering_is_by_declared_pairs_and_not_by_their_product() {
    let rule = |methods: &str, paths: &str| {
        format!("[[allow]]\nhost = \"a.test\"\nmethods = [{methods}]\npaths = [{paths}]\n")
    };
    let (get, post) = (rule("\"GET\"", "\"/x\""), rule("\"POST\"", "\"/y\""));
    let old = read(&format!("{get}{post}"));
    let new = read(&rule("\"GET\", \"POST\"", "\"/x\", \"/y\""));
    assert_eq!(widens(&old, &new).len(), 1);
    assert_eq!(widens(&new, &old).len(), 0);
}

#[test]
fn the_digest_is_of_the_bytes() {
    assert_ne!(digest("a = 1"), digest("a  = 1"));
    assert_eq!(digest(EXAMPLE), digest(EXAMPLE));
}
