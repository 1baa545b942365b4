// SPDX-License-Identifier: Apache-2.0
//! What the launcher tells the agent on its command line, and the agent its keepers.

use std::path::PathBuf;

use anyhow::{Context as _, bail};
use rustix::process::{Gid, Uid};

/// What this process is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// The agent: init of the sandbox.
    Init,
    /// The parent of one exec's processes; started by the agent only.
    Keep,
}

/// The sandbox as far as the agent has to know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    /// Programs run as this user.
    pub(crate) uid: Uid,
    /// Programs run as this group, and no other.
    pub(crate) gid: Gid,
    /// File requests stay below this directory or `/tmp`.
    pub(crate) workspace: PathBuf,
    /// Further directories that programs may write to, where the mounts let them.
    pub(crate) writable: Vec<PathBuf>,
    /// Refuse to run anything where landlock's file rules don't hold.
    pub(crate) landlock_required: bool,
    /// The sandbox was made ahead: the host greets when a session has claimed it.
    pub(crate) made_ahead: bool,
}

impl Settings {
    /// Reads `init|keep --workload-uid N --workload-gid N [--workspace DIR] [--writable DIR]…
    /// [--require-landlock] [--made-ahead]`.
    pub(crate) fn parse(mut words: impl Iterator<Item = String>) -> anyhow::Result<(Role, Self)> {
        let role = match words.next().as_deref() {
            Some("init") => Role::Init,
            Some("keep") => Role::Keep,
            _ => {
                bail!("the first argument must be `init`; this program is started by the launcher")
            }
        };
        let (mut uid, mut gid) = (None, None);
        let mut workspace = PathBuf::from("/workspace");
        let mut writable = Vec::new();
        let mut landlock_required = false;
        let mut made_ahead = false;
        while let Some(word) = words.next() {
            let mut value = || {
                words
                    .next()
                    .with_context(|| format!("`{word}` wants a value"))
            };
            match word.as_str() {
                "--workload-uid" => uid = Some(parse_id(&value()?)?),
                "--workload-gid" => gid = Some(parse_id(&value()?)?),
                "--workspace" => workspace = parse_directory(&value()?)?,
                "--writable" => writable.push(parse_directory(&value()?)?),
                "--require-landlock" => landlock_required = true,
                "--made-ahead" => made_ahead = true,
                _ => bail!("unknown argument `{word}`; see the launcher's plan"),
            }
        }
        let uid = Uid::from_raw(uid.context("`--workload-uid` is missing")?);
        let gid = Gid::from_raw(gid.context("`--workload-gid` is missing")?);
        Ok((
            role,
            Self {
                uid,
                gid,
                workspace,
                writable,
                landlock_required,
                made_ahead,
            },
        ))
    }

    /// The command line of a keeper.
    pub(crate) fn keeper_words(&self) -> [String; 5] {
        let (uid, gid) = (self.uid.as_raw().to_string(), self.gid.as_raw().to_string());
        [
            "keep".into(),
            "--workload-uid".into(),
            uid,
            "--workload-gid".into(),
            gid,
        ]
    }
}

/// A number that isn't the kernel's "leave it as it is".
fn parse_id(text: &str) -> anyhow::Result<u32> {
    let id: u32 = text
        .parse()
        .with_context(|| format!("`{text}` is no user or group number"))?;
    if id == u32::MAX {
        bail!("`{text}` means `unchanged` to the kernel; name a real user or group");
    }
    Ok(id)
}

fn parse_directory(text: &str) -> anyhow::Result<PathBuf> {
    let path = PathBuf::from(text);
    let is_root = path.parent().is_none();
    if !path.is_absolute() || is_root || path.components().any(|part| part.as_os_str() == "..") {
        bail!("`{text}` must be an absolute path below `/`, without `..`");
    }
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> anyhow::Result<(Role, Settings)> {
        Settings::parse(line.split_whitespace().map(String::from))
    }

    #[test]
    fn a_full_command_line_is_read() {
        let (role, settings) = parse(
            "init --workload-uid 1000 --workload-gid 1001 --workspace /w --writable /a \
             --require-landlock --made-ahead",
        )
        .unwrap();
        assert_eq!(role, Role::Init);
        assert_eq!((settings.uid.as_raw(), settings.gid.as_raw()), (1000, 1001));
        assert_eq!(settings.workspace, PathBuf::from("/w"));
        assert_eq!(settings.writable, [PathBuf::from("/a")]);
        assert!(settings.landlock_required && settings.made_ahead);
    }

    #[test]
    fn odd_command_lines_are_refused() {
        for line in [
            "",
            "run",
            "init",
            "init --workload-uid 1",
            "init --workload-uid -1 --workload-gid 1",
            "init --workload-uid 4294967295 --workload-gid 1",
            "init --workload-uid 1 --workload-gid",
            "init --workload-uid 1 --workload-gid 1 --workspace w",
            "init --workload-uid 1 --workload-gid 1 --workspace /w/../etc",
            "init --workload-uid 1 --workload-gid 1 --verbose",
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
    }
}
