// SPDX-License-Identifier: Apache-2.0
//! Where a daemon's things lie, and the files that the stage puts there for whoever runs it.

use super::Daemon;
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};

impl Daemon {
    /// Writes a file of the workspace.
    ///
    /// # Errors
    /// When it can't be written.
    pub fn write_workspace(&self, name: &str, content: &str) -> Result<()> {
        self.write(&self.workspace().join(name), content)
    }

    /// Gives all that lies in the workspace to whoever runs this Torno.
    ///
    /// # Errors
    /// When it can't be given.
    pub fn give_workspace(&self) -> Result<()> {
        let mut ahead = vec![self.workspace()];
        while let Some(path) = ahead.pop() {
            self.give(&path)?;
            if path.is_dir() && !path.is_symlink() {
                let entries = std::fs::read_dir(&path).context("no directory")?;
                ahead.extend(entries.flatten().map(|entry| entry.path()));
            }
        }
        Ok(())
    }

    /// Writes the daemon's own settings; they count from its next start.
    ///
    /// # Errors
    /// When they can't be written.
    pub fn write_settings(&self, content: &str) -> Result<()> {
        self.write(&self.place("config").join("tornod.toml"), content)
    }

    /// Writes a file of whoever runs this Torno.
    pub(super) fn write(&self, path: &Path, content: &str) -> Result<()> {
        std::fs::write(path, content)
            .with_context(|| format!("cannot write {}", path.display()))?;
        self.give(path)
    }

    pub(super) fn make_directory(&self, name: &str) -> Result<()> {
        let path = self.home.path().join(name);
        std::fs::create_dir(&path).context("no directory")?;
        self.give(&path)
    }

    /// The id of the ordinary user who runs this Torno, if one does.
    #[must_use]
    pub fn user(&self) -> Option<u32> {
        self.account.as_ref().map(|account| account.id())
    }

    fn give(&self, path: &Path) -> Result<()> {
        if let Some(account) = &self.account {
            account.give(path)?;
        }
        Ok(())
    }

    /// `run`, `state` or `config`: with `TORNO_HOME` as they are, else `torno` in them (XDG).
    pub(super) fn place(&self, name: &str) -> PathBuf {
        let place = self.home.path().join(name);
        match self.account {
            None => place,
            Some(_) => place.join("torno"),
        }
    }

    /// The directory of the stores.
    #[must_use]
    pub fn state(&self) -> PathBuf {
        self.place("state")
    }

    /// The directory of its sockets.
    #[must_use]
    pub fn run_directory(&self) -> PathBuf {
        self.place("run")
    }

    /// The directory of the sessions' workspace copies.
    #[must_use]
    pub fn sandboxes(&self) -> PathBuf {
        self.state().join("sandboxes")
    }

    /// The directory that everything of this Torno lies in.
    #[must_use]
    pub fn home(&self) -> &Path {
        self.home.path()
    }

    /// The vault's key file.
    #[must_use]
    pub fn key_file(&self) -> PathBuf {
        self.home.path().join("outside/unseal.key")
    }

    /// The workspace of this Torno's runs.
    #[must_use]
    pub fn workspace(&self) -> PathBuf {
        self.home.path().join("workspace")
    }

    /// The record's directory.
    #[must_use]
    pub fn record(&self) -> PathBuf {
        self.state().join("notary/record")
    }

    /// The daemon's log.
    #[must_use]
    pub fn log(&self) -> PathBuf {
        self.state().join("tornod.log")
    }

    /// What the daemon logged so far.
    #[must_use]
    pub fn log_text(&self) -> String {
        let bytes = std::fs::read(self.log()).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}
