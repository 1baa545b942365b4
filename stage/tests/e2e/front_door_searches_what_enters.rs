// SPDX-License-Identifier: Apache-2.0
//! What enters a sandbox is searched like what leaves it, and its environment starts empty.

use crate::stage::{Ran, Stage, at_each_level_for_both};
use std::io::Write;
use std::process::Stdio;
use std::time::Duration;

#[test]
fn a_vault_value_in_the_workspace_stops_the_start_and_its_place_is_named() {
    at_each_level_for_both("a vault value in the workspace", |stage, level| {
        let text = format!("token: {}\n", stage.world.api_token);
        stage.daemon.write_workspace("notes.md", &text).unwrap();
        let ran = stage.run(level, &["cat", "notes.md"]);
        assert_eq!(ran.code, Some(125), "{ran:?}");
        assert!(ran.stderr.contains("notes.md"), "{ran:?}");
        std::fs::remove_file(stage.daemon.workspace().join("notes.md")).unwrap();
        stage.run(level, &["true"]).good();
    });
}

#[test]
fn a_vault_value_as_argument_or_variable_stops_the_start() {
    at_each_level_for_both("a vault value as argument", |stage, level| {
        let token = stage.world.api_token.clone();
        let ran = stage.run(level, &["echo", &token]);
        assert_eq!(ran.code, Some(125), "{ran:?}");
        let variable = format!("X={token}");
        let ran = stage.torno(&[
            "run",
            "--quiet",
            "--isolation",
            level,
            "--env",
            &variable,
            "--",
            "true",
        ]);
        assert_eq!(ran.code, Some(125), "{ran:?}");
    });
}

#[test]
fn a_vault_value_on_standard_input_ends_the_command_before_it_reads_it() {
    at_each_level_for_both("a vault value on standard input", |stage, level| {
        let token = stage.world.api_token.clone();
        let (early, late) = token.split_at(5);
        let harmless = format!("{early}x\nline 2\n");
        let ran = with_input(stage, level, &[&harmless]);
        assert_eq!(
            (ran.code, ran.stdout),
            (Some(0), harmless),
            "{}",
            ran.stderr
        );
        for pieces in [[token.as_str(), "\n"], [early, late]] {
            let ran = with_input(stage, level, &pieces);
            assert_eq!(ran.code, Some(125), "{ran:?}");
            assert!(ran.stderr.contains("standard input"), "{ran:?}");
            assert!(ran.stderr.contains("`api`"), "{ran:?}");
            // The search keeps what could be a value's middle; a few first bytes may have passed.
            assert!(ran.stdout.len() < 12, "{ran:?}");
        }
    });
}

/// `cat` of what is written in pieces, with a pause between them.
fn with_input(stage: &Stage, level: &str, pieces: &[&str]) -> Ran {
    let mut cat = stage.daemon.run_command(level, &["cat"]);
    cat.stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut cat = cat.spawn().unwrap();
    let mut input = cat.stdin.take().unwrap();
    for piece in pieces {
        // Refused input closes the pipe early.
        let _ = input.write_all(piece.as_bytes());
        let _ = input.flush();
        std::thread::sleep(Duration::from_millis(300));
    }
    drop(input);
    stage.hear(&cat.wait_with_output().unwrap())
}

#[test]
fn credential_files_of_the_workspace_are_hidden_and_named() {
    at_each_level_for_both("credential files are hidden", |stage, level| {
        let files = [
            (".env", "DATABASE_PASSWORD=hunter2hunter2hunter2\n"),
            (
                ".npmrc",
                "//registry.example.org/:_authToken=npm_0123456789abcdefghij\n",
            ),
            (
                ".netrc",
                "machine example.org login a password hunter2hunter2\n",
            ),
        ];
        for (name, text) in files {
            stage.daemon.write_workspace(name, text).unwrap();
        }
        let ran = stage.torno(&[
            "run",
            "--isolation",
            level,
            "--",
            "/bin/sh",
            "-c",
            "cat .env .npmrc .netrc 2>/dev/null; true",
        ]);
        assert_eq!(ran.code, Some(0), "{ran:?}");
        assert!(!ran.stdout.contains("hunter2"), "{ran:?}");
        assert!(!ran.stdout.contains("npm_0123"), "{ran:?}");
        for (name, _) in files {
            assert!(ran.stderr.contains(name), "{name} is not named: {ran:?}");
        }
    });
}

#[test]
fn nothing_of_the_callers_environment_enters() {
    at_each_level_for_both("the environment starts empty", |stage, level| {
        let mut run = stage.daemon.run_command(level, &["env"]);
        run.env("MY_OWN_TOKEN", "not-for-you")
            .env("AWS_SECRET_ACCESS_KEY", "not-for-you");
        let ran = stage.hear(&run.output().unwrap()).good();
        assert!(!ran.stdout.contains("not-for-you"), "{ran:?}");
        assert!(ran.stdout.contains("API_TOKEN=sk-live-"), "{ran:?}");
    });
}
