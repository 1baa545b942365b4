// SPDX-License-Identifier: Apache-2.0
//! A Torno that an ordinary user runs: what its processes are, and what it says where an
//! administrator has left something out. That it does its work is in the stories that are told for
//! both (`at_each_level_for_both`).

use crate::stage::at_each_level_as;
use std::collections::BTreeMap;
use std::fs;
use torno_stage::account::{Given, Who};
use torno_stage::daemon::Daemon;
use torno_stage::daemon::level::told;

/// Children of the supervisor and itself, by role, with a reader of their `status`.
fn processes(daemon: &Daemon) -> BTreeMap<String, u32> {
    let supervisor = daemon.pid().unwrap();
    let mut found = BTreeMap::from([("supervisor".to_owned(), supervisor)]);
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Ok(number) = entry.file_name().to_string_lossy().parse() else {
            continue;
        };
        if status(number, "PPid").as_deref() != Some(&*supervisor.to_string()) {
            continue;
        }
        let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let name = line.split(|byte| *byte == 0).next().unwrap_or_default();
        let name = String::from_utf8_lossy(name).into_owned();
        if let Some(role) = name.strip_prefix("tornod-") {
            found.insert(role.to_owned(), number);
        }
    }
    found
}

fn status(process: u32, name: &str) -> Option<String> {
    let text = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    Some(line.split_whitespace().collect::<Vec<_>>().join(" "))
}

#[test]
fn no_process_of_it_is_root_or_holds_a_capability_of_the_host() {
    at_each_level_as(
        &[Who::User],
        "an ordinary user's roles",
        |_, stage, level| {
            let run = ["run", "--quiet", "--isolation", level, "--detach"];
            let session = stage.torno(&run).good().stdout;
            let user = stage.daemon.user().unwrap();
            let all = processes(&stage.daemon);
            let roles: Vec<&str> = all.keys().map(String::as_str).collect();
            let standing = ["desk", "dialer", "gate", "launcher", "notary", "supervisor"];
            assert_eq!(roles, standing);
            let host = fs::read_link("/proc/self/ns/user").unwrap();
            for (role, number) in all {
                let ids = [user.to_string().as_str(); 4].join(" ");
                assert_eq!(status(number, "Uid"), Some(ids.clone()), "{role}");
                assert_eq!(status(number, "Gid"), Some(ids), "{role}");
                let own = fs::read_link(format!("/proc/{number}/ns/user")).unwrap();
                if role == "launcher" {
                    // Its capabilities count in its own namespace alone.
                    assert_ne!(own, host, "{role}");
                    continue;
                }
                assert_eq!(own, host, "{role}");
                for set in ["CapEff", "CapPrm", "CapInh", "CapAmb"] {
                    let held = status(number, set);
                    assert_eq!(held.as_deref(), Some("0000000000000000"), "{role} {set}");
                }
                if role != "supervisor" {
                    assert_eq!(status(number, "NoNewPrivs").as_deref(), Some("1"), "{role}");
                    assert_eq!(status(number, "Seccomp").as_deref(), Some("2"), "{role}");
                }
            }
            stage.torno(&["session", "stop", session.trim()]).good();
        },
    );
}

/// What `torno doctor` and a run at each level say to a user who was given so much.
#[track_caller]
fn refused(given: Given, says: &str, fix: &str) {
    if !rustix::process::geteuid().is_root() {
        println!("SKIP: an ordinary user without `{fix}`: not root, so none can be made");
        return;
    }
    let daemon = Daemon::of_user(given, "").unwrap();
    for &level in told() {
        let run = [
            "run",
            "--workspace",
            "none",
            "--isolation",
            level,
            "--",
            "true",
        ];
        let output = daemon.torno(&run).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(125), "{said}");
        assert!(said.contains(says) && said.contains("next: "), "{said}");
        assert!(said.contains(fix), "{said}");
    }
    let output = daemon.torno(&["doctor"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains(&format!("fix: {fix}")), "{said}");
}

#[test]
fn without_subordinate_ids_nothing_starts_and_usermod_is_named() {
    let given = Given {
        subordinate_ids: false,
        ..Given::ALL
    };
    refused(given, "/etc/subuid", "usermod --add-subuids ");
}

#[test]
fn without_newuidmap_nothing_starts_and_its_package_is_named() {
    let given = Given {
        map_programs: false,
        ..Given::ALL
    };
    refused(
        given,
        "newuidmap is not installed",
        "apt-get install uidmap",
    );
}

#[test]
fn without_delegated_groups_nothing_starts_and_the_command_that_gives_them_is_named() {
    let given = Given {
        groups: false,
        ..Given::ALL
    };
    let is_v2 = std::path::Path::new("/sys/fs/cgroup/cgroup.controllers").exists();
    let fix = if is_v2 {
        "systemd-run --user --scope -p Delegate=yes tornod"
    } else {
        "sudo sh -c "
    };
    refused(given, "was not delegated to you", fix);
}
