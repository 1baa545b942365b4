// SPDX-License-Identifier: Apache-2.0
//! strace(1) on a process and on all that it starts: counts their calls, or lets the n-th of a kind
//! fail in each of them (`-e inject`).

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeMap;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::NamedTempFile;

/// Calls that can fail for want of something or for a rule. Those that wait or give back are left
/// out: no kernel refuses them.
const CALLS: [&str; 38] = [
    "openat",
    "openat2",
    "mkdir",
    "mkdirat",
    "mount",
    "umount2",
    "move_mount",
    "open_tree",
    "mount_setattr",
    "fsopen",
    "fsmount",
    "clone",
    "clone3",
    "execve",
    "unshare",
    "setns",
    "write",
    "pwrite64",
    "read",
    "sendmsg",
    "recvmsg",
    "socket",
    "socketpair",
    "bind",
    "unlinkat",
    "renameat2",
    "fchmodat",
    "fchownat",
    "mknodat",
    "ftruncate",
    "fsync",
    "pipe2",
    "memfd_create",
    "pidfd_open",
    "statx",
    "getdents64",
    "symlinkat",
    "prctl",
];
/// LIMIT: until strace holds the process.
const HOLD_WAIT: Duration = Duration::from_secs(20);
/// LIMIT: until strace has let everybody go.
const END_WAIT: Duration = Duration::from_secs(5);
/// What strace writes beside a call that it let fail.
const INJECTED: &str = "(INJECTED)";

/// A process that is being traced.
pub(super) struct Tracing {
    strace: Child,
    written: NamedTempFile,
}

impl Tracing {
    /// Lets every call pass.
    pub(super) fn watch(process: Option<Pid>) -> Result<Self> {
        Self::start(process, &[format!("trace={}", CALLS.join(","))])
    }

    /// Lets this call number of each process fail.
    pub(super) fn fail(
        process: Option<Pid>,
        call: &str,
        number: usize,
        error: &str,
    ) -> Result<Self> {
        let rules = [
            format!("trace={call}"),
            format!("inject={call}:error={error}:when={number}"),
        ];
        Self::start(process, &rules)
    }

    fn start(process: Option<Pid>, rules: &[String]) -> Result<Self> {
        let process = process.context("nobody to trace")?.as_raw_nonzero();
        let written = NamedTempFile::new().context("no file")?;
        let mut strace = Command::new("strace");
        strace.args(["-f", "-q", "-o"]).arg(written.path());
        strace.args(["-p", &process.to_string()]);
        for rule in rules {
            strace.args(["-e", rule]);
        }
        strace
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let strace = strace.spawn().context("cannot start strace")?;
        let tracing = Self { strace, written };
        let end = Instant::now() + HOLD_WAIT;
        let path = format!("/proc/{process}/status");
        while !std::fs::read_to_string(&path)
            .is_ok_and(|status| !status.contains("TracerPid:\t0\n"))
        {
            ensure!(Instant::now() < end, "strace does not hold the process");
            std::thread::sleep(Duration::from_millis(2));
        }
        Ok(tracing)
    }

    /// Whoever is traced goes on by itself.
    pub(super) fn let_go(&mut self) {
        // One that has ended lets nobody go any more.
        let _gone = self.strace.kill();
    }

    /// Lets go; the most calls of each kind that one process made.
    pub(super) fn end(mut self) -> Result<BTreeMap<String, usize>> {
        let mut counts = BTreeMap::<(String, String), usize>::new();
        for line in self.lines()?.lines() {
            let Some((process, rest)) = line.split_once(' ') else {
                continue;
            };
            // What another's line interrupts has two lines; the first alone begins with the call.
            if let Some((call, _)) = rest.trim_start().split_once('(')
                && CALLS.contains(&call)
            {
                *counts
                    .entry((call.to_owned(), process.to_owned()))
                    .or_default() += 1;
            }
        }
        let mut most = BTreeMap::new();
        for ((call, _), count) in counts {
            let kept = most.entry(call).or_insert(count);
            *kept = count.max(*kept);
        }
        Ok(most)
    }

    /// Lets go; how many calls were refused.
    pub(super) fn end_of_failing(mut self) -> Result<usize> {
        Ok(self.lines()?.matches(INJECTED).count())
    }

    fn lines(&mut self) -> Result<String> {
        let number = i32::try_from(self.strace.id()).ok().and_then(Pid::from_raw);
        let Some(pid) = number else {
            bail!("strace has no number");
        };
        // One whose process has ended has ended too.
        let _gone = kill_process(pid, Signal::INT);
        // One that waits for a child that it lost does not hear that; killed, it lets all go.
        let end = Instant::now() + END_WAIT;
        while self.strace.try_wait().context("strace")?.is_none() {
            if Instant::now() > end {
                self.let_go();
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        std::fs::read_to_string(self.written.path()).context("what strace wrote")
    }
}

impl Drop for Tracing {
    fn drop(&mut self) {
        // Already collected, unless something failed before.
        let _gone = (self.strace.kill(), self.strace.wait());
    }
}
