// SPDX-License-Identifier: Apache-2.0
//! Who runs a Torno: the caller, or an ordinary user who is made for it as an administrator makes
//! one, and is gone with it. The user's lines in passwd(5), group(5) and subuid(5) lie in a mount
//! namespace of the user's own, so the machine's files are never touched.

use super::groups::Groups;
use anyhow::{Context, Result, ensure};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// Who runs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Who {
    /// Whoever runs this program: root in CI.
    Caller,
    /// An ordinary user with subordinate ids and delegated cgroups, and no capability. Only root
    /// can make one.
    User,
}

impl Who {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Caller, Self::User];

    /// In the names of skips.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Caller => "the caller",
            Self::User => "an ordinary user",
        }
    }
}

/// What an administrator may leave out; each has its refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Given {
    /// Rows in `/etc/subuid` and `/etc/subgid`.
    pub subordinate_ids: bool,
    /// Groups of the user's own in each cgroup hierarchy that limits need.
    pub groups: bool,
}

impl Given {
    /// Everything that is needed.
    pub const ALL: Self = Self {
        subordinate_ids: true,
        groups: true,
    };
}

/// The user's name.
const NAME: &str = "torno-stage";
/// Subordinate ids of one user: as distributions hand out.
const SUBORDINATE_IDS: u32 = 65_536;
/// Accounts' ids and their subordinate ones, apart from those that Torno takes as root.
const SUBORDINATE_FIRST: u32 = 0x5000_0000;
const ACCOUNT_FIRST: u32 = 0x4f00_0000;
/// LIMIT: accounts of live runs on one machine; the ranges of all fit between the two above and
/// Torno's own.
const ACCOUNTS_MAX: u32 = 8192;
/// Accounts that one process makes before it could meet the next process's.
const ACCOUNTS_OF_ONE: u32 = 64;
static NEXT: AtomicU32 = AtomicU32::new(0);

/// Lays the account's files over the machine's and shows the programs in a place that the user can
/// pass to; then the namespace is held until the standard input ends.
const HOLD: &str = r#"set -e
for file in passwd group subuid subgid; do mount --bind "$1/$file" "/etc/$file"; done
mount --bind "$2" "$3"
echo ready
read -r end || true"#;

/// Becomes the user where the files are, in the caller's directory; no capability is kept, and none
/// can come but by a program with the set-user-id bit.
const ENTER: &str = r#"namespace=$1 id=$2; shift 2
exec nsenter --mount="$namespace" --wdns="$PWD" -- \
    setpriv --reuid "$id" --regid "$id" --clear-groups --inh-caps=-all -- "$@""#;

/// An ordinary user, for one daemon.
#[derive(Debug)]
pub(super) struct Account {
    id: u32,
    holder: Child,
    programs: PathBuf,
    groups: Option<Groups>,
}

impl Account {
    /// Makes one whose home is this directory, with these programs.
    pub(super) fn make(home: &Path, binaries: &Path, given: Given) -> Result<Self> {
        ensure!(
            rustix::process::geteuid().is_root(),
            "not root, so no other user can be made"
        );
        let number = NEXT.fetch_add(1, Ordering::Relaxed) % ACCOUNTS_OF_ONE;
        let slot = (std::process::id() * ACCOUNTS_OF_ONE + number) % ACCOUNTS_MAX;
        let id = ACCOUNT_FIRST + slot;
        let files = home.join("account");
        let programs = home.join("programs");
        std::fs::create_dir(&programs).context("no directory of programs")?;
        let subordinate = given
            .subordinate_ids
            .then_some(SUBORDINATE_FIRST + slot * SUBORDINATE_IDS);
        write_files(&files, id, subordinate)?;
        let holder = hold(&files, binaries, &programs)?;
        let groups = given
            .groups
            .then(|| Groups::make(&format!("torno-stage-{id}"), id));
        Ok(Self {
            id,
            holder,
            programs,
            groups: groups.transpose()?,
        })
    }

    /// Gives the user a file or directory.
    pub(super) fn give(&self, path: &Path) -> Result<()> {
        chown(path, Some(self.id), Some(self.id))
            .with_context(|| format!("cannot give {} away", path.display()))
    }

    /// One of the programs, as the user; those that start sandboxes are put into the groups.
    pub(super) fn command(&self, name: &str, in_groups: bool) -> Command {
        let groups = self.groups.as_ref().filter(|_| in_groups);
        let join = groups.map(Groups::join).unwrap_or_default();
        let mut command = Command::new("/bin/sh");
        command
            .args(["-c", &format!("{join}\n{ENTER}"), "sh"])
            .arg(format!("/proc/{}/ns/mnt", self.holder.id()))
            .arg(self.id.to_string())
            .arg(self.programs.join(name));
        command
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        // Its standard input ends, and with it the namespace.
        drop(self.holder.stdin.take());
        let _reaped = self.holder.wait();
    }
}

/// The machine's own files and the user's lines.
fn write_files(directory: &Path, id: u32, subordinate: Option<u32>) -> Result<()> {
    std::fs::create_dir(directory).context("no directory for an account")?;
    let range = subordinate.map(|first| format!("{NAME}:{first}:{SUBORDINATE_IDS}\n"));
    let range = range.unwrap_or_default();
    for (name, line) in [
        (
            "passwd",
            format!("{NAME}:x:{id}:{id}::/nonexistent:/bin/sh\n"),
        ),
        ("group", format!("{NAME}:x:{id}:\n")),
        ("subuid", range.clone()),
        ("subgid", range),
    ] {
        let own = Path::new("/etc").join(name);
        let text = std::fs::read_to_string(&own)
            .with_context(|| format!("{} must be there to be laid over", own.display()))?;
        std::fs::write(directory.join(name), text + &line).context("no file of an account")?;
    }
    Ok(())
}

fn hold(files: &Path, binaries: &Path, programs: &Path) -> Result<Child> {
    let mut holder = Command::new("unshare")
        .args(["--mount", "--propagation", "private", "--"])
        .args(["/bin/sh", "-c", HOLD, "sh"])
        .args([files, binaries, programs])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot start unshare")?;
    let mut line = String::new();
    let stdout = holder.stdout.take().context("no output of unshare")?;
    BufReader::new(stdout)
        .read_line(&mut line)
        .context("cannot read from unshare")?;
    if line.trim() == "ready" {
        return Ok(holder);
    }
    let _dead = holder.kill();
    let _reaped = holder.wait();
    anyhow::bail!("a mount namespace for an account could not be made")
}
