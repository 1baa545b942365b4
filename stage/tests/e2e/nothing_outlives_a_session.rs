// SPDX-License-Identifier: Apache-2.0
//! After a session nothing of it is left: no process, cgroup, mount, directory, listed session.

use crate::ahead;
use crate::stage::{at_each_level, at_each_level_for_both};
use rustix::process::{Signal, kill_process};
use std::collections::BTreeSet;
use std::process::{Command, Stdio};
use torno_stage::crash::process;
use torno_stage::daemon::{self, Daemon, POLICY};

#[test]
fn processes_mounts_cgroups_and_files_are_gone() {
    at_each_level_for_both("nothing outlives a session", |stage, level| {
        // A copied workspace stays for `torno session apply`; without one nothing stays.
        let shell = |script: &str| {
            stage.torno(&[
                "run",
                "--quiet",
                "--workspace",
                "none",
                "--isolation",
                level,
                "--",
                "/bin/sh",
                "-c",
                script,
            ])
        };
        shell("true").good();
        // One of the next session's is being made meanwhile, or waits; those have their own story.
        ahead::until_waiting(stage, 1);
        let before = traces(&stage.daemon);
        // Double forks that would outlive their parent.
        shell("(setsid sleep 300 &) ; (nohup sleep 300 >/dev/null 2>&1 &) ; true").good();
        assert_eq!(shell("exit 3").code, Some(3));
        ahead::until_waiting(stage, 1);
        let after = traces(&stage.daemon);
        let left: Vec<_> = after.difference(&before).collect();
        assert!(left.is_empty(), "{left:#?}");
        assert!(stage.daemon.sessions().unwrap().is_empty());
    });
}

/// Mounts below this home, sleeping leftovers, and directories of sandboxes.
fn traces(daemon: &Daemon) -> BTreeSet<String> {
    let home_text = daemon.home().to_str().unwrap();
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    let mut traces: BTreeSet<String> = mounts
        .lines()
        .filter(|l| l.contains(home_text))
        .map(str::to_owned)
        .collect();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        if line.starts_with("sleep 300") || line.contains(home_text) {
            traces.insert(format!("process: {line}"));
        }
    }
    for entry in std::fs::read_dir(daemon.state().join("sandboxes"))
        .into_iter()
        .flatten()
        .flatten()
    {
        traces.insert(format!("directory: {}", entry.path().display()));
    }
    traces
}

// ATTACK: 158
#[test]
fn a_session_that_holds_more_than_its_disk_is_ended_and_the_others_go_on() {
    at_each_level("more than its disk", |stage, level| {
        let policy = POLICY.replace("pids = 256", "pids = 256, disk = \"16MiB\"");
        stage.daemon.write_workspace("torno.toml", &policy).unwrap();
        stage.torno(&["trust", "--yes"]).good();
        let mut other = stage.daemon.run_command(level, &["sleep", "60"]);
        let mut other = other
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let fills = [
            "head -c 30M /dev/zero > big; sleep 60",
            // Removed, and still open.
            "exec 9> gone; rm gone; head -c 30M /dev/zero >&9; sleep 60",
            "mkdir many; cd many; seq 1 40000 | xargs touch; sleep 60",
        ];
        for fill in fills {
            let ran = stage.shell(level, fill);
            assert_eq!(ran.code, Some(125), "{fill}: {ran:?}");
            assert!(ran.stderr.contains("limits.disk"), "{fill}: {ran:?}");
        }
        assert!(other.try_wait().unwrap().is_none(), "the other one ended");
        stage.torno(&["kill", "--all"]).good();
        other.wait().unwrap();
    });
}

#[test]
fn a_session_ends_that_has_lost_its_keeper_or_its_first_process() {
    at_each_level("what a sandbox can't be without", |stage, level| {
        for lost in ["keeper", "sandbox"] {
            let mut run = stage.daemon.run_command(level, &["sleep", "300"]);
            let run = run.stdout(Stdio::null()).stderr(Stdio::null());
            let mut run = run.spawn().unwrap();
            ahead::until("no session", || stage.daemon.sessions().unwrap().len() == 1);
            // Those that wait for a session have such processes too: all of them, one by one.
            ahead::until("the session went on", || {
                if let Some(pid) = process(&stage.daemon, lost).unwrap() {
                    let _gone = kill_process(pid, Signal::KILL);
                }
                run.try_wait().unwrap().is_some()
            });
            assert!(!run.wait().unwrap().success(), "{lost}");
            ahead::until("still listed", || {
                stage.daemon.sessions().unwrap().is_empty()
            });
        }
    });
}

/// More of them in `cargo xtask campaign churn`.
#[test]
fn sessions_in_plenty_leave_the_host_as_it_was() {
    if !rustix::process::geteuid().is_root() {
        println!("SKIP: churn: its namespaces need root");
        return;
    }
    let program = daemon::binaries().unwrap().join("torno-campaign");
    let mut churn = Command::new(program);
    churn.args(["churn", "48", "in-ci", "container,gvisor"]);
    let output = churn.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("48 passed, 0 failed"), "{said}");
    assert_eq!(said.matches("planted and found").count(), 8, "{said}");
}

/// More of them in `cargo xtask campaign calls`.
#[test]
fn calls_that_the_kernel_refuses_leave_the_host_as_it_was() {
    if !rustix::process::geteuid().is_root() {
        println!("SKIP: refused calls: their namespaces need root");
        return;
    }
    let program = daemon::binaries().unwrap().join("torno-campaign");
    let mut calls = Command::new(program);
    calls.args(["calls", "8", "in-ci", "container"]);
    let output = calls.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let noted = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}{noted}");
    assert!(said.contains("8 passed, 0 failed"), "{said}");
}
