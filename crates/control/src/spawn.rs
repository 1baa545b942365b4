// SPDX-License-Identifier: Apache-2.0
//! Starting a role: this binary again, with an empty environment, one descriptor, its own user.

use crate::roles::Role;
use anyhow::Context;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use torno_control_api::channel;

/// The user a role runs as, where the daemon is root.
#[derive(Debug, Clone, Copy)]
pub(crate) struct User {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
}

/// A started role and the supervisor's end of its channel.
pub(crate) struct Spawned {
    pub(crate) child: Child,
    pub(crate) channel: OwnedFd,
}

/// Starts a role. `user` is given only when the daemon is root.
pub(crate) fn spawn(role: Role, user: Option<User>, log: &str) -> anyhow::Result<Spawned> {
    let (ours, theirs) = channel::pair().context("socket pair")?;
    let mut command = Command::new("/proc/self/exe");
    command.arg0(format!("tornod-{role}"));
    command.args(["role", role.name()]);
    command.env_clear().env("TORNO_LOG", log);
    command
        .stdin(Stdio::from(theirs))
        .stdout(Stdio::null())
        .stderr(Stdio::inherit());
    command.current_dir("/");
    if let Some(user) = user {
        // std also clears the supplementary groups when it changes the user as root.
        command.uid(user.uid).gid(user.gid);
    }
    let child = command
        .spawn()
        .with_context(|| format!("can't start the {role}"))?;
    Ok(Spawned {
        child,
        channel: ours,
    })
}
