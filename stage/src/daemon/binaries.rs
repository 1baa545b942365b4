// SPDX-License-Identifier: Apache-2.0
//! Where the shipped binaries lie, and which levels work with them.

use super::Daemon;
use crate::world::{API, OTHER};
use anyhow::{Context, Result, bail};
use std::path::PathBuf;

/// Where the shipped binaries lie: `TORNO_BINARIES`, or beside this program.
///
/// # Errors
/// When torno or tornod is not there.
pub fn binaries() -> Result<PathBuf> {
    let beside = || {
        let own = std::env::current_exe().ok()?;
        let directory = own.parent()?;
        let tests = directory.ends_with("deps");
        Some(
            if tests {
                directory.parent()?
            } else {
                directory
            }
            .to_path_buf(),
        )
    };
    let directory = std::env::var_os("TORNO_BINARIES")
        .map(PathBuf::from)
        .or_else(beside);
    let directory = directory.context("no directory of binaries")?;
    for name in ["torno", "tornod", "torno-guest"] {
        if !directory.join(name).is_file() {
            bail!(
                "{name} is not in {}; run `cargo xtask build`",
                directory.display()
            );
        }
    }
    Ok(directory)
}

/// Whether a level works here, by `torno doctor`; `Err` holds what is missing.
///
/// # Errors
/// When the desk does not answer.
pub fn works(daemon: &Daemon, level: &str) -> Result<std::result::Result<(), String>> {
    let run = daemon
        .run_in(level, &["--workspace", "none"], &["true"])
        .output();
    let output = run.context("cannot start torno")?;
    if output.status.success() {
        return Ok(Ok(()));
    }
    Ok(Err(String::from_utf8_lossy(&output.stderr)
        .trim()
        .replace('\n', "; ")))
}

/// The hosts that [`POLICY`] grants without a credential.
#[must_use]
pub fn granted_hosts() -> [&'static str; 2] {
    [API, OTHER]
}
