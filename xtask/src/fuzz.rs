// SPDX-License-Identifier: Apache-2.0
//! Fuzz smoke on stable: the stage's `fuzz` example feeds every hostile parser its committed inputs
//! and mutations of them, one process for each target, so that one failure hides no other.

use crate::packages::Graph;
use crate::shell;
use anyhow::{Result, bail};
use std::path::Path;

/// LIMIT: for one target; seven of them fit into a CI run.
pub(crate) const SECONDS_DEFAULT: u64 = 20;

/// Runs every target for so long.
pub(crate) fn run(root: &Path, seconds: u64) -> Result<()> {
    let build = ["build", "--locked", "--workspace", "--examples"];
    shell::run(shell::cargo(root).args(build))?;
    let fuzz = Graph::load(root)?.target.join("debug/examples/fuzz");
    let targets = shell::output(shell::program(&fuzz).arg("list"))?;
    let mut failed = Vec::new();
    for target in targets.split_whitespace() {
        let limit = seconds.to_string();
        let run = shell::program(&fuzz).args(["run", target, &limit]).status();
        if !run.is_ok_and(|status| status.success()) {
            failed.push(target);
        }
    }
    if failed.is_empty() {
        Ok(())
    } else {
        bail!("targets that failed: {}", failed.join(", "))
    }
}
