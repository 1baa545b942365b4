// SPDX-License-Identifier: Apache-2.0
//! What a caller asks for: one sandbox, as data. No descriptor, no host state: those come at the
//! start.

use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use thiserror::Error;
use torno_policy::grant::{FileRules, Limits};

/// Characters of a sandbox's identifier: 128 random bits in base32.
pub(crate) const ID_CHARACTERS: usize = 26;
/// Host ids that one sandbox owns.
pub const UID_RANGE: u32 = 65_536;
/// The uid and gid that everything inside runs as.
pub const INSIDE_UID: u32 = 1000;

/// Nobody inside, whom files of ids that aren't mapped seem to belong to.
pub(crate) const NOBODY: u32 = 65_534;

/// Which ids outside stand for those inside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IdMap {
    /// [`UID_RANGE`] ids in a row.
    Range(u32),
    /// Root, the agent and nobody alone, in a row outside.
    Three(u32),
}

impl IdMap {
    /// The agent's id outside.
    pub(crate) fn agent(self) -> u32 {
        match self {
            Self::Range(base) => base + INSIDE_UID,
            Self::Three(base) => base + 1,
        }
    }

    /// Pieces of the map: id inside, id outside, number of ids.
    pub(crate) fn pieces(self) -> Vec<(u32, u32, u32)> {
        match self {
            Self::Range(base) => vec![(0, base, UID_RANGE)],
            Self::Three(base) => {
                vec![
                    (0, base, 1),
                    (INSIDE_UID, base + 1, 1),
                    (NOBODY, base + 2, 1),
                ]
            }
        }
    }
}

/// One sandbox; never reused.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SandboxId(String);

/// The text is not an identifier of a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("a sandbox's identifier has 26 characters of a-z and 0-9")]
pub struct SandboxIdError;

impl SandboxId {
    /// Reads 26 characters of `a-z 0-9`.
    ///
    /// # Errors
    /// [`SandboxIdError`] for anything else.
    pub fn parse(text: &str) -> Result<Self, SandboxIdError> {
        let ok = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        if text.len() == ID_CHARACTERS && text.bytes().all(ok) {
            Ok(Self(text.to_owned()))
        } else {
            Err(SandboxIdError)
        }
    }

    /// The spelling.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SandboxId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The boundary, by name. `strongest` is resolved by the caller from [`crate::probe`]'s answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Level {
    /// The host's kernel, by crun or runc.
    Container,
    /// A user-space kernel, by runsc.
    Gvisor,
    /// Its own guest kernel on hardware virtualisation: not built yet, refused.
    Microvm,
    /// A full machine: not built yet, refused.
    Vm,
}

impl Level {
    /// The name in documents and records.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Container => "container",
            Self::Gvisor => "gvisor",
            Self::Microvm => "microvm",
            Self::Vm => "vm",
        }
    }
}

/// How the workspace comes in. Its descriptor is given to [`crate::start()`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Workspace {
    /// Empty, in memory.
    None,
    /// A directory that was filled for this sandbox and is given to its uid range.
    Copy,
    /// The same; files of it change from outside while the sandbox runs.
    Shared,
}

/// A further host directory, read-only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AlsoDirectory {
    /// Where it lies on the host: absolute, without `.` and `..`.
    pub host: PathBuf,
    /// Where it appears inside: absolute, below `/home/agent`, `/opt`, `/srv` or `/usr/local`.
    pub inside: PathBuf,
}

/// An unpacked image, which stands in for the host's `/usr`. It must stay where it is as long as
/// the sandbox lives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageTree {
    /// Its root directory on the host: absolute, no link on the way.
    pub root: PathBuf,
    /// What lies in its top directory, in its `etc`, and `var/lib`; hostile names and targets.
    pub parts: Vec<(PathBuf, ImagePart)>,
    /// Variables that its programs want.
    pub env: Vec<(String, String)>,
    /// The same as a machine's disk, once that is made ([`crate::make_disk`]).
    pub disk: Option<PathBuf>,
}

/// What lies at a place of an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ImagePart {
    /// A directory.
    Directory,
    /// A regular file.
    File,
    /// A symbolic link, and its target.
    Link(String),
}

/// A file that lies in the home directory from the start, the workload's own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HomeFile {
    /// Where below the home directory: plain parts, at most one directory.
    pub below: PathBuf,
    /// What it says.
    pub text: String,
}

/// The program that becomes the first process inside: bytes that hashed to what the caller named.
#[derive(Clone, PartialEq, Eq)]
pub struct VerifiedGuest {
    bytes: Arc<[u8]>,
    sha256: String,
}

/// Why a guest program is not used.
#[derive(Debug, Error)]
pub enum GuestError {
    /// The file.
    #[error("guest program `{0}` can't be read")]
    Read(PathBuf, #[source] io::Error),
    /// Its size.
    #[error("guest program `{0}` is larger than {GUEST_BYTES_MAX} bytes")]
    Size(PathBuf),
    /// Its bytes.
    #[error(
        "guest program `{0}` is not the one that belongs to this version: install both together"
    )]
    Digest(PathBuf),
}

/// LIMIT: the agent has about 1.3 MB; it is copied into each sandbox.
const GUEST_BYTES_MAX: u64 = 64 << 20;

impl VerifiedGuest {
    /// Reads the file once and checks its bytes; what is checked is what later runs.
    ///
    /// # Errors
    /// [`GuestError`] when it can't be read or its SHA-256 (lower-case hex) is another.
    pub fn load(path: &Path, sha256: &str) -> Result<Self, GuestError> {
        let found = Self::of_the_host(path)?;
        if found.sha256 == sha256 {
            Ok(found)
        } else {
            Err(GuestError::Digest(path.to_owned()))
        }
    }

    /// A program of the host's own `/usr`, trusted as the host is.
    pub(crate) fn of_the_host(path: &Path) -> Result<Self, GuestError> {
        let mut bytes = Vec::new();
        File::open(path)
            .and_then(|file| file.take(GUEST_BYTES_MAX + 1).read_to_end(&mut bytes))
            .map_err(|error| GuestError::Read(path.to_owned(), error))?;
        if !u64::try_from(bytes.len()).is_ok_and(|length| length <= GUEST_BYTES_MAX) {
            return Err(GuestError::Size(path.to_owned()));
        }
        let sha256 = HEXLOWER.encode(&Sha256::digest(&bytes));
        Ok(Self {
            bytes: bytes.into(),
            sha256,
        })
    }

    pub(crate) fn bytes(&self) -> Arc<[u8]> {
        self.bytes.clone()
    }
}

impl fmt::Debug for VerifiedGuest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("VerifiedGuest").field(&self.sha256).finish()
    }
}

/// The arguments of `torno-guest` as init of a sandbox of that level.
#[must_use]
pub fn agent_arguments(level: Level) -> Vec<String> {
    let id = INSIDE_UID.to_string();
    let mut words = vec!["init", "--workload-uid", &id, "--workload-gid", &id];
    for directory in ["/home/agent", "/run", "/dev/shm"] {
        words.extend(["--writable", directory]);
    }
    if level == Level::Container {
        words.push("--require-landlock");
    }
    words.into_iter().map(str::to_owned).collect()
}

/// Where the guest program lies inside.
pub const GUEST_PATH: &str = "/.torno/torno-guest";

/// One sandbox, as asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxSpec {
    /// Its name.
    pub id: SandboxId,
    /// Its boundary.
    pub level: Level,
    /// Further host directories.
    pub also: Vec<AlsoDirectory>,
    /// How the workspace comes in.
    pub workspace: Workspace,
    /// File rules inside the workspace.
    pub files: FileRules,
    /// Variables besides the base ones: placeholders and plain settings, never a secret.
    pub env: Vec<(String, String)>,
    /// Hosts whose `git@host:` remotes are rewritten to HTTPS.
    pub git_hosts: Vec<String>,
    /// Limits, held from outside.
    pub limits: Limits,
    /// The session CA's certificate (public).
    pub ca_pem: String,
    /// What lies in the home directory from the start. Where a directory of `also` lies, it does
    /// not.
    pub home: Vec<HomeFile>,
    /// First id of the sandbox's own: [`UID_RANGE`] of the host's where the launcher is root, three
    /// of [`crate::SubordinateIds`] elsewhere; never 0's, never the user's.
    pub uid_base: u32,
    /// The first process.
    pub guest: VerifiedGuest,
    /// Its arguments after the program's name.
    pub guest_arguments: Vec<String>,
    /// Instead of the host's `/usr`.
    pub image: Option<ImageTree>,
}

/// Whether a path is absolute and has plain components only.
pub(crate) fn is_plain_absolute(path: &Path) -> bool {
    let mut components = path.components();
    components.next() == Some(Component::RootDir)
        && components.all(|part| matches!(part, Component::Normal(_)))
        && path
            .to_str()
            .is_some_and(|text| !text.contains(['\0', '\n']) && !text.ends_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identifier_is_26_lower_case_letters_and_digits() {
        assert!(SandboxId::parse("abcdefghijklmnopqrstuvwx23").is_ok());
        for bad in [
            "",
            "abc",
            "../defghijklmnopqrstuvwx23",
            "ABCDEFGHIJKLMNOPQRSTUVWX23",
        ] {
            assert_eq!(SandboxId::parse(bad), Err(SandboxIdError), "{bad}");
        }
    }

    #[test]
    fn a_plain_absolute_path_has_no_way_up() {
        assert!(is_plain_absolute(Path::new("/opt/tools")));
        for bad in ["opt", "/opt/../etc", "/", "/opt/", "/a\n"] {
            assert!(!is_plain_absolute(Path::new(bad)) || bad == "/", "{bad}");
        }
    }
}
