// SPDX-License-Identifier: Apache-2.0
//! One session in which scripts run one after the other, each as a command of its own.

use crate::daemon::Daemon;
use crate::unwalled::PYTHON;
use anyhow::{Context, Result, ensure};

/// A session that waits for commands.
#[derive(Debug)]
pub struct Inside<'d> {
    daemon: &'d Daemon,
    session: String,
}

impl<'d> Inside<'d> {
    /// Starts it at a level, without a workspace.
    ///
    /// # Errors
    /// When it does not start; what `torno` said is in the message.
    pub fn start(daemon: &'d Daemon, level: &str) -> Result<Self> {
        let start = ["run", "--quiet", "--detach", "--workspace", "none"];
        let words = [&start[..], &["--isolation", level]].concat();
        let session = daemon.must(&words)?.trim().to_owned();
        ensure!(!session.is_empty(), "no session was named");
        Ok(Self { daemon, session })
    }

    /// Runs a script; what it wrote.
    ///
    /// # Errors
    /// When Torno refused to run it, which would prove nothing.
    pub fn run(&self, script: &str) -> Result<Vec<u8>> {
        let words = ["session", "exec", &self.session, "--", PYTHON, "-c", script];
        let output = self.daemon.torno(&words).output();
        let output = output.context("cannot start torno")?;
        let said = [output.stdout, output.stderr].concat();
        ensure!(
            !matches!(output.status.code(), Some(124 | 125 | 137)),
            "the session did not run it: {}",
            String::from_utf8_lossy(&said)
        );
        Ok(said)
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.session
    }

    /// Ends it.
    ///
    /// # Errors
    /// When `torno` says so.
    pub fn end(self) -> Result<()> {
        self.daemon.must(&["session", "stop", &self.session])?;
        Ok(())
    }
}
