// SPDX-License-Identifier: Apache-2.0
//! The vault of a story: made, filled and bound as an operator does it.

use super::{Daemon, text};
use crate::world::{API, GIT, World, random};
use anyhow::{Context, Result};

/// Paths that the API's token is bound to. `/v1/keys`, which mints keys, is not among them.
const API_PATHS: [&str; 10] = [
    "/v1/me",
    "/v1/items",
    "/echo",
    "/store",
    "/fetch",
    "/upload",
    "/redirect",
    "/cookie",
    "/stream",
    "/public/**",
];

impl Daemon {
    /// Starts it again by other settings (`tornod.toml`), its vault open.
    ///
    /// # Errors
    /// When it does not come up.
    pub fn set_again(&mut self, settings: &str) -> Result<()> {
        self.down();
        self.write_settings(settings)?;
        self.up()?;
        self.unseal()
    }

    /// Opens its vault.
    ///
    /// # Errors
    /// When the vault is not opened.
    pub fn unseal(&self) -> Result<()> {
        let key = self.key_file();
        self.must(&["vault", "unseal", "--key-file", text(&key)?])?;
        Ok(())
    }

    pub(super) fn make_vault(&self, world: &World) -> Result<()> {
        self.write(&self.key_file(), &format!("{}{}", random()?, random()?))?;
        let key = self.key_file();
        self.must(&["vault", "init", "--key-file", text(&key)?])?;
        self.put("api", "sk-live-", &world.api_token)?;
        self.put("git", "ghp_", &world.git_token)?;
        let methods = ["--method", "GET", "--method", "POST"];
        let mut api = vec!["secret", "bind", "api", "--host", API];
        api.extend(methods);
        api.extend(API_PATHS.iter().flat_map(|path| ["--path", path]));
        self.must(&api)?;
        let mut git = vec!["secret", "bind", "git", "--host", GIT, "--basic", "agent"];
        git.extend(methods);
        git.extend(["--path", "/acme/app/**", "--path", "/acme/app.git/**"]);
        self.must(&git)?;
        Ok(())
    }

    /// Gives a credential a new value.
    ///
    /// # Errors
    /// When `torno secret rotate` refuses.
    pub fn rotate(&self, name: &str, value: &str) -> Result<()> {
        let file = self.home.path().join("outside/value");
        std::fs::write(&file, value).context("no file for a value")?;
        let done = self.must(&["secret", "rotate", name, "--file", text(&file)?]);
        std::fs::remove_file(&file).context("the value's file stays")?;
        done.map(|_| ())
    }

    /// Puts a credential into the vault, by a file that is gone afterwards.
    ///
    /// # Errors
    /// When `torno secret put` refuses.
    pub fn put(&self, name: &str, shape: &str, value: &str) -> Result<()> {
        let file = self.home.path().join("outside/value");
        self.write(&file, value)?;
        let done = self.must(&[
            "secret",
            "put",
            name,
            "--shape",
            shape,
            "--file",
            text(&file)?,
        ]);
        std::fs::remove_file(&file).context("the value's file stays")?;
        done.map(|_| ())
    }
}
