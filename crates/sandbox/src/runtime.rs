// SPDX-License-Identifier: Apache-2.0
//! The OCI runtimes: which one is here, in which version, and the words it is called with.

use crate::facts::Paths;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// A family of runtimes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RuntimeKind {
    /// crun.
    Crun,
    /// runc.
    Runc,
    /// gVisor's runsc.
    Runsc,
}

impl RuntimeKind {
    /// The program's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Crun => "crun",
            Self::Runc => "runc",
            Self::Runsc => "runsc",
        }
    }
}

/// A runtime on this host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Runtime {
    /// Its family.
    pub kind: RuntimeKind,
    /// Where it lies.
    pub path: PathBuf,
    /// What it says of itself, the first line.
    pub version: String,
}

/// Where a runtime finds its things in the staging mount namespace.
pub(crate) const BUNDLE: &str = "/run/bundle";
pub(crate) const STATE: &str = "/run/state";
pub(crate) const PID_FILE: &str = "/run/pid";
pub(crate) const LOG: &str = "/run/runtime.log";
/// The sandbox's root directory in the staging mount namespace.
pub(crate) const ROOT: &str = "/run/rootfs";
/// How a user-space kernel comes to files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileAccess {
    /// Its gofer opens them, in whose mount namespace the mounts of file rules are local. By the
    /// kernel's process, which is in another one and faster, a covered place could be renamed, and
    /// the cover would fall off.
    pub(crate) by_gofer: bool,
    /// They change from outside: what it knows of a file is asked for anew each time.
    pub(crate) shared: bool,
}

/// LIMIT: a version's line.
const VERSION_CHARACTERS_MAX: usize = 200;

impl Runtime {
    /// Finds the program and asks for its version.
    #[must_use]
    pub fn find(paths: &Paths, name: &str) -> Option<Self> {
        let kind = match name {
            "crun" => RuntimeKind::Crun,
            "runc" => RuntimeKind::Runc,
            "runsc" => RuntimeKind::Runsc,
            _ => return None,
        };
        let path = std::fs::canonicalize(paths.find(name)?).ok()?;
        let output = Command::new(&path)
            .arg("--version")
            .env_clear()
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .output()
            .ok()?;
        let text = String::from_utf8_lossy(&output.stdout);
        let version = text
            .lines()
            .next()?
            .chars()
            .take(VERSION_CHARACTERS_MAX)
            .collect();
        Some(Self {
            kind,
            path,
            version,
        })
    }

    /// The arguments that start sandbox `id` and return once its first process runs, which has so
    /// many descriptors further than the standard three. None of a user-space kernel's has.
    #[must_use]
    pub(crate) fn arguments(&self, id: &str, files: FileAccess, further: usize) -> Vec<String> {
        let words: &[&str] = match self.kind {
            RuntimeKind::Crun => &[
                "--root",
                STATE,
                "--log",
                LOG,
                "--cgroup-manager",
                "disabled",
                "run",
                "--detach",
                "--no-new-keyring",
                "--bundle",
                BUNDLE,
                "--pid-file",
                PID_FILE,
            ],
            RuntimeKind::Runc => &[
                "--root",
                STATE,
                "--log",
                LOG,
                "run",
                "--detach",
                "--no-new-keyring",
                "--bundle",
                BUNDLE,
                "--pid-file",
                PID_FILE,
            ],
            RuntimeKind::Runsc => &[
                "-root",
                STATE,
                "-log",
                LOG,
                "-platform",
                "systrap",
                "-network",
                "host",
                "-ignore-cgroups",
                "-overlay2",
                "none",
                "-host-uds",
                "none",
                "run",
                "-detach",
                "-bundle",
                BUNDLE,
                "-pid-file",
                PID_FILE,
            ],
        };
        let is_kernel = self.kind == RuntimeKind::Runsc;
        let by_gofer = (is_kernel && files.by_gofer).then_some("-directfs=false");
        let shared = (is_kernel && files.shared).then_some("-file-access=shared");
        by_gofer
            .into_iter()
            .chain(shared)
            .chain(words.iter().copied())
            .map(str::to_owned)
            .chain((further > 0).then(|| format!("--preserve-fds={further}")))
            .chain([id.to_owned()])
            .collect()
    }
}
