// SPDX-License-Identifier: Apache-2.0
//! Who runs a Torno: the caller, or an ordinary user who is made for it as an administrator makes
//! one, and is gone with it. The user's lines in passwd(5), group(5) and subuid(5) lie in a mount
//! namespace of the user's own, so the machine's files are never touched.
//!
//! The sandbox's tests read this file too: it uses nothing but the standard library.

// Named, since a file that is read by its path looks for its parts beside itself.
#[path = "account/groups.rs"]
mod groups;

pub use groups::Groups;
use std::io::{self, BufRead, BufReader};
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
    /// newuidmap(1) and newgidmap(1).
    pub map_programs: bool,
}

impl Given {
    /// Everything that is needed.
    pub const ALL: Self = Self {
        subordinate_ids: true,
        groups: true,
        map_programs: true,
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

/// Lays the account's files over the machine's, shows the programs in a place that the user can
/// pass to, and hides what was not given; then the namespace is held until the standard input ends.
const HOLD: &str = r#"set -e
for file in passwd group subuid subgid; do mount --bind "$1/$file" "/etc/$file"; done
mount --bind "$2" "$3"
shift 3
for hidden in "$@"; do mount --bind /dev/null "$hidden"; done
echo ready
read -r end || true"#;

/// Becomes the user where the files are, in the caller's directory; no capability is kept, and none
/// can come but by a program with the set-user-id bit.
const ENTER: &str = r#"namespace=$1 id=$2; shift 2
exec nsenter --mount="$namespace" --wdns="$PWD" -- \
    setpriv --reuid "$id" --regid "$id" --clear-groups --inh-caps=-all -- "$@""#;

/// An ordinary user, for one daemon.
#[derive(Debug)]
pub struct Account {
    id: u32,
    holder: Child,
    programs: PathBuf,
    groups: Option<Groups>,
}

impl Account {
    /// Makes one whose home is this directory, and shows these programs in it. For root.
    ///
    /// # Errors
    /// When a file, a group or the namespace can't be made.
    pub fn make(home: &Path, programs: &Path, given: Given) -> io::Result<Self> {
        let number = NEXT.fetch_add(1, Ordering::Relaxed) % ACCOUNTS_OF_ONE;
        let slot = (std::process::id() * ACCOUNTS_OF_ONE + number) % ACCOUNTS_MAX;
        let id = ACCOUNT_FIRST + slot;
        let files = home.join("account");
        let shown = home.join("programs");
        std::fs::create_dir(&shown).map_err(about(&shown))?;
        let subordinate = given
            .subordinate_ids
            .then_some(SUBORDINATE_FIRST + slot * SUBORDINATE_IDS);
        write_files(&files, id, subordinate)?;
        let hidden: &[&str] = if given.map_programs {
            &[]
        } else {
            &["/usr/bin/newuidmap", "/usr/bin/newgidmap"]
        };
        let holder = hold(&[&files, programs, &shown], hidden)?;
        let mut account = Self {
            id,
            holder,
            programs: shown,
            groups: None,
        };
        if given.groups {
            account.groups = Some(Groups::make(&format!("torno-stage-{id}"), id)?);
        }
        account.give(home)?;
        Ok(account)
    }

    /// The user's id.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.id
    }

    /// Where the user sees the programs.
    #[must_use]
    pub fn programs(&self) -> &Path {
        &self.programs
    }

    /// Gives the user a file or directory.
    ///
    /// # Errors
    /// When it can't be given.
    pub fn give(&self, path: &Path) -> io::Result<()> {
        chown(path, Some(self.id), Some(self.id)).map_err(about(path))
    }

    /// A program, as the user.
    #[must_use]
    pub fn command(&self, program: &Path) -> Command {
        self.enter("", program)
    }

    /// A program that makes groups of its own: as the user, in the groups that were handed over.
    #[must_use]
    pub fn command_in_groups(&self, program: &Path) -> Command {
        let join = self.groups.as_ref().map(Groups::join);
        self.enter(&join.unwrap_or_default(), program)
    }

    /// A program as root where the user's files are: what an administrator does there.
    #[must_use]
    pub fn administrator(&self, program: &Path) -> Command {
        let mut command = Command::new("nsenter");
        command
            .arg(format!("--mount=/proc/{}/ns/mnt", self.holder.id()))
            .arg("--")
            .arg(program);
        command
    }

    fn enter(&self, first: &str, program: &Path) -> Command {
        let mut command = Command::new("/bin/sh");
        command
            .args(["-c", &format!("{first}{ENTER}"), "sh"])
            .arg(format!("/proc/{}/ns/mnt", self.holder.id()))
            .arg(self.id.to_string())
            .arg(program);
        command
    }
}

/// A group for a daemon that root runs where the caller's can't be shared with it: in v2 a group
/// that holds other processes hands nothing on.
#[must_use]
pub fn own_groups() -> Option<Groups> {
    let is_v2 = Path::new("/sys/fs/cgroup/cgroup.controllers").exists();
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let name = format!("torno-stage-{}-{number}", std::process::id());
    // What can't be made is missed, and named, by the daemon.
    is_v2.then(|| Groups::make(&name, 0).ok()).flatten()
}

impl Drop for Account {
    fn drop(&mut self) {
        // Its standard input ends, and with it the namespace.
        drop(self.holder.stdin.take());
        let _reaped = self.holder.wait();
    }
}

/// The machine's own files and the user's lines.
fn write_files(directory: &Path, id: u32, subordinate: Option<u32>) -> io::Result<()> {
    std::fs::create_dir(directory).map_err(about(directory))?;
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
        let text = std::fs::read_to_string(&own).map_err(about(&own))?;
        let file = directory.join(name);
        std::fs::write(&file, text + &line).map_err(about(&file))?;
    }
    Ok(())
}

fn hold(places: &[&Path], hidden: &[&str]) -> io::Result<Child> {
    let mut holder = Command::new("unshare")
        .args(["--mount", "--propagation", "private", "--"])
        .args(["/bin/sh", "-c", HOLD, "sh"])
        .args(places)
        .args(hidden)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut line = String::new();
    let heard = holder
        .stdout
        .take()
        .map(|stdout| BufReader::new(stdout).read_line(&mut line));
    if line.trim() == "ready" {
        return Ok(holder);
    }
    let _dead = holder.kill();
    let _reaped = holder.wait();
    heard.transpose()?;
    Err(io::Error::other("no mount namespace for an account"))
}

/// An error with the path that it is about.
fn about(path: &Path) -> impl Fn(io::Error) -> io::Error {
    move |error| io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}
