// SPDX-License-Identifier: Apache-2.0
//! Each role lacks what its row in the design forbids, read from `/proc` while a session runs, and
//! tried where a neighbour could try it: as another role's uid.

use crate::ahead;
use crate::roles::{Process, processes};
use crate::stage::{Stage, at_each_level};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use torno_stage::daemon::level;

/// LIMIT: a connection that its client closed is let go within milliseconds.
const SETTLE_WAIT: Duration = Duration::from_secs(10);

/// Tells the story with a live session; as root, since only then has each role its own uid.
fn with_a_session(story: &str, tell: impl Fn(&Stage, &[Process])) {
    if !rustix::process::geteuid().is_root() {
        println!("SKIP: {story}: not root, so the roles have no uids of their own");
        return;
    }
    at_each_level(story, |stage, level| {
        let run = ["run", "--quiet", "--isolation", level, "--detach"];
        let session = stage.torno(&run).good().stdout;
        tell(stage, &processes(stage));
        stage.torno(&["session", "stop", session.trim()]).good();
    });
}

#[test]
fn each_role_has_its_own_uid_no_core_dump_no_new_privileges_and_a_filter() {
    with_a_session("roles are confined", |_, roles| {
        let mut uids = BTreeSet::new();
        for process in roles {
            let role = process.role;
            assert!(uids.insert(process.uid()), "{role} shares its uid");
            let limits = process.read("limits");
            let core = limits.lines().find(|l| l.starts_with("Max core file size"));
            let core: Vec<_> = core.unwrap().split_whitespace().skip(4).collect();
            assert_eq!(core, ["0", "0", "bytes"], "{role}");
            let data = limits.lines().find(|l| l.starts_with("Max data size"));
            let data = data.unwrap().split_whitespace().nth(3).unwrap();
            assert_eq!(data == "2147483648", role == "gate", "{role}: {data}");
            if role == "launcher" {
                continue;
            }
            assert_ne!(process.uid(), 0, "{role}");
            assert_eq!(process.status("NoNewPrivs"), "1", "{role}");
            assert_eq!(process.status("Seccomp"), "2", "{role}");
            for set in ["CapEff", "CapPrm", "CapInh", "CapAmb"] {
                assert_eq!(process.status(set), "0000000000000000", "{role} {set}");
            }
        }
    });
}

#[test]
fn no_role_inherits_an_environment_but_its_log_level() {
    with_a_session("roles start with an empty environment", |_, roles| {
        for process in roles {
            let text = process.read("environ");
            let names: Vec<_> = text
                .split_terminator('\0')
                .filter_map(|variable| variable.split('=').next())
                .collect();
            assert_eq!(names, ["TORNO_LOG"], "{}", process.role);
        }
    });
}

#[test]
fn no_role_can_be_read_by_its_own_uid_nor_read_the_notarys_store() {
    with_a_session("roles can't be read", |stage, roles| {
        let store = stage.daemon.home().join("state/notary/notary.sqlite");
        assert!(fs::read(&store).is_ok(), "no control: root can't read it");
        for process in roles.iter().filter(|p| p.role != "launcher") {
            let (role, uid) = (process.role, process.uid());
            let reads = |path: PathBuf| {
                let mut cat = Command::new("/bin/cat");
                cat.arg(path).uid(uid).gid(uid).stdin(Stdio::null());
                stage.hear(&cat.output().unwrap()).code == Some(0)
            };
            // A process that is not dumpable belongs to root in /proc.
            assert_eq!(fs::metadata(process.proc("environ")).unwrap().uid(), 0);
            assert!(!reads(process.proc("environ")), "{role}'s environment");
            assert!(!reads(process.proc("maps")), "{role}'s memory map");
            if role != "notary" {
                assert!(!reads(store.clone()), "{role} read the notary's store");
            }
        }
    });
}

#[test]
fn descriptors_are_exactly_the_roles_own() {
    with_a_session("descriptors are the roles' own", |stage, roles| {
        let supervisor = Process {
            role: "supervisor",
            number: stage.daemon.pid().unwrap(),
        };
        ahead::until_waiting(stage, 1);
        for process in roles.iter().chain([&supervisor]) {
            let (role, own) = (process.role, own_descriptors(stage, process.role));
            let end = Instant::now() + SETTLE_WAIT;
            while kinds(process) != own && Instant::now() < end {
                // A client that has gone is still being let go.
                std::thread::sleep(Duration::from_millis(50));
            }
            assert_eq!(kinds(process), own, "{role}");
            let host: BTreeSet<String> = ["tcp", "tcp6", "udp", "udp6", "raw", "raw6"]
                .iter()
                .flat_map(|table| {
                    inodes(&fs::read_to_string(format!("/proc/net/{table}")).unwrap())
                })
                .collect();
            for (_, target) in process.descriptors() {
                let inode = target.strip_prefix("socket:[").unwrap_or_default();
                let inode = inode.trim_end_matches(']');
                assert!(
                    !host.contains(inode),
                    "{role} has a socket of the host's network"
                );
            }
        }
    });
}

/// How many descriptors of each kind; a file is its own kind.
fn kinds(process: &Process) -> BTreeMap<String, usize> {
    let mut kinds = BTreeMap::new();
    for (_, target) in process.descriptors() {
        let kind = target.split(":[").next().unwrap_or_default();
        let kind = if target.starts_with("anon_inode:") {
            &target
        } else {
            kind
        };
        *kinds.entry(kind.to_owned()).or_default() += 1;
    }
    kinds
}

/// What a role holds while one session runs and nobody asks anything.
fn own_descriptors(stage: &Stage, role: &str) -> BTreeMap<String, usize> {
    let state = stage.daemon.home().join("state");
    let file = |name: &str| state.join(name).to_string_lossy().into_owned();
    // The event loop with its waker, and its three ends of the signals' socket pair.
    let (epoll, wake, signals) = ("anon_inode:[eventpoll]", "anon_inode:[eventfd]", 3);
    let log = stage.daemon.log().to_string_lossy().into_owned();
    let mut all = BTreeMap::from([
        ("/dev/null".to_owned(), 2),
        (epoll.to_owned(), 2),
        (wake.to_owned(), 1),
        (log.clone(), 1),
    ]);
    // Told at a machine's level by its name alone.
    let is_machine = level::named().is_some_and(level::is_machine);
    let mut hold = |kind: &str, count: usize| {
        all.insert(kind.to_owned(), count);
    };
    if ["notary", "dialer", "launcher", "desk"].contains(&role) {
        hold(&file("roles.lock"), 1);
    }
    match role {
        "supervisor" => {
            // The kill-only listener, four standing roles, one gate, the one made ahead.
            hold("socket", signals + 7);
            hold("/dev/null", 1);
            hold(&log, 2);
            let lock = stage.daemon.home().join("run/tornod.lock");
            hold(&lock.to_string_lossy(), 1);
        }
        "notary" => {
            // Supervisor, operators' listener, desk, dialer, gate.
            hold("socket", signals + 5);
            let segment = format!("notary/record/segment-{:020}.jsonl", 0);
            for name in [
                "notary/notary.sqlite",
                "notary/notary.sqlite-wal",
                "notary/record",
                "notary/record/checkpoints",
                &segment,
            ] {
                hold(&file(name), 1);
            }
        }
        // Supervisor, notary, gate.
        "dialer" => hold("socket", signals + 3),
        "launcher" => {
            // Supervisor, desk, gate; a sandbox's first process and keeper, each to end it by and
            // to watch, and the keeper's pipe.
            // Then the network made ahead: its namespace and five sockets. And the sandbox made
            // ahead: five sockets and the link, its first process and keeper, its keeper's pipe, and
            // the doors to its root and home directories.
            // A machine that is made ahead has its link alone and no door to its home; it is
            // restored from a template, whose state and memory are held.
            hold("net", 1);
            hold("anon_inode:[pidfd]", 6);
            hold("pipe", 2);
            hold("/rootfs", 1);
            if is_machine {
                hold("socket", signals + 3 + 5 + 1);
                hold("/memfd:torno-template-memory (deleted)", 1);
                hold("/memfd:torno-template-state (deleted)", 1);
            } else {
                hold("socket", signals + 3 + 5 + 6);
                hold("/", 1);
            }
        }
        "desk" => {
            // Supervisor, API listener, notary, launcher, gate.
            hold("socket", signals + 5);
            hold(&file("desk"), 1);
            if is_machine {
                // What went into the machine; porters compare what comes out with it.
                let session = stage.daemon.sessions().unwrap().remove(0);
                hold(&file(&format!("sandboxes/{session}/workspace")), 1);
            }
        }
        // Supervisor, notary, dialer, launcher, desk; five sockets of the sandbox's way out, which a
        // machine has not, and the link.
        "gate" => hold("socket", signals + if is_machine { 6 } else { 11 }),
        other => panic!("no role: {other}"),
    }
    all
}

/// The inodes in a table of `/proc/net`.
fn inodes(table: &str) -> Vec<String> {
    table
        .lines()
        .skip(1)
        .filter_map(|line| line.split_whitespace().nth(9).map(str::to_owned))
        .filter(|inode| inode != "0")
        .collect()
}

#[test]
fn the_dialer_alone_needs_the_hosts_network_namespace_and_has_it() {
    with_a_session("the dialer's network is the host's", |_, roles| {
        let host = fs::read_link("/proc/self/ns/net").unwrap();
        let dialer = roles.iter().find(|p| p.role == "dialer").unwrap();
        assert_eq!(fs::read_link(dialer.proc("ns/net")).unwrap(), host);
    });
}
