// SPDX-License-Identifier: Apache-2.0
//! Where things lie. Root: `/run/torno`, `/var/lib/torno`, `/etc/torno`. Anybody else: the XDG
//! directories (XDG Base Directory Specification). `TORNO_HOME` puts all three under one directory.

use std::path::{Path, PathBuf};

/// The three directories and the names in them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Paths {
    runtime: PathBuf,
    state: PathBuf,
    config: PathBuf,
}

/// What of the environment counts, read once by a `main`.
#[derive(Debug, Clone, Default)]
pub struct Surroundings {
    /// `TORNO_HOME`
    pub torno_home: Option<PathBuf>,
    /// `HOME`
    pub home: Option<PathBuf>,
    /// `XDG_RUNTIME_DIR`
    pub runtime: Option<PathBuf>,
    /// `XDG_STATE_HOME`
    pub state: Option<PathBuf>,
    /// `XDG_CONFIG_HOME`
    pub config: Option<PathBuf>,
    /// The effective uid is 0.
    pub root: bool,
}

impl Surroundings {
    /// Reads the process's own environment and uid.
    #[must_use]
    pub fn of_process() -> Self {
        let path = |name: &str| {
            std::env::var_os(name)
                .filter(|v| !v.is_empty())
                .map(PathBuf::from)
        };
        Self {
            torno_home: path("TORNO_HOME"),
            home: path("HOME"),
            runtime: path("XDG_RUNTIME_DIR"),
            state: path("XDG_STATE_HOME"),
            config: path("XDG_CONFIG_HOME"),
            root: rustix::process::geteuid().is_root(),
        }
    }
}

/// The environment names no usable place.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not set to an absolute path; set it, or set TORNO_HOME")]
pub struct PathsError(&'static str);

impl Paths {
    /// The places for these surroundings.
    ///
    /// # Errors
    /// When a needed variable is missing or relative.
    pub fn new(around: &Surroundings) -> Result<Self, PathsError> {
        if let Some(home) = &around.torno_home {
            let home = absolute(Some(home), "TORNO_HOME")?;
            return Ok(Self {
                runtime: home.join("run"),
                state: home.join("state"),
                config: home.join("config"),
            });
        }
        if around.root {
            return Ok(Self {
                runtime: PathBuf::from("/run/torno"),
                state: PathBuf::from("/var/lib/torno"),
                config: PathBuf::from("/etc/torno"),
            });
        }
        let home = absolute(around.home.as_ref(), "HOME")?;
        let state = around
            .state
            .clone()
            .unwrap_or_else(|| home.join(".local/state"));
        let config = around
            .config
            .clone()
            .unwrap_or_else(|| home.join(".config"));
        Ok(Self {
            runtime: absolute(around.runtime.as_ref(), "XDG_RUNTIME_DIR")?.join("torno"),
            state: state.join("torno"),
            config: config.join("torno"),
        })
    }

    /// Directory of sockets.
    #[must_use]
    pub fn runtime(&self) -> &Path {
        &self.runtime
    }
    /// Directory of stores.
    #[must_use]
    pub fn state(&self) -> &Path {
        &self.state
    }
    /// Directory of the operator's configuration.
    #[must_use]
    pub fn config(&self) -> &Path {
        &self.config
    }
    /// The desk's socket.
    #[must_use]
    pub fn desk_socket(&self) -> PathBuf {
        self.runtime.join("desk.sock")
    }
    /// The notary's own socket.
    #[must_use]
    pub fn notary_socket(&self) -> PathBuf {
        self.runtime.join("notary.sock")
    }
    /// The supervisor's kill-only socket.
    #[must_use]
    pub fn kill_socket(&self) -> PathBuf {
        self.runtime.join("kill.sock")
    }
    /// The operator's token.
    #[must_use]
    pub fn operator_token(&self) -> PathBuf {
        self.runtime.join("operator.token")
    }
    /// The notary's directory: store and record.
    #[must_use]
    pub fn notary_state(&self) -> PathBuf {
        self.state.join("notary")
    }
    /// The record's segments.
    #[must_use]
    pub fn record(&self) -> PathBuf {
        self.notary_state().join("record")
    }
    /// The launcher's directory: one folder for each live sandbox.
    #[must_use]
    pub fn sandboxes(&self) -> PathBuf {
        self.state.join("sandboxes")
    }
    /// Checkpoints of sessions' workspaces.
    #[must_use]
    pub fn checkpoints(&self) -> PathBuf {
        self.state.join("checkpoints")
    }
    /// The shelf of unpacked images.
    #[must_use]
    pub fn images(&self) -> PathBuf {
        self.state.join("images")
    }
    /// The operator's pinned upstreams and company proxy.
    #[must_use]
    pub fn upstreams(&self) -> PathBuf {
        self.config.join("upstreams.toml")
    }
    /// The daemon's own settings.
    #[must_use]
    pub fn settings(&self) -> PathBuf {
        self.config.join("tornod.toml")
    }
    /// The organisation's policy.
    #[must_use]
    pub fn organisation(&self) -> PathBuf {
        self.config.join("organisation.cedar")
    }
    /// What the daemon says when nobody watches.
    #[must_use]
    pub fn log(&self) -> PathBuf {
        self.state.join("tornod.log")
    }
}

fn absolute(path: Option<&PathBuf>, name: &'static str) -> Result<PathBuf, PathsError> {
    path.filter(|p| p.is_absolute())
        .cloned()
        .ok_or(PathsError(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_uses_the_system_and_a_person_the_xdg_directories() {
        let root = Paths::new(&Surroundings {
            root: true,
            ..Surroundings::default()
        })
        .unwrap();
        assert_eq!(root.desk_socket(), Path::new("/run/torno/desk.sock"));
        let person = Surroundings {
            home: Some("/home/a".into()),
            runtime: Some("/run/user/1000".into()),
            ..Surroundings::default()
        };
        let person = Paths::new(&person).unwrap();
        assert_eq!(
            person.record(),
            Path::new("/home/a/.local/state/torno/notary/record")
        );
    }

    #[test]
    fn a_relative_place_is_refused() {
        let around = Surroundings {
            torno_home: Some("here".into()),
            ..Surroundings::default()
        };
        assert_eq!(Paths::new(&around), Err(PathsError("TORNO_HOME")));
    }
}
