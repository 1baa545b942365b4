// SPDX-License-Identifier: Apache-2.0
//! The command lines of raw runtimes and bubblewrap that run `true`, and the clock for them.

use crate::bundle::Network;
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use torno_sandbox::{Runtime, RuntimeKind};
use torno_stage::daemon::{Daemon, binaries};

/// What `torno-clock` puts the number of a run for.
pub const NUMBER: &str = "@N@";
/// Where hybrid hosts have the second version of cgroups. crun refuses such hosts; Torno hides it
/// from crun, and so do we.
const HYBRID: &str = "/sys/fs/cgroup/unified";

/// A raw runtime's words for one bundle.
#[must_use]
pub fn words(runtime: &Runtime, bundle: &Path, state: &Path, network: Network) -> Vec<String> {
    let stack = match network {
        Network::Own => "none",
        Network::Callers => "host",
    };
    let bundle = bundle.display().to_string();
    let state = state.display().to_string();
    let name = format!("bench-{NUMBER}");
    let words: Vec<&str> = match runtime.kind {
        RuntimeKind::Crun => vec![
            "--root",
            &state,
            "--cgroup-manager",
            "disabled",
            "run",
            "--no-new-keyring",
            "--bundle",
            &bundle,
            &name,
        ],
        RuntimeKind::Runc => vec![
            "--root",
            &state,
            "run",
            "--no-new-keyring",
            "--bundle",
            &bundle,
            &name,
        ],
        RuntimeKind::Runsc => vec![
            "-root",
            &state,
            "-platform",
            "systrap",
            "-network",
            stack,
            "-ignore-cgroups",
            "-overlay2",
            "none",
            "-host-uds",
            "none",
            "run",
            "-bundle",
            &bundle,
            &name,
        ],
    };
    let program = runtime.path.display().to_string();
    std::iter::once(program)
        .chain(words.into_iter().map(str::to_owned))
        .collect()
}

/// bubblewrap with every namespace, the host's `/usr`, and memory for the rest.
#[must_use]
pub fn bubblewrap(program: &Path) -> Vec<String> {
    let words = "--unshare-all --die-with-parent --ro-bind /usr /usr --symlink usr/bin /bin \
        --symlink usr/lib /lib --symlink usr/lib64 /lib64 --proc /proc --dev /dev --tmpfs /tmp \
        --tmpfs /run --tmpfs /home/agent -- /usr/bin/true";
    let program = program.display().to_string();
    std::iter::once(program)
        .chain(words.split_whitespace().map(str::to_owned))
        .collect()
}

/// How a command is run: how often, and after which pause each time.
#[derive(Debug, Clone, Copy)]
pub struct Runs {
    /// How often.
    pub count: u32,
    /// Milliseconds before each.
    pub pause_ms: u32,
}

/// Runs a command so often, and returns the wall time of each in milliseconds.
///
/// # Errors
/// When one of them fails.
pub fn clock(
    runs: Runs,
    words: &[String],
    kind: Option<RuntimeKind>,
    daemon: &Daemon,
) -> Result<Vec<f64>> {
    let clock = binaries()?.join("torno-clock");
    let hides = kind == Some(RuntimeKind::Crun) && Path::new(HYBRID).exists();
    let mut command = if hides {
        let mut command = Command::new("unshare");
        let script = format!("umount {HYBRID} && exec \"$0\" \"$@\"");
        command
            .args(["--mount", "--", "sh", "-c", &script])
            .arg(clock);
        command
    } else {
        Command::new(clock)
    };
    let output = command
        .arg(runs.count.to_string())
        .arg(runs.pause_ms.to_string())
        .arg("--")
        .args(words)
        // Only torno looks at these.
        .current_dir(daemon.workspace())
        .env("TORNO_HOME", daemon.home())
        .stdin(Stdio::null())
        .output()
        .context("cannot start torno-clock")?;
    if !output.status.success() {
        bail!("{}", String::from_utf8_lossy(&output.stderr).trim());
    }
    serde_json::from_slice(&output.stdout).context("torno-clock printed no times")
}

/// A runtime of that name on the machine.
#[must_use]
pub fn find(name: &str) -> Option<Runtime> {
    let mut paths = torno_sandbox::Paths::default();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let directories: Vec<PathBuf> = std::env::split_paths(&path).collect();
    paths.search = directories.into_iter().chain(paths.search).collect();
    Runtime::find(&paths, name)
}
