// SPDX-License-Identifier: Apache-2.0
//! After a session nothing of it is left: no process, cgroup, mount, directory, listed session.

use crate::stage::at_each_level;
use std::collections::BTreeSet;

#[test]
fn processes_mounts_cgroups_and_files_are_gone() {
    at_each_level("nothing outlives a session", |stage, level| {
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
        let before = traces(stage.daemon.home());
        // Double forks that would outlive their parent.
        shell("(setsid sleep 300 &) ; (nohup sleep 300 >/dev/null 2>&1 &) ; true").good();
        assert_eq!(shell("exit 3").code, Some(3));
        let after = traces(stage.daemon.home());
        let left: Vec<_> = after.difference(&before).collect();
        assert!(left.is_empty(), "{left:#?}");
        assert!(stage.daemon.sessions().unwrap().is_empty());
    });
}

/// Mounts below this home, sleeping leftovers, and directories of sandboxes.
fn traces(home: &std::path::Path) -> BTreeSet<String> {
    let home_text = home.to_str().unwrap();
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
    for entry in std::fs::read_dir(home.join("state/sandboxes"))
        .into_iter()
        .flatten()
        .flatten()
    {
        traces.insert(format!("directory: {}", entry.path().display()));
    }
    traces
}
