// SPDX-License-Identifier: Apache-2.0
//! A machine is restored from what an earlier one was once it had booted, and is another one than
//! its siblings before it runs anything for anybody.

use crate::ahead::{journal, members, until_waiting};
use crate::stage::{Stage, at_machine};
use torno_stage::clones::{self, await_template, look, restored};

/// Runs `true` in a machine that boots, and waits for what it leaves for the next ones.
#[track_caller]
fn prepare(stage: &Stage, level: &str) {
    run(stage, level, "true");
    await_template(&stage.daemon).unwrap();
}

#[track_caller]
fn run(stage: &Stage, level: &str, script: &str) -> String {
    let options = ["--workspace", "none"];
    let command = ["/bin/sh", "-c", script];
    let output = stage.daemon.run_in(level, &options, &command).output();
    stage.hear(&output.unwrap()).good().stdout
}

#[test]
fn no_two_machines_of_one_template_share_what_has_to_be_unique() {
    let levels = ["microvm", "vm"];
    at_machine("machines of one template", &levels, |_, level| {
        let mut stage = Stage::new();
        stage.daemon.set_again("pool = 0\n").unwrap();
        let found = look(&stage.daemon, level, 3).unwrap();
        assert_eq!(found.faults, Vec::<String>::new());
        assert_eq!((found.looked_at, found.restored), (3, 3));
    });
}

#[test]
fn a_session_gets_a_machine_that_was_restored_ahead_with_all_that_is_its_own() {
    at_machine("a machine restored ahead", &["microvm"], |stage, level| {
        prepare(stage, level);
        let ahead = until_waiting(stage, 1);
        let own = "curl -sS -f -m 20 -o /dev/null -w '%{http_code} ' \
            -H \"authorization: Bearer $API_TOKEN\" https://api.torno.test/v1/me; \
            grep -c TRNO ~/.netrc; stat -c '%U %a' ~/.netrc; \
            grep -c 'insteadOf = git@git.torno.test:' /etc/gitconfig; \
            tail -n 1 /etc/ssl/certs/ca-certificates.crt | grep -c 'END CERTIFICATE'; \
            touch /etc/gitconfig 2> /dev/null || echo read-only";
        let said = run(stage, level, own);
        assert_eq!(said, "200 1\nagent 600\n1\n1\nread-only\n");
        let its = ahead.first().unwrap();
        let records = stage.daemon.records().unwrap();
        let claimed = |record: &serde_json::Value| {
            let text = record.to_string();
            text.contains("sandbox_claimed") && text.contains(its)
        };
        assert!(records.iter().any(claimed), "{its} is nobody's");
        let next = until_waiting(stage, 1);
        assert!(ahead.is_disjoint(&next), "{next:?} comes a second time");
    });
}

#[test]
fn after_a_kill_of_all_there_is_neither_a_template_nor_anything_of_it() {
    at_machine("the end of a template", &["microvm"], |stage, level| {
        prepare(stage, level);
        until_waiting(stage, 1);
        stage.torno(&["kill", "--all"]).good();
        assert_eq!(clones::templates(&stage.daemon).unwrap(), 0);
        assert_eq!(restored(&stage.daemon).unwrap(), 0);
        for (id, _) in journal(stage) {
            assert!(members(&id).is_empty(), "{id}");
        }
    });
}
