// SPDX-License-Identifier: Apache-2.0
//! The processes of a daemon's roles, and what the kernel says of each.

pub(crate) mod forbidden;
pub(crate) mod trying;

use crate::stage::Stage;
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, Signal};
use std::collections::BTreeSet;
use std::fs;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use torno_stage::daemon::level;

/// The roles that live while a session runs.
pub(crate) const ROLES: [&str; 5] = ["desk", "notary", "dialer", "launcher", "gate"];

/// One role's process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) role: &'static str,
    pub(crate) number: u32,
}

impl Process {
    pub(crate) fn proc(&self, file: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/{file}", self.number))
    }

    pub(crate) fn read(&self, file: &str) -> String {
        fs::read_to_string(self.proc(file)).unwrap()
    }

    /// A line of `status`, without its name.
    pub(crate) fn status(&self, name: &str) -> String {
        let text = self.read("status");
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.unwrap()
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ")
    }

    /// The one uid that it runs as: real, effective, saved and of files.
    pub(crate) fn uid(&self) -> u32 {
        let text = self.status("Uid");
        let all: BTreeSet<u32> = text.split(' ').map(|uid| uid.parse().unwrap()).collect();
        assert_eq!(all.len(), 1, "{}: {all:?}", self.role);
        all.into_iter().next().unwrap()
    }

    /// A gate behind its filter, with nobody to serve.
    pub(crate) fn waits(&self) -> bool {
        let status = fs::read_to_string(self.proc("status")).unwrap_or_default();
        status.lines().any(|line| line == "Seccomp:\t2") && self.sockets() == SOCKETS_AHEAD
    }

    /// A gate that has all of a session's.
    pub(crate) fn serves(&self) -> bool {
        let is_machine = level::named().is_some_and(level::is_machine);
        let listeners = if is_machine { 0 } else { LISTENERS };
        self.sockets() >= SOCKETS_SERVING + listeners
    }

    /// How many sockets it holds; none when it is gone.
    fn sockets(&self) -> usize {
        let entries = fs::read_dir(self.proc("fd"))
            .into_iter()
            .flatten()
            .flatten();
        let targets = entries.filter_map(|entry| fs::read_link(entry.path()).ok());
        targets
            .filter(|target| target.to_string_lossy().starts_with("socket:"))
            .count()
    }

    pub(crate) fn is_alive(&self) -> bool {
        fs::read_to_string(self.proc("status")).is_ok_and(|text| !text.contains("State:\tZ"))
    }

    /// Stops it where it is.
    pub(crate) fn stop(&self) {
        self.signal(Signal::STOP);
        while !self.status("State").starts_with('T') {
            std::thread::yield_now();
        }
    }

    /// Lets it go on.
    pub(crate) fn go_on(&self) {
        self.signal(Signal::CONT);
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_raw(self.number.try_into().unwrap()).unwrap()
    }

    /// One of its descriptors, in this process as well (pidfd_getfd(2)).
    pub(crate) fn descriptor(&self, number: i32) -> OwnedFd {
        let process = rustix::process::pidfd_open(self.pid(), PidfdFlags::empty()).unwrap();
        rustix::process::pidfd_getfd(&process, number, PidfdGetfdFlags::empty()).unwrap()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        rustix::process::kill_process(self.pid(), signal).unwrap();
    }

    /// Its descriptors, by number, with what they lead to.
    pub(crate) fn descriptors(&self) -> Vec<(i32, String)> {
        let entries = fs::read_dir(self.proc("fd")).unwrap();
        let mut all: Vec<_> = entries
            .filter_map(|entry| {
                let entry = entry.unwrap();
                let target = fs::read_link(entry.path()).ok()?;
                let number = entry.file_name().to_string_lossy().parse().unwrap();
                Some((number, target.to_string_lossy().into_owned()))
            })
            .collect();
        all.sort();
        all
    }
}

/// The processes of these roles below this stage's supervisor.
pub(crate) fn of(stage: &Stage, roles: &[&'static str]) -> Vec<Process> {
    below(stage.daemon.pid().unwrap(), roles)
}

/// The processes of these roles below a supervisor.
pub(crate) fn below(supervisor: u32, roles: &[&'static str]) -> Vec<Process> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Ok(number) = entry.file_name().to_string_lossy().parse() else {
            continue;
        };
        let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        let parent = stat.rsplit(") ").next().and_then(|r| r.split(' ').nth(1));
        let name = line.split(|byte| *byte == 0).next().unwrap_or_default();
        let role = roles
            .iter()
            .find(|role| name == format!("tornod-{role}").as_bytes());
        if let (Some(role), true) = (role, parent == Some(&*supervisor.to_string())) {
            found.push(Process { role, number });
        }
    }
    found
}

/// Every role while one session runs, once the gate for the next session waits beside them; that
/// one's story is `gate_made_ahead`.
pub(crate) fn processes(stage: &Stage) -> Vec<Process> {
    spare(stage.daemon.pid().unwrap());
    let mut found = of(stage, &ROLES);
    found.retain(|process| process.role != "gate" || process.serves());
    let roles: BTreeSet<_> = found.iter().map(|process| process.role).collect();
    assert_eq!(roles, BTreeSet::from(ROLES));
    assert_eq!(found.len(), ROLES.len());
    found
}

/// Every gate that serves a session.
pub(crate) fn gates(stage: &Stage) -> Vec<Process> {
    serving(stage.daemon.pid().unwrap())
}

/// The gates below a supervisor that serve a session.
pub(crate) fn serving(supervisor: u32) -> Vec<Process> {
    let mut gates = below(supervisor, &["gate"]);
    gates.retain(Process::serves);
    gates
}

/// The one gate that waits for a session, once there is one and all others serve.
pub(crate) fn spare(supervisor: u32) -> Process {
    let end = Instant::now() + SPARE_WAIT;
    loop {
        let gates = below(supervisor, &["gate"]);
        let (mut waiting, others): (Vec<_>, Vec<_>) = gates.into_iter().partition(Process::waits);
        if let (1, Some(spare), true) = (
            waiting.len(),
            waiting.pop(),
            others.iter().all(Process::serves),
        ) {
            return spare;
        }
        assert!(Instant::now() < end, "no gate waits for the next session");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// LIMIT: a loaded machine takes seconds for what takes milliseconds elsewhere.
const SPARE_WAIT: Duration = Duration::from_secs(30);
/// What a gate with nobody to serve has: its channel to the supervisor, and three ends of the event
/// loop's own pair.
const SOCKETS_AHEAD: usize = 4;
/// What a session's gate has besides: notary, dialer, launcher, desk, the link.
const SOCKETS_SERVING: usize = SOCKETS_AHEAD + 5;
/// And where the sandbox's sockets are the host's.
const LISTENERS: usize = 5;
