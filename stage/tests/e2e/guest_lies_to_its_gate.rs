// SPDX-License-Identifier: Apache-2.0
//! A guest that lies to a running gate loses only itself. The agent of a real sandbox is stopped,
//! and this test speaks on its end of the link.

use crate::ahead::sandbox_of;
use crate::ledger::Ledger;
use crate::roles::{self, Process};
use crate::stage::{Stage, at_level};
use std::fs;
use std::io::{ErrorKind, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::process::Stdio;
use std::time::{Duration, Instant};
use torno_audit::Event;
use torno_audit::record::EndCause;

/// LIMIT: a gate that ends is noticed at once; a machine under load gets this long.
const END_WAIT: Duration = Duration::from_secs(30);
/// More than any buffer between a guest and what its gate may keep.
const FLOOD_BYTES: usize = 256 << 20;
/// LIMIT: a gate holds one frame of the link and the windows of its commands.
const GATE_KIB_MAX: u64 = 128 * 1024;

const CONTROL: u8 = 1;
const DATA: u8 = 2;
const CREDIT: u8 = 4;

/// A frame as guest-protocol draws it, of any length that is said.
fn frame(length: u32, kind: u8, body: &[u8]) -> Vec<u8> {
    [&length.to_be_bytes(), &[kind][..], body].concat()
}

fn whole(kind: u8, body: &[u8]) -> Vec<u8> {
    frame(u32::try_from(body.len()).unwrap(), kind, body)
}

/// A frame about the standard input of command 1, the first of every session.
fn on_stdin(kind: u8, body: &[u8]) -> Vec<u8> {
    whole(kind, &[&1_u32.to_be_bytes()[..], &[0], body].concat())
}

/// Lies that no honest guest tells, each of which ends its session.
fn lies() -> Vec<(&'static str, Vec<u8>)> {
    let hello = br#"{"type":"hello","version":1,"guest":"x","walls":[]}"#;
    let start = br#"{"type":"start_process","exec":7,"argv":["x"],"env":[],"cwd":"/","tty":null}"#;
    let file = br#"{"type":"file_read","request":1}"#;
    // Far over the window of one stream, all of it well-formed.
    let output = [&1_u32.to_be_bytes()[..], &[1], &[b'x'; 1024]].concat();
    vec![
        ("garbage", vec![0xff; 4096]),
        ("a hostile length", frame(u32::MAX, CONTROL, b"{")),
        ("an unknown kind", whole(99, b"{}")),
        ("no message", whole(CONTROL, b"{}")),
        ("the host's own message", whole(CONTROL, start)),
        ("hello twice", whole(CONTROL, hello)),
        ("a file that nobody asked for", whole(CONTROL, file)),
        ("the host's own stream", on_stdin(DATA, b"typed")),
        (
            "credit without end",
            on_stdin(CREDIT, &u32::MAX.to_be_bytes()).repeat(2),
        ),
        ("output over its credit", whole(DATA, &output).repeat(4096)),
        ("half a frame", frame(64, CONTROL, b"{\"type\"")),
    ]
}

/// The agent of a session, stopped, and its end of the link.
fn take_over(stage: &Stage, session: &str) -> (Process, UnixStream) {
    let sandbox = sandbox_of(stage, session);
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let is_agent = |entry: &fs::DirEntry| {
        let read = |file: &str| fs::read_to_string(entry.path().join(file)).unwrap_or_default();
        read("cmdline").starts_with("/.torno/torno-guest\0init")
            && read("cgroup").contains(&sandbox)
    };
    let mut agents = processes.filter(is_agent);
    let number = agents.next().unwrap().file_name();
    let agent = Process {
        role: "guest",
        number: number.to_string_lossy().parse().unwrap(),
    };
    agent.stop();
    let mut sockets = agent.descriptors();
    sockets.retain(|(_, target)| target.starts_with("socket:"));
    // The first three are the ends of its signals' socket pair.
    let link = agent.descriptor(sockets[3].0);
    (agent, UnixStream::from(link))
}

/// Says bytes until all are taken or the link is gone.
fn say(link: &mut UnixStream, mut bytes: &[u8]) {
    let end = Instant::now() + END_WAIT;
    while !bytes.is_empty() && Instant::now() < end {
        match link.write(bytes) {
            Ok(taken) => bytes = &bytes[taken..],
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                std::thread::sleep(Duration::from_millis(5));
            }
            Err(_) => return,
        }
    }
}

fn begin(stage: &Stage) -> String {
    let run = ["run", "--quiet", "--isolation", "container", "--detach"];
    stage.torno(&run).good().stdout.trim().to_owned()
}

fn still_works(stage: &Stage, session: &str) {
    let exec = ["session", "exec", session, "--", "echo", "works"];
    assert_eq!(stage.torno(&exec).good().stdout, "works\n");
}

/// How often its record says that it ended since a role of it died, and otherwise.
fn ends(ledger: &Ledger) -> (usize, usize) {
    let causes = ledger.since(0).into_iter().filter_map(|event| match event {
        Event::SessionEnded { cause, .. } => Some(cause),
        _ => None,
    });
    let (died, otherwise): (Vec<_>, Vec<_>) = causes.partition(|c| *c == EndCause::RoleDied);
    (died.len(), otherwise.len())
}

#[test]
fn a_guest_that_lies_loses_only_its_own_session() {
    if !rustix::process::geteuid().is_root() {
        println!("SKIP: a guest that lies: not root, so no guest's link can be taken");
        return;
    }
    at_level("a guest that lies", "container", |stage| {
        let other = begin(stage);
        for (lie, bytes) in lies() {
            let session = begin(stage);
            // Its first command, which some of the lies are about.
            let mut running = stage
                .daemon
                .torno(&["session", "exec", &session, "--", "sleep", "60"]);
            let quiet = running.stdout(Stdio::null()).stderr(Stdio::null());
            let mut running = quiet.spawn().unwrap();
            let ledger = Ledger::new(stage.daemon.record(), &session);
            let started = |event: &Event| matches!(event, Event::CommandStarted { .. });
            let end = Instant::now() + END_WAIT;
            while !ledger.since(0).iter().any(started) {
                assert!(Instant::now() < end, "{lie}: its command did not start");
                std::thread::sleep(Duration::from_millis(20));
            }
            std::thread::sleep(Duration::from_millis(500));
            let (agent, mut link) = take_over(stage, &session);
            say(&mut link, &bytes);
            if lie == "half a frame" {
                link.shutdown(Shutdown::Write).unwrap();
            }
            let end = Instant::now() + END_WAIT;
            while ends(&ledger) == (0, 0) {
                assert!(Instant::now() < end, "{lie}: its session goes on");
                std::thread::sleep(Duration::from_millis(50));
            }
            assert_eq!(ends(&ledger), (1, 0), "{lie}");
            assert!(!agent.is_alive(), "{lie}");
            assert_ne!(running.wait().unwrap().code(), Some(0), "{lie}");
            still_works(stage, &other);
        }
        stage.torno(&["session", "stop", &other]).good();
    });
}

#[test]
fn a_guest_that_floods_fills_no_memory_of_its_gate() {
    if !rustix::process::geteuid().is_root() {
        println!("SKIP: a guest that floods: not root, so no guest's link can be taken");
        return;
    }
    at_level("a guest that floods", "container", |stage| {
        let session = begin(stage);
        let [gate] = <[Process; 1]>::try_from(roles::gates(stage)).unwrap();
        let other = begin(stage);
        let (agent, mut link) = take_over(stage, &session);
        // Well-formed output of a command that does not exist: dropped, without an end.
        let output = [&9_u32.to_be_bytes()[..], &[1], &[b'x'; 32 * 1024]].concat();
        let frames = whole(DATA, &output).repeat(32);
        for _ in 0..FLOOD_BYTES / frames.len() {
            say(&mut link, &frames);
        }
        still_works(stage, &other);
        let peak = gate.status("VmHWM");
        let peak: u64 = peak.trim_end_matches(" kB").parse().unwrap();
        assert!(peak < GATE_KIB_MAX, "{peak} KiB");
        agent.go_on();
        stage.torno(&["session", "stop", &session]).good();
        stage.torno(&["session", "stop", &other]).good();
    });
}
