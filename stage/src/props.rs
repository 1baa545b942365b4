// SPDX-License-Identifier: Apache-2.0
//! What attempts on the host aim at: a file with a secret, a place to drop a file, a process to
//! kill, Torno's own directory.

use crate::canary::Canary;
use crate::world::{World, random};
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

/// The props of one run.
#[derive(Debug)]
pub struct Props {
    directory: TempDir,
    secret: String,
    victim: Child,
    torno_home: PathBuf,
    key_file: PathBuf,
    sink_port: u16,
}

impl Props {
    /// Lays them out.
    ///
    /// # Errors
    /// When a file or the process can't be made.
    pub fn new(world: &World, torno_home: &Path, key_file: &Path) -> Result<Self> {
        let directory = tempfile::Builder::new()
            .prefix("torno-props-")
            .tempdir()
            .context("no temporary directory")?;
        let secret = format!("host-secret-{}", random()?);
        std::fs::write(directory.path().join("secret"), &secret).context("no file")?;
        let victim = victim(&secret)?;
        Ok(Self {
            directory,
            secret,
            victim,
            torno_home: torno_home.to_path_buf(),
            key_file: key_file.to_path_buf(),
            sink_port: world.evil.address.port(),
        })
    }

    /// The host's secret, as a canary.
    #[must_use]
    pub fn canary(&self) -> Canary {
        Canary::new("the host's secret", &self.secret)
    }

    /// A script with its places filled in.
    #[must_use]
    pub fn fill(&self, script: &str) -> String {
        let place = |path: &Path| path.display().to_string();
        script
            .replace("@HOST_FILE@", &place(&self.directory.path().join("secret")))
            .replace("@DROP_FILE@", &place(&self.dropped()))
            .replace("@VICTIM@", &self.victim.id().to_string())
            .replace("@TORNO_HOME@", &place(&self.torno_home))
            .replace("@KEY_FILE@", &place(&self.key_file))
            .replace("@SINK_PORT@", &self.sink_port.to_string())
    }

    /// Whether the victim has died; a new one stands in its place then.
    ///
    /// # Errors
    /// When no new one can be started.
    pub fn victim_died(&mut self) -> Result<bool> {
        // A signal takes a moment to be a death.
        for _ in 0..10 {
            if self
                .victim
                .try_wait()
                .context("cannot look at the victim")?
                .is_some()
            {
                self.victim = victim(&self.secret)?;
                return Ok(true);
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        Ok(false)
    }

    /// Whether the file was dropped; it is taken away then.
    #[must_use]
    pub fn file_appeared(&self) -> bool {
        std::fs::remove_file(self.dropped()).is_ok()
    }

    fn dropped(&self) -> PathBuf {
        self.directory.path().join("dropped")
    }
}

impl Drop for Props {
    fn drop(&mut self) {
        let _dead = self.victim.kill();
        let _reaped = self.victim.wait();
    }
}

fn victim(secret: &str) -> Result<Child> {
    Command::new("/bin/sleep")
        .arg("3600")
        .env_clear()
        .env("HOST_SECRET", secret)
        .stdin(Stdio::null())
        .spawn()
        .context("cannot start a victim")
}
