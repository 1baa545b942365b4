// SPDX-License-Identifier: Apache-2.0
//! A preset is learnt by running the client sealed, counts when the operator confirmed it, and a
//! change of it asks for trust again.

use crate::stage::{Stage, at_each_level};

const CLIENT: &str = "curl -sSf https://other.torno.test/public/simple/six && \
                      curl -sSf https://api.torno.test/public/files/six.whl";

const POLICY: &str = r#"[install]
run = [["/bin/sh", "-c", "curl -sSf https://api.torno.test/public/files/six.whl > got.txt"]]
allow = [{ preset = "tiny" }]
"#;

fn learn(stage: &Stage, level: &str, further: &[&str]) -> crate::stage::Ran {
    let mut arguments = vec!["preset", "learn", "tiny", "--isolation", level];
    arguments.extend(further);
    arguments.extend([
        "--",
        "/bin/sh",
        "-c",
        "curl -sSf https://api.torno.test/public/files/six.whl",
    ]);
    stage.torno(&arguments)
}

#[test]
fn a_preset_is_learnt_sealed_confirmed_and_covered_by_trust() {
    at_each_level("presets", |stage, level| {
        stage.is_not_seen_whole("a client that is refused exports no keys");
        stage.daemon.write_workspace("torno.toml", POLICY).unwrap();
        // Nobody learnt it: the policy can't even be accepted, and says what to do.
        let unknown = stage.torno(&["trust", "--yes"]);
        assert_eq!(unknown.code, Some(125), "{unknown:#?}");
        assert!(
            unknown.stderr.contains("torno preset learn tiny"),
            "{unknown:#?}"
        );

        // Sealed: the client is refused, and what it asked for waits for a person.
        let learnt = learn(stage, level, &[]);
        assert_eq!(learnt.code, Some(125), "{learnt:#?}");
        assert!(learnt.stderr.contains("not confirmed"), "{learnt:#?}");
        assert!(stage.world.api.journal.connections().is_empty());
        assert!(
            stage
                .torno(&["preset", "list"])
                .good()
                .stdout
                .contains("no preset")
        );

        stage.torno(&["preset", "confirm", "tiny", "--yes"]).good();
        let shown = stage.torno(&["preset", "show", "tiny"]).good();
        let expected = "[[allow]]\nhost = \"api.torno.test\"\nmethods = [\"GET\", \"HEAD\"]\n\
                        paths = [\"/public/**\"]\n";
        assert_eq!(shown.stdout, expected);
        // The next round is refused nothing.
        let learnt = learn(stage, level, &[]).good();
        assert!(learnt.stdout.contains("for everybody"), "{learnt:#?}");
        assert!(learnt.stdout.contains("preset = \"tiny\""), "{learnt:#?}");

        let trusted = stage.torno(&["trust", "--yes"]).good();
        let line =
            "reaches https://api.torno.test: GET HEAD /public/** while installing (preset tiny)";
        assert!(trusted.stderr.contains(line), "{trusted:#?}");
        let ran = stage.run(level, &["cat", "got.txt"]).good();
        assert!(ran.stdout.contains("for everybody"), "{ran:#?}");

        widened(stage, level);
    });
}

/// A preset that changes later gives an accepted policy nothing.
fn widened(stage: &Stage, level: &str) {
    let wider = "[[allow]]\nhost = \"api.torno.test\"\n[[allow]]\nhost = \"other.torno.test\"\n";
    stage.daemon.write_workspace("wider.toml", wider).unwrap();
    stage
        .torno(&["preset", "confirm", "tiny", "wider.toml", "--yes"])
        .good();
    let ran = stage.run(level, &["true"]);
    assert_eq!(ran.code, Some(125), "{ran:#?}");
    assert!(ran.stderr.contains("torno trust"), "{ran:#?}");
    let trusted = stage.torno(&["trust", "--yes"]).good();
    assert!(trusted.stderr.contains("WIDER"), "{trusted:#?}");
    assert!(
        trusted
            .stderr
            .contains("+ reaches https://other.torno.test"),
        "{trusted:#?}"
    );
    stage.run(level, &["true"]).good();

    // What was accepted while it was narrow does not count again with another text, and a preset
    // that is gone gives nothing at all.
    stage.torno(&["preset", "remove", "tiny"]).good();
    let ran = stage.run(level, &["true"]);
    assert_eq!(ran.code, Some(125), "{ran:#?}");
    assert!(ran.stderr.contains("is not confirmed on this"), "{ran:#?}");
    let records = stage.daemon.records().unwrap();
    let count = |kind: &str| {
        records
            .iter()
            .filter(|r| r["event"]["kind"] == kind)
            .count()
    };
    assert_eq!((count("preset_set"), count("preset_removed")), (2, 1));
}

#[test]
fn learning_goes_round_by_round_where_it_is_told_to_confirm() {
    at_each_level("presets, by rounds", |stage, level| {
        stage.is_not_seen_whole("a client that is refused exports no keys");
        let ran = stage.torno(&[
            "preset",
            "learn",
            "two",
            "--yes",
            "--isolation",
            level,
            "--",
            "/bin/sh",
            "-c",
            CLIENT,
        ]);
        // The second host is asked for only once the first has answered.
        let ran = ran.good();
        assert_eq!(ran.stdout.matches("confirmed; ").count(), 2, "{ran:#?}");
        let shown = stage.torno(&["preset", "show", "two"]).good();
        for host in ["other.torno.test", "api.torno.test"] {
            assert!(shown.stdout.contains(host), "{shown:#?}");
        }
    });
}
