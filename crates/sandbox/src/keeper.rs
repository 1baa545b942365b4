// SPDX-License-Identifier: Apache-2.0
//! The keeper: a small process beside each sandbox that waits for the launcher's end of a pipe to
//! close and then ends the sandbox. It outlives a launcher that is killed; it has no other task.

use crate::cgroup::Cgroup;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::ffi::OsString;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};

/// A running keeper. Dropped, its pipe closes: it looks after the group once more and ends.
#[derive(Debug)]
pub(crate) struct Keeper {
    child: Child,
    process: OwnedFd,
}

impl Keeper {
    /// Starts `program keeper DIRECTORY…`.
    pub(crate) fn start(program: &Path, group: &Cgroup) -> io::Result<Self> {
        let child = Command::new(program)
            .arg("keeper")
            .args(group.directories())
            .env_clear()
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        // Not reaped before its drop, so the number is its own.
        let gone = || io::Error::other("a keeper without a number");
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        let process = pidfd_open(pid.ok_or_else(gone)?, PidfdFlags::empty())?;
        Ok(Self { child, process })
    }
}

impl Keeper {
    /// Readable once it has ended.
    pub(crate) fn process(&self) -> BorrowedFd<'_> {
        self.process.as_fd()
    }

    /// Lets it go once nobody lives in the group: it removes the group's directories beside the
    /// caller, and ends.
    pub(crate) fn dismiss(&mut self) {
        drop(self.child.stdin.take());
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.dismiss();
        // It has nothing to wait for but a group that is gone already.
        let _ = self.child.wait();
    }
}

/// What the caller's binary runs when it is called as `keeper DIRECTORY…`.
#[must_use]
pub fn keeper_main(directories: impl Iterator<Item = OsString>) -> ExitCode {
    let mut rest = [0_u8; 64];
    let mut stdin = io::stdin().lock();
    loop {
        match stdin.read(&mut rest) {
            Ok(0) => break,
            Err(error) if error.kind() != io::ErrorKind::Interrupted => break,
            Ok(_) | Err(_) => {}
        }
    }
    let group = Cgroup::of_directories(directories.map(PathBuf::from).collect());
    let survivors = if group.is_empty() {
        0
    } else {
        group.kill().alive_after
    };
    let removed = group.remove().is_ok();
    if survivors == 0 && removed {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
