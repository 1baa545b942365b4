// SPDX-License-Identifier: Apache-2.0
//! One gate is started ahead of the session that it will serve. It holds nothing of any session
//! before, serves one alone, is replaced, and ends with the daemon.

use crate::roles::{Process, below, spare};
use crate::stage::{Stage, at_level};
use rustix::process::Signal;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

const LEVEL: &str = "container";
/// LIMIT: a loaded machine takes seconds for what takes milliseconds elsewhere.
const WAIT: Duration = Duration::from_secs(30);

fn until(what: &str, is: impl Fn() -> bool) {
    let end = Instant::now() + WAIT;
    while !is() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn next(stage: &Stage) -> Process {
    spare(stage.daemon.pid().unwrap())
}

fn start(stage: &Stage) -> String {
    let run = ["run", "--quiet", "--workspace", "none"];
    let run = run.into_iter().chain(["--isolation", LEVEL, "--detach"]);
    let run: Vec<_> = run.collect();
    stage.torno(&run).good().stdout.trim().to_owned()
}

/// As root, since nobody else sees a gate's descriptors.
fn tell(story: &str, of: impl Fn(&Stage)) {
    if rustix::process::geteuid().is_root() {
        at_level(story, LEVEL, of);
    } else {
        println!("SKIP: {story}: not root, so a gate's descriptors can't be seen");
    }
}

#[test]
fn each_session_has_a_gate_that_held_nothing_before_and_served_nobody_else() {
    tell("a gate made ahead", |stage| {
        let supervisor = stage.daemon.pid().unwrap();
        assert!(stage.daemon.sessions().unwrap().is_empty());
        let (mut ever, mut uids) = (BTreeSet::new(), BTreeSet::new());
        let mut sessions = Vec::new();
        for _ in 0..3 {
            let gate = next(stage);
            assert!(ever.insert(gate.number), "{gate:?} comes a second time");
            assert!(uids.insert(gate.uid()), "{gate:?} shares its uid");
            sessions.push((start(stage), gate.clone()));
            assert!(gate.serves(), "the session has another gate than {gate:?}");
        }
        for (session, gate) in sessions {
            stage.torno(&["session", "stop", &session]).good();
            let left = below(supervisor, &["gate"]);
            assert!(!left.contains(&gate), "{gate:?} outlives {session}");
        }
        let last = next(stage);
        assert!(ever.insert(last.number), "{last:?} comes a second time");
    });
}

#[test]
fn one_that_dies_is_replaced_and_the_next_start_does_not_notice() {
    tell("a dead gate made ahead", |stage| {
        let dead = next(stage);
        dead.signal(Signal::KILL);
        let session = start(stage);
        stage.torno(&["session", "stop", &session]).good();
        let dead = [dead, next(stage)];
        assert_ne!(dead[0], dead[1]);
        // Without a start in between as well.
        dead[1].signal(Signal::KILL);
        until("it is not replaced", || {
            let gates = below(stage.daemon.pid().unwrap(), &["gate"]);
            gates.len() == 1 && !dead.contains(&gates[0])
        });
    });
}

#[test]
fn it_ends_with_its_supervisor() {
    tell("the end of a gate made ahead", |stage| {
        for signal in [Signal::TERM, Signal::KILL] {
            let home = tempfile::Builder::new()
                .prefix("torno-home-")
                .tempdir()
                .unwrap();
            // A daemon of its own, since the stage's is asked for its record at the end.
            let tornod = torno_stage::daemon::binaries().unwrap().join("tornod");
            let mut tornod = std::process::Command::new(tornod);
            tornod.env_clear().env("TORNO_HOME", home.path());
            tornod
                .env("HOME", home.path())
                .env("PATH", "/usr/sbin:/usr/bin");
            let mut tornod = tornod.current_dir("/").spawn().unwrap();
            let gate = spare(tornod.id());
            let number = i32::try_from(tornod.id()).unwrap();
            let pid = rustix::process::Pid::from_raw(number).unwrap();
            rustix::process::kill_process(pid, signal).unwrap();
            tornod.wait().unwrap();
            until("it outlives its supervisor", || !gate.is_alive());
        }
        assert!(
            next(stage).is_alive(),
            "the stage's own ended with another's"
        );
    });
}
