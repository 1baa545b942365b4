// SPDX-License-Identifier: Apache-2.0
//! Ending a group: every process in it, whatever it forked, set or left, then its directories.
//! `killed` is said only after a census found nobody.

use super::Cgroup;
use rustix::process::{Pid, Signal, WaitOptions};
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

/// LIMIT: a killed process that still lives after this is stuck in the kernel; the caller is told.
const DEATH_WAIT: Duration = Duration::from_secs(10);
/// LIMIT: how often the group is looked at while it dies (kill of two processes takes 1.3 ms).
const LOOK_EVERY: Duration = Duration::from_micros(500);

/// Who lived before and after a kill.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Census {
    /// Processes found in the group when the kill began.
    pub alive_before: usize,
    /// Processes left; not 0 only if the kernel couldn't end them in time.
    pub alive_after: usize,
}

impl Cgroup {
    /// Pids of the group's processes, sub-groups included.
    #[must_use]
    pub fn members(&self) -> BTreeSet<i32> {
        let mut pids = BTreeSet::new();
        match (&self.unified, self.v1.first()) {
            (Some(directory), _) | (None, Some((_, directory))) => collect(directory, &mut pids),
            (None, None) => {}
        }
        pids
    }

    /// Whether no process is left.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let events = self
            .unified
            .as_ref()
            .map(|group| fs::read_to_string(group.join("cgroup.events")));
        match events {
            Some(Ok(text)) => text.lines().any(|line| line == "populated 0"),
            // Gone, or going: the kernel removes a group only when nobody is in it.
            Some(Err(error)) => {
                error.kind() == io::ErrorKind::NotFound
                    || error.raw_os_error() == Some(libc::ENODEV)
            }
            None => self.members().is_empty(),
        }
    }

    /// Kills everything inside and waits until the census is 0.
    pub fn kill(&self) -> Census {
        let before = self.members();
        let deadline = Instant::now() + DEATH_WAIT;
        loop {
            if !self.kill_at_once() {
                self.kill_frozen();
            }
            let look_until = (Instant::now() + Duration::from_millis(50)).min(deadline);
            while !self.is_empty() && Instant::now() < look_until {
                self.reap();
                thread::sleep(LOOK_EVERY);
            }
            if self.is_empty() || Instant::now() >= deadline {
                break;
            }
        }
        self.reap();
        Census {
            alive_before: before.len(),
            alive_after: if self.is_empty() {
                0
            } else {
                self.members().len()
            },
        }
    }

    /// Collects those of the group's dead that became the caller's children, as a runtime's
    /// orphans do
    /// where the caller is a subreaper; a zombie counts in the group's pids. Others are somebody
    /// else's.
    pub(crate) fn reap(&self) {
        let Some(name) = self
            .directories()
            .first()
            .and_then(|path| path.file_name()?.to_str().map(str::to_owned))
        else {
            return;
        };
        for pid in own_children() {
            let group = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
            let is_ours = group.lines().any(|line| {
                line.split('/')
                    .any(|part| part.split(' ').next() == Some(&name))
            });
            if let (true, Some(pid)) = (is_ours, Pid::from_raw(pid)) {
                let _ = rustix::process::waitpid(Some(pid), WaitOptions::NOHANG);
            }
        }
    }

    /// v2 since Linux 5.14: one write, no race with forks.
    fn kill_at_once(&self) -> bool {
        self.unified
            .as_ref()
            .is_some_and(|group| fs::write(group.join("cgroup.kill"), "1").is_ok())
    }

    /// Elsewhere: frozen, nobody can fork; signalled, thawed, nobody runs on.
    fn kill_frozen(&self) {
        let v1 = self
            .v1
            .iter()
            .find(|(name, _)| name == "freezer")
            .map(|(_, group)| group.join("freezer.state"));
        let v2 = self
            .unified
            .as_ref()
            .map(|group| group.join("cgroup.freeze"));
        let (state, frozen, thawed) = match (&v1, &v2) {
            (Some(state), _) => (Some(state), "FROZEN", "THAWED"),
            (None, state) => (state.as_ref(), "1", "0"),
        };
        let set = |value| state.map(|path| fs::write(path, value));
        let _ = set(frozen);
        for pid in self.members().iter().filter_map(|pid| Pid::from_raw(*pid)) {
            let _ = rustix::process::kill_process(pid, Signal::KILL);
        }
        let _ = set(thawed);
    }

    /// Removes the group's directories; what is not there is no error.
    ///
    /// # Errors
    /// When the kernel still holds one after the wait.
    pub fn remove(&self) -> io::Result<()> {
        let deadline = Instant::now() + DEATH_WAIT;
        for directory in self.directories() {
            remove_tree(&directory, deadline)?;
        }
        Ok(())
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        if !self.is_empty() {
            self.kill();
        }
        // A directory that can't go now is found and removed at the launcher's next start.
        let _ = self.remove();
    }
}

fn collect(directory: &Path, pids: &mut BTreeSet<i32>) {
    let text = fs::read_to_string(directory.join("cgroup.procs")).unwrap_or_default();
    pids.extend(text.lines().filter_map(|line| line.parse::<i32>().ok()));
    for child in children(directory) {
        collect(&child, pids);
    }
}

fn children(directory: &Path) -> Vec<std::path::PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
        .collect()
}

fn remove_tree(directory: &Path, deadline: Instant) -> io::Result<()> {
    for child in children(directory) {
        remove_tree(&child, deadline)?;
    }
    loop {
        match fs::remove_dir(directory) {
            Ok(()) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error)
                if error.raw_os_error() != Some(libc::EBUSY) || Instant::now() >= deadline =>
            {
                return Err(error);
            }
            Err(_) => thread::sleep(LOOK_EVERY),
        }
    }
}

/// Processes that the caller is the parent of; none where the kernel doesn't list them.
fn own_children() -> Vec<i32> {
    let threads = fs::read_dir("/proc/self/task")
        .into_iter()
        .flatten()
        .flatten();
    let lists =
        threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    lists
        .flat_map(|list| {
            list.split_whitespace()
                .filter_map(|pid| pid.parse().ok())
                .collect::<Vec<_>>()
        })
        .collect()
}
