// SPDX-License-Identifier: Apache-2.0
//! A session's files as they were at one moment, and sessions that begin with them: each a session
//! like any other, to which nothing of the one before is worth anything but its files.

use crate::ahead::{until, until_equal};
use crate::stage::{Stage, at_each_level, at_machine};
use serde_json::Value;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use torno_stage::crash::process;
use torno_stage::daemon::Daemon;
use torno_stage::unwalled::PYTHON;

/// Files that are written again and again, the last one first: at any one moment no file is newer
/// than the next one, and none by more than one round.
const ROUNDS: &str = "import os
n = 0
while True:
    n += 1
    for at in reversed(range(200)):
        with open('next', 'w') as file: file.write(str(n))
        os.replace('next', f'round-{at:03}')
";
/// Says the oldest and the newest round, and whether they are in order.
const JUDGE: &str = "import glob
rounds = [int(open(name).read()) for name in sorted(glob.glob('round-*'))]
print(len(rounds), max(rounds) - min(rounds) <= 1, rounds == sorted(rounds))
";

fn detached(stage: &Stage, level: &str, more: &[&str]) -> String {
    let mut run = vec!["run", "--quiet", "--isolation", level, "--detach"];
    run.extend(more);
    stage.torno(&run).good().stdout.trim().to_owned()
}

fn begin(daemon: &Daemon, session: &str, words: &[&str]) -> Child {
    let mut exec = vec!["session", "exec", session, "--"];
    exec.extend(words);
    let mut exec = daemon.torno(&exec);
    let exec = exec.stdout(Stdio::null()).stderr(Stdio::null());
    exec.spawn().unwrap()
}

fn shell(stage: &Stage, session: &str, script: &str) -> String {
    let words = ["session", "exec", session, "--", "/bin/sh", "-c", script];
    stage.torno(&words).good().stdout
}

fn listed(stage: &Stage) -> Vec<Value> {
    let all = stage.torno(&["session", "checkpoints", "--output", "json"]);
    serde_json::from_str(&all.good().stdout).unwrap()
}

/// What lies where checkpoints are kept.
fn kept(daemon: &Daemon) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(daemon.state().join("checkpoints"));
    let mut all: Vec<_> = entries
        .unwrap()
        .flatten()
        .map(|entry| entry.path())
        .collect();
    all.sort();
    all
}

/// A request with what a file says in place of a credential.
const OLD: &str = "curl -sS -H \"authorization: Bearer $(cat token)\" https://api.torno.test/v1/me";
const NEW: &str = "curl -sS -f -o /dev/null -w '%{http_code}' \
    -H \"authorization: Bearer $API_TOKEN\" https://api.torno.test/v1/me";

#[test]
fn a_session_begins_from_a_checkpoint_with_its_files_and_nothing_else() {
    at_each_level("sessions from a checkpoint", |stage, level| {
        stage.is_not_seen_whole("its sessions keep no keys");
        stage
            .daemon
            .write_workspace("kept.txt", "before\n")
            .unwrap();
        let first = detached(stage, level, &[]);
        let script = "echo one > made.txt; echo changed > kept.txt; printf %s $API_TOKEN > token";
        shell(stage, &first, script);
        let made = ["session", "checkpoint", &first, "--name", "before-more"];
        stage.torno(&made).good();
        let again = stage.torno(&made);
        assert!(again.stderr.contains("there is a checkpoint"), "{again:?}");
        shell(stage, &first, "echo two > made.txt");
        // Another identity: what stood for a credential stands for nothing any more.
        let second = detached(stage, level, &["--from", "before-more"]);
        let said = shell(
            stage,
            &second,
            "cat made.txt kept.txt; test \"$API_TOKEN\" != $(cat token)",
        );
        assert_eq!(said, "one\nchanged\n");
        let refused = shell(stage, &second, OLD);
        assert!(refused.contains("placeholder_unknown"), "{refused}");
        assert_eq!(shell(stage, &second, NEW), "200");
        assert_eq!(stage.world.api.journal.requests().len(), 1);
        // Neither is part of the other's end, and the first one's changes are the second's too.
        stage.torno(&["kill", &first]).good();
        shell(stage, &second, "echo more > more.txt");
        stage.torno(&["session", "stop", &second]).good();
        let diff = stage.torno(&["session", "diff", &second]).good().stdout;
        for line in [
            "modified: kept.txt",
            "added: made.txt",
            "added: more.txt",
            "+one",
        ] {
            assert!(diff.contains(line), "{line}: {diff}");
        }
        assert_eq!(listed(stage)[0]["session"], first.as_str());
        stage
            .torno(&["session", "checkpoint", "rm", "before-more"])
            .good();
        assert_eq!(listed(stage), Vec::<Value>::new());
        let run = [
            "run",
            "--isolation",
            level,
            "--from",
            "before-more",
            "--",
            "true",
        ];
        let gone = stage.torno(&run);
        assert_eq!(gone.code, Some(125), "{gone:?}");
        assert!(gone.stderr.contains("no checkpoint"), "{gone:?}");
        let records = stage.daemon.records().unwrap();
        let of = |kind: &str| {
            let mut all = records.iter();
            all.find(|record| record["event"]["kind"] == kind).unwrap()
        };
        assert_eq!(of("session_checkpointed")["session"], first.as_str());
        let forked = of("session_forked");
        assert_eq!(forked["session"], second.as_str());
        assert_eq!(forked["event"]["of"], first.as_str());
        assert_eq!(
            of("checkpoint_removed")["event"]["checkpoint"],
            "before-more"
        );
    });
}

#[test]
fn a_checkpoint_is_of_one_moment_and_the_session_goes_on() {
    at_each_level("a checkpoint of one moment", |stage, level| {
        let first = detached(stage, level, &[]);
        let mut rounds = begin(&stage.daemon, &first, &[PYTHON, "-c", ROUNDS]);
        let count = "ls round-000 2>/dev/null | wc -l";
        until("it does not write", || shell(stage, &first, count) == "1\n");
        for name in ["a", "b", "c"] {
            let made = ["session", "checkpoint", &first, "--name", name];
            stage.torno(&made).good();
            let run = [
                "run",
                "--quiet",
                "--isolation",
                level,
                "--from",
                name,
                "--",
                PYTHON,
                "-c",
                JUDGE,
            ];
            let judged = stage.torno(&run).good().stdout;
            assert_eq!(judged, "200 True True\n", "{name}");
        }
        assert!(listed(stage).iter().all(|one| one["is_still"] == true));
        let before = shell(stage, &first, "cat round-000");
        until("it does not go on", || {
            shell(stage, &first, "cat round-000") != before
        });
        // One that is paused stays so.
        stage.torno(&["session", "pause", &first]).good();
        stage
            .torno(&["session", "checkpoint", &first, "--name", "d"])
            .good();
        let refused = stage.torno(&["session", "exec", &first, "--", "true"]);
        assert!(refused.stderr.contains("is paused"), "{refused:?}");
        stage.torno(&["kill", &first]).good();
        rounds.wait().unwrap();
    });
}

#[test]
fn a_vault_value_is_in_no_checkpoint() {
    at_each_level("a vault value in a checkpoint", |stage, level| {
        let first = detached(stage, level, &[]);
        let value = "sk-live-laterLATERlater0123456789";
        shell(
            stage,
            &first,
            &format!("mkdir deep; echo x{value} > deep/leak"),
        );
        // What nobody could know when it was written is known by now.
        stage.daemon.rotate("api", value).unwrap();
        let refused = stage.torno(&["session", "checkpoint", &first]);
        assert_eq!(refused.code, Some(125), "{refused:?}");
        assert!(
            refused.stderr.contains("deep/leak holds the value"),
            "{refused:?}"
        );
        until("it stays", || kept(&stage.daemon).is_empty());
        shell(stage, &first, "rm deep/leak");
        stage
            .torno(&["session", "checkpoint", &first, "--name", "clean"])
            .good();
        stage.torno(&["session", "stop", &first]).good();
    });
}

const LARGE: &str = "[sandbox]\nlimits = { disk = \"8GiB\" }\n";

/// A session with a file that takes many seconds to copy and costs no disk before, and the command
/// that keeps it, once its porter is at work.
fn copying(daemon: &Daemon, level: &str) -> (String, Child) {
    daemon.write_workspace("torno.toml", LARGE).unwrap();
    daemon.must(&["trust", "--yes"]).unwrap();
    let run = ["run", "--quiet", "--isolation", level, "--detach"];
    let session = daemon.must(&run).unwrap().trim().to_owned();
    daemon
        .must(&["session", "checkpoint", &session, "--name", "whole"])
        .unwrap();
    let large = [
        "session", "exec", &session, "--", "truncate", "-s", "3G", "large",
    ];
    daemon.must(&large).unwrap();
    let mut take = daemon.torno(&["session", "checkpoint", &session, "--name", "half"]);
    let take = take.stdout(Stdio::null()).stderr(Stdio::null());
    let mut take = take.spawn().unwrap();
    until("no porter", || {
        assert!(take.try_wait().unwrap().is_none(), "it ended by itself");
        process(daemon, "porter").unwrap().is_some()
    });
    (session, take)
}

/// Whether a porter of this daemon is alive, whose child it may be by now.
fn any_porter(daemon: &Daemon) -> bool {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    processes.map(|entry| entry.path()).any(|process| {
        let line = std::fs::read(process.join("cmdline")).unwrap_or_default();
        line.starts_with(b"tornod-porter\0")
            && std::fs::read_link(process.join("fd/2")).is_ok_and(|to| to == daemon.log())
    })
}

#[test]
fn a_kill_ends_the_making_of_a_checkpoint_and_leaves_nothing_of_it() {
    at_each_level("a kill during a checkpoint", |stage, level| {
        let (session, mut take) = copying(&stage.daemon, level);
        let killed = stage.torno(&["kill", &session]).good();
        assert!(killed.stdout.contains(", 0 left"), "{killed:?}");
        assert!(!take.wait().unwrap().success());
        let whole = vec![stage.daemon.state().join("checkpoints/whole")];
        until_equal("it stays", &whole, || kept(&stage.daemon));
        assert_eq!(listed(stage).len(), 1);
    });
}

#[test]
fn a_crash_during_a_checkpoint_leaves_a_whole_one_or_none() {
    at_each_level("a crash during a checkpoint", |stage, level| {
        for role in ["desk", "launcher", "supervisor"] {
            let mut daemon = Daemon::start(&stage.world).unwrap();
            let (_, mut take) = copying(&daemon, level);
            let pid = process(&daemon, role).unwrap().unwrap();
            rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
            assert!(!take.wait().unwrap().success());
            daemon
                .wait_for_end(std::time::Duration::from_secs(60))
                .unwrap();
            // However early in its life: it would go on writing where the next start clears up.
            until("a porter lives on", || !any_porter(&daemon));
            daemon.up().unwrap();
            // The launcher clears up while the notary answers already.
            let whole = vec![daemon.state().join("checkpoints/whole")];
            until_equal(role, &whole, || kept(&daemon));
            daemon.unseal().unwrap();
            let run = [
                "run",
                "--quiet",
                "--isolation",
                level,
                "--from",
                "whole",
                "--",
                "true",
            ];
            daemon.must(&run).unwrap();
        }
    });
}

#[test]
fn a_machines_files_are_kept_while_it_runs_and_another_one_begins_with_them() {
    at_machine("checkpoints of a machine", &["microvm"], |stage, level| {
        stage
            .daemon
            .write_workspace("kept.txt", "before\n")
            .unwrap();
        let first = detached(stage, level, &[]);
        shell(
            stage,
            &first,
            "echo one > made.txt; echo changed > kept.txt",
        );
        stage
            .torno(&["session", "checkpoint", &first, "--name", "running"])
            .good();
        // In the list, two of one second stand by their names.
        let is_still = |name: &str| {
            let all = listed(stage).into_iter();
            all.filter(|one| one["name"] == name)
                .all(|one| one["is_still"] == true)
        };
        assert!(!is_still("running"));
        stage.torno(&["session", "stop", &first]).good();
        stage
            .torno(&["session", "checkpoint", &first, "--name", "ended"])
            .good();
        assert!(is_still("ended"));
        for name in ["running", "ended"] {
            let more = ["run", "--quiet", "--isolation", level, "--from", name, "--"];
            let run: Vec<&str> = more
                .into_iter()
                .chain(["cat", "made.txt", "kept.txt"])
                .collect();
            assert_eq!(stage.torno(&run).good().stdout, "one\nchanged\n", "{name}");
        }
    });
}
