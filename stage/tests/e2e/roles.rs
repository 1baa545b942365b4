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

    fn signal(&self, signal: Signal) {
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

/// Every role while one session runs.
pub(crate) fn processes(stage: &Stage) -> Vec<Process> {
    let found = of(stage, &ROLES);
    let roles: BTreeSet<_> = found.iter().map(|process| process.role).collect();
    assert_eq!(roles, BTreeSet::from(ROLES));
    assert_eq!(found.len(), ROLES.len());
    found
}

/// Every gate.
pub(crate) fn gates(stage: &Stage) -> Vec<Process> {
    of(stage, &["gate"])
}
