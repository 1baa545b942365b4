// SPDX-License-Identifier: Apache-2.0
//! The daemon's own settings, `tornod.toml`: what it costs, never what it allows. Read once, before
//! any role starts; without the file the defaults hold.
//!
//! ```toml
//! pool = 1       # sandboxes that wait for each kind of session that ran last; 0 makes none ahead
//! kvm = true     # machines are tried on KVM; false emulates them though there is one
//! templates = 2  # booted machines from which the next ones are restored; 0 boots every machine
//! checkpoints = 16       # of sessions' workspaces that are kept at once; 0 keeps none
//! checkpoint_mib = 4096  # that all of them may hold
//! checkpoint_days = 30   # after which `torno gc` takes one for forgotten
//! ```

use crate::upstreams::read_bounded;
use anyhow::{Context, ensure};
use serde::Deserialize;
use std::path::Path;

/// LIMIT: sandboxes that wait for one kind of session; the launcher bounds all of them together.
const POOL_MAX: usize = 8;
/// LIMIT: each holds some 100 MiB.
const TEMPLATES_MAX: usize = 8;

/// LIMIT: all of them are named in one packet.
const CHECKPOINTS_MAX: usize = 256;

/// The settings.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Settings {
    /// Sandboxes that are made ahead for each shape.
    pub(crate) pool: usize,
    /// Machines are tried on KVM when their level is named.
    pub(crate) kvm: bool,
    /// Templates of machines that are kept.
    pub(crate) templates: usize,
    /// Checkpoints that are kept.
    pub(crate) checkpoints: usize,
    /// MiB that they may hold.
    pub(crate) checkpoint_mib: u64,
    /// Days after which one counts as forgotten.
    pub(crate) checkpoint_days: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            pool: 1,
            kvm: true,
            templates: 2,
            checkpoints: 16,
            checkpoint_mib: 4096,
            checkpoint_days: 30,
        }
    }
}

impl Settings {
    /// Reads the file.
    ///
    /// # Errors
    /// When it can't be read, others may write it, or it says what is no setting.
    pub(crate) fn load(path: &Path) -> anyhow::Result<Self> {
        let Some(text) = read_bounded(path)? else {
            return Ok(Self::default());
        };
        let settings = Self::parse(&text);
        settings.with_context(|| format!("`{}`", path.display()))
    }

    fn parse(text: &str) -> anyhow::Result<Self> {
        let settings: Self = toml::from_str(text)?;
        ensure!(
            settings.pool <= POOL_MAX,
            "`pool` is {}, and {POOL_MAX} is the most: write a smaller number",
            settings.pool
        );
        ensure!(
            settings.templates <= TEMPLATES_MAX,
            "`templates` is {}, and {TEMPLATES_MAX} is the most: write a smaller number",
            settings.templates
        );
        ensure!(
            settings.checkpoints <= CHECKPOINTS_MAX,
            "`checkpoints` is {}, and {CHECKPOINTS_MAX} is the most: write a smaller number",
            settings.checkpoints
        );
        Ok(settings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_file_one_of_each_shape_waits_and_zero_makes_none() {
        let none = Settings::load(Path::new("/nonexistent/tornod.toml")).unwrap();
        assert_eq!((none.pool, none.kvm, none.templates), (1, true, 2));
        assert_eq!(Settings::parse("").unwrap(), none);
        assert_eq!(Settings::parse("pool = 0").unwrap().pool, 0);
        assert!(!Settings::parse("kvm = false").unwrap().kvm);
        assert_eq!(Settings::parse("templates = 0").unwrap().templates, 0);
    }

    #[test]
    fn what_is_no_setting_is_refused() {
        for bad in [
            "pool = 9",
            "templates = 9",
            "checkpoints = 257",
            "checkpoint_mib = -1",
            "pool = -1",
            "pool = \"1\"",
            "pools = 1",
            "kvm = 1",
        ] {
            assert!(Settings::parse(bad).is_err(), "{bad}");
        }
    }
}
