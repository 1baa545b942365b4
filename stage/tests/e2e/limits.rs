// SPDX-License-Identifier: Apache-2.0
//! Every limit of a session, exceeded on purpose, at levels of each kind: it holds, it is the
//! session's own affair, and a neighbour at the same level answers meanwhile.

use crate::stage::{Stage, at_each_level, at_machine};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};
use torno_stage::escape::Inside;

const POLICY: &str = "[sandbox]\nworkspace = { path = \".\", mode = \"none\" }\n\
    limits = { wall = \"10m\", idle = \"5m\", cpus = 1, memory = \"256MiB\", pids = 64, \
    disk = \"48MiB\" }\n";
/// LIMIT: an emulated machine on a busy host; a neighbour that starves takes far longer.
const ANSWER_WAIT: Duration = Duration::from_secs(60);

// ATTACK: 156
// ATTACK: 157
// ATTACK: 158
#[test]
fn each_limit_holds_and_a_neighbour_goes_on() {
    at_each_level("limits", limits_hold);
}

// ATTACK: 156
// ATTACK: 157
// ATTACK: 158
#[test]
fn each_limit_of_a_machine_holds_and_a_neighbour_goes_on() {
    at_machine("limits", &["microvm"], limits_hold);
}

#[test]
fn wall_and_idle_end_a_machine() {
    at_machine("wall and idle", &["microvm"], |stage, level| {
        let policy = POLICY.replace("idle = \"5m\"", "idle = \"3s\"");
        accept(stage, &policy);
        let began = Instant::now();
        let words = ["--workspace", "none", "--wall", "20s"];
        let run = stage.daemon.run_in(level, &words, &["sleep", "600"]);
        let ran = stage.hear(&{ run }.output().unwrap());
        assert_eq!(ran.code, Some(124), "{ran:?}");
        assert!(began.elapsed() >= Duration::from_secs(20), "{ran:?}");
        let idle = Inside::start(&stage.daemon, level).unwrap();
        until_over(stage, &idle);
    });
}

/// Waits for the end of a session that nobody ends.
#[track_caller]
fn until_over(stage: &Stage, inside: &Inside<'_>) {
    let end = Instant::now() + ANSWER_WAIT;
    let lives = |session: &String| session == inside.name();
    while stage.daemon.sessions().unwrap().iter().any(lives) {
        assert!(Instant::now() < end, "it never ended");
        std::thread::sleep(Duration::from_millis(200));
    }
}

fn accept(stage: &Stage, policy: &str) {
    stage.daemon.write_workspace("torno.toml", policy).unwrap();
    stage.daemon.must(&["trust", "--yes"]).unwrap();
}

fn limits_hold(stage: &Stage, level: &str) {
    accept(stage, POLICY);
    stage.is_not_seen_whole("without a workspace there is nowhere to export keys to");
    let neighbour = Neighbour::new(stage, level);
    cpu(stage, level);
    neighbour.answers("while the processor is taken");
    pids(stage, level);
    neighbour.answers("after a fork bomb");
    disk(stage, level);
    neighbour.answers("after disks were filled");
    output(stage, level, &neighbour);
    memory(stage, level);
    neighbour.answers("after memory ran out");
    neighbour.end();
}

/// A session of the same document at the same level, with a command that runs all the time.
struct Neighbour<'s> {
    inside: Inside<'s>,
    works: Child,
}

impl<'s> Neighbour<'s> {
    fn new(stage: &'s Stage, level: &str) -> Self {
        let inside = Inside::start(&stage.daemon, level).unwrap();
        let words = ["session", "exec", inside.name(), "--", "sleep", "3600"];
        let works = stage.daemon.torno(&words).spawn().unwrap();
        Self { inside, works }
    }

    #[track_caller]
    fn answers(&self, when: &str) {
        let began = Instant::now();
        let said = self.inside.run("print('still here')").unwrap();
        assert_eq!(said, b"still here\n", "{when}");
        assert!(
            began.elapsed() < ANSWER_WAIT,
            "{when}: {:?}",
            began.elapsed()
        );
    }

    fn end(mut self) {
        assert!(
            self.works.try_wait().unwrap().is_none(),
            "its command ended"
        );
        self.inside.end().unwrap();
        self.works.wait().unwrap();
    }
}

/// What of CPU time the sandboxes of this daemon had, by the host's own account.
fn cpu_seconds(stage: &Stage) -> f64 {
    let ticks: u64 = sandboxed(stage)
        .into_iter()
        .map(|pid| {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            let words = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
            let number = |place: usize| {
                let word = words.split_whitespace().nth(place);
                word.and_then(|word| word.parse::<u64>().ok()).unwrap_or(0)
            };
            // Its own, and that of its children that are no more.
            (11..15).map(number).sum::<u64>()
        })
        .sum();
    #[expect(clippy::cast_precision_loss, reason = "seconds of a story")]
    let seconds = ticks as f64 / 100.0;
    seconds
}

/// Processes below the daemon that have ids of a sandbox.
fn sandboxed(stage: &Stage) -> Vec<u32> {
    let daemon = stage.daemon.pid().unwrap();
    let field = |pid: u32, name: &str| -> Option<u32> {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse().ok()
    };
    let is_below = |mut pid: u32| {
        while let Some(parent) = field(pid, "PPid:") {
            if parent == daemon {
                return true;
            }
            pid = parent;
        }
        false
    };
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|pid| field(*pid, "Uid:").is_some_and(|uid| uid >= 100_000) && is_below(*pid))
        .collect()
}

fn cpu(stage: &Stage, level: &str) {
    let inside = Inside::start(&stage.daemon, level).unwrap();
    // A first command, so that what a start costs is not counted.
    inside.run("pass").unwrap();
    let (began, before) = (Instant::now(), cpu_seconds(stage));
    let script = "import os, time
end = time.time() + 4
for _ in range(3):
    if os.fork() == 0: break
while time.time() < end: pass";
    inside.run(script).unwrap();
    let (took, had) = (began.elapsed().as_secs_f64(), cpu_seconds(stage) - before);
    // One processor, by quotas of a tenth of a second; and a little for the neighbour.
    assert!(had > 0.5, "{level}: nothing was spent: {had} s");
    assert!(
        had < took * 1.25 + 0.5,
        "{level}: {had} s of CPU in {took} s"
    );
    inside.end().unwrap();
}

fn pids(stage: &Stage, level: &str) {
    let inside = Inside::start(&stage.daemon, level).unwrap();
    let script = "import os, time
made = 0
try:
    for _ in range(4000):
        if os.fork() == 0:
            time.sleep(20)
            os._exit(0)
        made += 1
    print('all')
except OSError as error:
    print('refused', made < 64)";
    if level == "gvisor" {
        // The host's limit is on the threads of the user-space kernel, which dies of it whole.
        let died = inside.run(script).unwrap_err().to_string();
        assert!(died.contains("the session is ended"), "{died}");
        until_over(stage, &inside);
        return;
    }
    let said = inside.run(script).unwrap();
    assert_eq!(String::from_utf8_lossy(&said), "refused True\n", "{level}");
    inside.end().unwrap();
}

fn disk(stage: &Stage, level: &str) {
    let inside = Inside::start(&stage.daemon, level).unwrap();
    let script = "import errno, os
for place in ('/tmp', '/home/agent', '/dev/shm'):
    written = 0
    try:
        with open(place + '/fill', 'wb', buffering=0) as file:
            while written < 96 << 20: written += file.write(bytes(1 << 20))
        print('all')
    except OSError as error: print(errno.errorcode[error.errno], written <= 16 << 20)
    os.unlink(place + '/fill')";
    let said = inside.run(script).unwrap();
    let right = "ENOSPC True\n".repeat(3);
    assert_eq!(String::from_utf8_lossy(&said), right, "{level}");
    inside.end().unwrap();
}

/// Output that nobody reads is not kept: the command waits.
fn output(stage: &Stage, level: &str, neighbour: &Neighbour<'_>) {
    let inside = Inside::start(&stage.daemon, level).unwrap();
    let before = roles_kib(stage);
    let words = ["session", "exec", inside.name(), "--", "cat", "/dev/zero"];
    let mut unread = stage.daemon.torno(&words);
    let mut unread = unread.stdout(Stdio::piped()).spawn().unwrap();
    std::thread::sleep(Duration::from_secs(5));
    neighbour.answers("while output waits");
    let gained = roles_kib(stage).saturating_sub(before);
    assert!(gained < 64 << 10, "{level}: roles hold {gained} KiB more");
    assert!(unread.try_wait().unwrap().is_none(), "{level}: it ended");
    inside.end().unwrap();
    drop(unread.stdout.take());
    unread.wait().unwrap();
}

/// Memory of the roles.
fn roles_kib(stage: &Stage) -> u64 {
    let daemon = stage.daemon.pid().unwrap();
    let own = format!("/proc/{daemon}/exe");
    let program = std::fs::read_link(own).unwrap();
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    entries
        .filter(|entry| {
            std::fs::read_link(entry.path().join("exe")).is_ok_and(|exe| exe == program)
        })
        .filter(|entry| {
            let line = std::fs::read(entry.path().join("environ")).unwrap_or_default();
            let home = stage.daemon.home().to_str().unwrap().as_bytes();
            line.windows(home.len()).any(|part| part == home)
        })
        .map(|entry| {
            let status = std::fs::read_to_string(entry.path().join("status")).unwrap_or_default();
            let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
            let word = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
            word.unwrap_or_default()
        })
        .sum()
}

fn memory(stage: &Stage, level: &str) {
    let inside = Inside::start(&stage.daemon, level).unwrap();
    let script = "import os
hoard = []
for _ in range(900):
    hoard.append(bytearray(os.urandom(1 << 20)))
print('hoarded')";
    let words = [
        "session",
        "exec",
        inside.name(),
        "--",
        "/usr/bin/python3",
        "-c",
        script,
    ];
    let ran = stage.torno(&words);
    assert!(!ran.stdout.contains("hoarded"), "{level}: {ran:?}");
    assert_ne!(ran.code, Some(0), "{level}: {ran:?}");
    // A user-space kernel dies as a whole; elsewhere the session goes on without the command.
    let session = inside.name().to_owned();
    if stage.daemon.sessions().unwrap().contains(&session) {
        stage.torno(&["session", "stop", &session]);
    }
}
