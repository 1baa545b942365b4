// SPDX-License-Identifier: Apache-2.0
//! Bad input: a clear refusal with what to do next, exit 125, nothing half-applied.

use crate::stage::{Stage, at_each_level_for_both};
use torno_stage::daemon::POLICY;

#[track_caller]
fn refused(stage: &Stage, arguments: &[&str], says: &str) {
    let ran = stage.torno(arguments);
    assert_eq!(ran.code, Some(125), "{ran:?}");
    assert!(ran.stderr.contains(says), "`{says}` is missing: {ran:?}");
    assert!(ran.stderr.contains("next: "), "no next step: {ran:?}");
    assert!(stage.daemon.sessions().unwrap().is_empty());
}

#[test]
fn a_changed_policy_counts_only_after_it_was_accepted() {
    at_each_level_for_both("a changed policy", |stage, level| {
        let wider = format!("{POLICY}\n[[allow]]\nhost = \"evil.torno.test\"\n");
        stage.daemon.write_workspace("torno.toml", &wider).unwrap();
        refused(
            stage,
            &["run", "--isolation", level, "--", "true"],
            "torno trust",
        );
        stage.torno(&["trust", "--yes"]).good();
        stage.run(level, &["true"]).good();
    });
}

#[test]
fn an_unknown_key_and_an_over_broad_host_are_refused() {
    let stage = Stage::new();
    for (text, says) in [
        ("[sandbox]\nisolatoin = \"gvisor\"\n", "isolatoin"),
        ("[[allow]]\nhost = \"*\"\n", "host"),
        ("[[allow]]\nhost = \"*.com\"\n", "host"),
    ] {
        stage.daemon.write_workspace("torno.toml", text).unwrap();
        let ran = stage.torno(&["trust", "--yes"]);
        assert_eq!(ran.code, Some(125), "{text}: {ran:?}");
        assert!(ran.stderr.contains(says), "{text}: {ran:?}");
    }
    stage.end();
}

#[test]
fn a_sealed_vault_starts_no_session_until_it_is_unsealed() {
    at_each_level_for_both("a sealed vault", |stage, level| {
        stage.torno(&["vault", "seal"]).good();
        let script = "curl -sS -H \"authorization: Bearer ${API_TOKEN:-none}\" \
            https://api.torno.test/v1/me";
        let ran = stage.shell(level, script);
        assert_eq!(ran.code, Some(125), "{ran:?}");
        assert!(ran.stderr.contains("the vault is sealed"), "{ran:?}");
        assert!(ran.stderr.contains("next: torno vault unseal"), "{ran:?}");
        assert!(stage.world.api.journal.requests().is_empty());
        let key = stage.daemon.key_file();
        stage
            .torno(&["vault", "unseal", "--key-file", key.to_str().unwrap()])
            .good();
        stage
            .shell(
                level,
                "curl -sSf -H \"authorization: Bearer $API_TOKEN\" \
            https://api.torno.test/v1/me",
            )
            .good();
    });
}

#[test]
fn a_level_that_does_not_exist_here_is_refused_with_a_way_on() {
    let stage = Stage::new();
    let words = ["run", "--isolation", "microvm", "--", "true"];
    let ran = stage.hear(&stage.daemon.typed(&words).output().unwrap());
    assert_eq!(ran.code, Some(125), "{ran:?}");
    assert!(ran.stderr.contains("emulat"), "{ran:?}");
    assert!(ran.stderr.contains("next: "), "no next step: {ran:?}");
    stage.end();
}

#[test]
fn two_bindings_that_match_one_request_are_no_binding() {
    at_each_level_for_both("two bindings", |stage, level| {
        let second = stage.torno(&[
            "secret",
            "bind",
            "git",
            "--host",
            "api.torno.test",
            "--path",
            "/v1/**",
            "--id",
            "second",
        ]);
        if second.code == Some(125) {
            return;
        }
        let ran = stage.shell(
            level,
            "curl -sS -H \"authorization: Bearer $API_TOKEN\" https://api.torno.test/v1/me",
        );
        assert!(ran.stdout.contains("binding_ambiguous"), "{ran:?}");
        assert!(stage.world.api.journal.requests().is_empty());
    });
}
