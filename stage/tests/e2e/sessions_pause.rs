// SPDX-License-Identifier: Apache-2.0
//! A person holds a session still: nothing leaves, nothing begins, nothing runs; and lets it go on.

use crate::ahead::until;
use crate::stage::{Stage, at_each_level, at_each_level_for_both, at_machine};
use serde_json::Value;
use std::process::{Child, Stdio};
use std::time::Duration;
use torno_stage::daemon::POLICY;

/// How long nothing is seen of a paused session: its loop has a request each tenth of a second.
const WATCH: Duration = Duration::from_millis(1500);

/// Requests one after the other, and an upload that never ends.
const BUSY: &str = "(while :; do head -c 4096 /dev/zero; sleep 0.05; done) | \
    curl -sS -o /dev/null -X POST -T - https://other.torno.test/paused/upload & \
    while :; do curl -sS -m 5 -o /dev/null https://other.torno.test/paused/loop; sleep 0.1; done";

fn detached(stage: &Stage, level: &str) -> String {
    let run = ["run", "--quiet", "--isolation", level, "--detach"];
    stage.torno(&run).good().stdout.trim().to_owned()
}

fn begin(stage: &Stage, session: &str, script: &str) -> Child {
    let words = ["session", "exec", session, "--", "/bin/sh", "-c", script];
    let mut exec = stage.daemon.torno(&words);
    let exec = exec.stdout(Stdio::null()).stderr(Stdio::null());
    exec.spawn().unwrap()
}

fn row(stage: &Stage, session: &str) -> Value {
    let shown = stage.torno(&["session", "show", session, "--output", "json"]);
    serde_json::from_str(&shown.good().stdout).unwrap()
}

/// Requests of the loop so far, and bytes that the upload had.
fn arrived(stage: &Stage) -> (usize, u64) {
    let all = stage.world.other.journal.connections();
    let of = |what: &str| {
        let (all, what) = (all.clone(), what.to_owned());
        all.into_iter()
            .flat_map(|connection| connection.requests)
            .filter(move |request| request.target.contains(&what))
    };
    let sent = of("/paused/upload").map(|request| request.body_bytes).sum();
    (of("/paused/loop").count(), sent)
}

#[test]
fn a_paused_session_sends_nothing_and_runs_nothing_until_it_is_resumed() {
    at_each_level_for_both("a paused session", |stage, level| {
        stage.is_not_seen_whole("a killed session's keys go with it");
        let session = detached(stage, level);
        let mut busy = begin(stage, &session, BUSY);
        until("it does not work", || {
            arrived(stage).0 > 2 && arrived(stage).1 > 0
        });
        let paused = stage.torno(&["session", "pause", &session]).good();
        assert_eq!(paused.stdout, format!("paused {session}\n"));
        // What had left before it was held may arrive yet.
        std::thread::sleep(Duration::from_millis(300));
        let before = arrived(stage);
        std::thread::sleep(WATCH);
        assert_eq!(arrived(stage), before);
        assert_eq!(row(stage, &session)["state"], "paused");
        let refused = stage.torno(&["session", "exec", &session, "--", "true"]);
        assert_eq!(refused.code, Some(125), "{refused:?}");
        assert!(
            refused.stderr.contains("torno session resume"),
            "{refused:?}"
        );
        stage.torno(&["session", "pause", &session]).good();
        stage.torno(&["session", "resume", &session]).good();
        until("it does not go on", || arrived(stage).0 > before.0 + 2);
        assert_eq!(row(stage, &session)["state"], "running");
        let again = stage.torno(&["session", "resume", &session]);
        assert_eq!(again.code, Some(125), "{again:?}");
        // A kill needs no resume.
        stage.torno(&["session", "pause", &session]).good();
        let killed = stage.torno(&["kill", &session]).good();
        assert!(killed.stdout.contains(", 0 left"), "{killed:?}");
        assert_eq!(busy.wait().unwrap().code(), Some(137));
        let records = stage.daemon.records().unwrap();
        let count = |kind: &str| {
            let all = records.iter();
            all.filter(|record| record["event"]["kind"] == kind).count()
        };
        assert_eq!((count("session_paused"), count("session_resumed")), (2, 1));
    });
}

#[test]
fn a_pause_holds_off_the_idle_limit_and_not_the_wall_limit() {
    at_each_level("limits of a paused session", |stage, level| {
        let limits = "limits = { wall = \"20s\", idle = \"4s\" }";
        let policy = format!("[sandbox]\n{limits}\n");
        stage.daemon.write_workspace("torno.toml", &policy).unwrap();
        stage.torno(&["trust", "--yes"]).good();
        let session = detached(stage, level);
        stage.torno(&["session", "pause", &session]).good();
        std::thread::sleep(Duration::from_secs(7));
        assert_eq!(row(stage, &session)["state"], "paused");
        until("it never ended", || {
            row(stage, &session)["state"] == "ended"
        });
        assert_eq!(row(stage, &session)["cause"], "time_limit");
        stage.daemon.write_workspace("torno.toml", POLICY).unwrap();
        stage.torno(&["trust", "--yes"]).good();
    });
}

#[test]
fn a_paused_machine_stands_still_and_its_files_come_out_at_its_end() {
    at_machine("a paused machine", &["microvm"], |stage, level| {
        let session = detached(stage, level);
        let mut counts = begin(
            stage,
            &session,
            "n=0; while :; do n=$((n+1)); echo $n > count; sleep 0.1; done",
        );
        let read = ["session", "exec", &session, "--", "cat", "count"];
        until("it does not count", || stage.torno(&read).code == Some(0));
        stage.torno(&["session", "pause", &session]).good();
        for words in [&read[..], &["session", "diff", &session]] {
            let refused = stage.torno(words);
            assert_eq!(refused.code, Some(125), "{refused:?}");
            assert!(refused.stderr.contains("is paused"), "{refused:?}");
        }
        stage.torno(&["session", "resume", &session]).good();
        stage.torno(&read).good();
        // An end does not wait for a resume, and loses nothing.
        stage.torno(&["session", "pause", &session]).good();
        stage.torno(&["session", "stop", &session]).good();
        let _ended = counts.wait().unwrap();
        let diff = stage.torno(&["session", "diff", &session]).good().stdout;
        assert!(diff.contains("added: count"), "{diff}");
    });
}
