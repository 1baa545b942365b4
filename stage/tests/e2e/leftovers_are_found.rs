// SPDX-License-Identifier: Apache-2.0
//! `torno gc` names what lies about and belongs to nobody, removes it when that is said, and never
//! touches what is somebody's.

use crate::ahead::{groups, until};
use crate::stage::{Stage, at_each_level};
use rustix::process::{Signal, kill_process};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use torno_stage::crash::process;

/// A name that the desk could have made.
const NOBODY: &str = "nobodynobodynobodynobodyno";
/// And one that only another daemon knows.
const FOREIGN: &str = "foreignforeignforeignforei";

/// Each thing that is planted, with the kind that it is found as.
fn plant(stage: &Stage) -> BTreeSet<(String, PathBuf)> {
    let (state, sandboxes) = (stage.daemon.state(), stage.daemon.sandboxes());
    let things = [
        ("session", sandboxes.join(NOBODY)),
        ("removal", sandboxes.join(".removed-x-1")),
        ("journal", sandboxes.join(".ahead").join(NOBODY)),
        ("unfinished", state.join("checkpoints/.making-x")),
        ("image", state.join("images/unfinished/7")),
    ];
    for (_, path) in &things {
        std::fs::create_dir_all(path.join("deep/er")).unwrap();
        std::fs::write(path.join("deep/file"), "x").unwrap();
    }
    std::fs::write(state.join("images/lock"), "").unwrap();
    let baseline = state.join(format!("desk/{NOBODY}.baseline"));
    std::fs::write(&baseline, "{}").unwrap();
    let things = things.into_iter().chain([("baseline", baseline)]);
    things.map(|(kind, path)| (kind.to_owned(), path)).collect()
}

/// A control group beside the daemon's own, and a process in it.
fn group(beside: &Path, name: &str) -> (PathBuf, Child) {
    let path = beside.join(format!("torno-{name}"));
    std::fs::create_dir(&path).unwrap();
    let mut sleep = Command::new("sleep");
    let child = sleep.arg("600").stdin(Stdio::null()).spawn().unwrap();
    std::fs::write(path.join("cgroup.procs"), child.id().to_string()).unwrap();
    (path, child)
}

/// Where the daemon makes its groups: beside that of a session's sandbox.
fn beside(stage: &Stage, session: &str) -> PathBuf {
    let sandbox = crate::ahead::sandbox_of(stage, session);
    let mut waiting = vec![PathBuf::from("/sys/fs/cgroup")];
    while let Some(directory) = waiting.pop() {
        // The hierarchy by which groups are killed, where there are several.
        let found = directory.join(format!("torno-{sandbox}"));
        if found.join("cgroup.events").exists() {
            return directory;
        }
        for entry in std::fs::read_dir(&directory)
            .into_iter()
            .flatten()
            .flatten()
        {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                waiting.push(entry.path());
            }
        }
    }
    panic!("no group of {session}");
}

fn told(said: &str) -> Vec<Value> {
    serde_json::from_str(said).unwrap()
}

fn places(all: &[Value]) -> BTreeSet<(String, PathBuf)> {
    let text = |one: &Value, field: &str| one[field].as_str().unwrap().to_owned();
    let all = all.iter();
    all.map(|one| (text(one, "kind"), PathBuf::from(text(one, "place"))))
        .collect()
}

#[test]
fn what_belongs_to_nobody_is_found_and_removed_and_nothing_else_is_touched() {
    at_each_level("leftovers", |stage, level| {
        let run = ["run", "--quiet", "--isolation", level, "--detach"];
        let session = stage.torno(&run).good().stdout.trim().to_owned();
        let ended = stage.torno(&run).good().stdout.trim().to_owned();
        let touch = ["session", "exec", &ended, "--", "touch", "made"];
        stage.torno(&touch).good();
        stage.torno(&["session", "stop", &ended]).good();
        stage
            .torno(&["session", "checkpoint", &session, "--name", "kept"])
            .good();
        // Sandboxes are made ahead meanwhile, and are somebody's.
        let gc = ["gc", "--output", "json"];
        assert_eq!(told(&stage.torno(&gc).good().stdout), Vec::<Value>::new());
        let doctor = stage.torno(&["doctor"]).stdout;
        assert!(doctor.contains("leftovers  none"), "{doctor}");
        let mut planted = plant(stage);
        let beside = beside(stage, &session);
        let (nobodys, mut child) = group(&beside, NOBODY);
        let (foreign, mut other) = group(&beside, FOREIGN);
        planted.insert(("group".to_owned(), nobodys));
        let found = stage.torno(&gc);
        assert_eq!(found.code, Some(1), "{found:?}");
        assert_eq!(places(&told(&found.stdout)), planted);
        let doctor = stage.torno(&["doctor"]).stdout;
        assert!(
            doctor.contains(&format!("leftovers  {}: ", planted.len())),
            "{doctor}"
        );
        for (_, path) in &planted {
            assert!(path.exists(), "a report removed {}", path.display());
        }
        let removed = stage.torno(&["gc", "--apply", "--output", "json"]).good();
        assert!(
            told(&removed.stdout).iter().all(|one| one["gone"] == true),
            "{removed:?}"
        );
        until("it is still there", || {
            planted.iter().all(|(_, path)| !path.exists())
        });
        assert!(!child.wait().unwrap().success());
        // Somebody's: another daemon's group, a living session, an ended one's copy, a checkpoint.
        assert!(foreign.exists() && other.try_wait().unwrap().is_none());
        other.kill().unwrap();
        other.wait().unwrap();
        until("the group is busy", || {
            std::fs::remove_dir(&foreign).is_ok()
        });
        stage
            .torno(&["session", "exec", &session, "--", "true"])
            .good();
        let diff = stage.torno(&["session", "diff", &ended]).good().stdout;
        assert!(diff.contains("added: made"), "{diff}");
        let run = [
            "run",
            "--quiet",
            "--isolation",
            level,
            "--from",
            "kept",
            "--",
            "true",
        ];
        stage.torno(&run).good();
        stage.torno(&["session", "stop", &session]).good();
    });
}

/// The sandboxes that are written down.
fn written(stage: &Stage) -> BTreeSet<String> {
    let entries = std::fs::read_dir(stage.daemon.sandboxes().join(".ahead"));
    let entries = entries.into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect()
}

#[test]
fn a_probe_that_a_crash_cut_short_is_gone_after_the_next_start() {
    let mut stage = Stage::new();
    stage.daemon.set_again("pool = 0\n").unwrap();
    let mut doctor = stage.daemon.torno(&["doctor"]);
    let doctor = doctor.stdout(Stdio::null()).stderr(Stdio::null());
    let mut doctor = doctor.spawn().unwrap();
    let mut probes = BTreeSet::new();
    until("no probe is seen at work", || {
        probes = written(&stage);
        probes.iter().any(|id| !groups(id).is_empty())
    });
    let launcher = process(&stage.daemon, "launcher").unwrap().unwrap();
    kill_process(launcher, Signal::KILL).unwrap();
    doctor.wait().unwrap();
    stage.daemon.wait_for_end(Duration::from_secs(60)).unwrap();
    stage.daemon.up().unwrap();
    until("it is still written down", || written(&stage).is_empty());
    for id in &probes {
        assert_eq!(groups(id), Vec::<PathBuf>::new(), "{id}");
    }
    stage.end();
}
