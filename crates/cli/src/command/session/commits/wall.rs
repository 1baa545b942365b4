// SPDX-License-Identifier: Apache-2.0
//! What git may reach and use while it reads what a session wrote: landlock(7) on the thread that
//! starts it, and limits that every child inherits (setrlimit(2)). Without landlock in the kernel
//! the limits and git's own checks remain.

use crate::stop::{Outcome, Stop};
use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd,
    Ruleset, RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetError, Scope,
};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::path::{Path, PathBuf};
use torno_control_api::commits::BYTES_MAX;

/// Rights that are taken where the kernel knows them.
const WANTED: ABI = ABI::V6;
/// Where programs and their libraries lie.
const SYSTEM: [&str; 5] = ["/usr", "/bin", "/lib", "/lib64", "/nix/store"];
/// What the loader, the C library and git read besides.
const FILES: [&str; 6] = [
    "/etc/ld.so.cache",
    "/etc/localtime",
    "/etc/nsswitch.conf",
    "/etc/passwd",
    "/dev/null",
    "/dev/urandom",
];

/// LIMIT: memory of one process: git maps packs piece by piece (`core.packedGitLimit`), so that
/// this takes repositories far larger than what may come.
const MEMORY_MAX: u64 = 4 << 30;
/// LIMIT: processor time of one process; a pack of some GiB is indexed in minutes.
const CPU_SECONDS_MAX: u64 = 900;

/// Lowers the limits of this process and all that it starts, for good.
pub(super) fn limit() -> Outcome {
    let limits = [
        (Resource::As, MEMORY_MAX),
        (Resource::Cpu, CPU_SECONDS_MAX),
        // A pack is at most all that came, and an index beside it is smaller.
        (Resource::Fsize, BYTES_MAX + (1 << 30)),
        (Resource::Core, 0),
    ];
    for (what, most) in limits {
        let now = getrlimit(what);
        let lower = |now: Option<u64>| Some(now.map_or(most, |now| now.min(most)));
        let new = Rlimit {
            current: lower(now.current),
            maximum: lower(now.maximum),
        };
        let set = setrlimit(what, new);
        set.map_err(|error| Stop::new("a limit for git can't be set").because(&error))?;
    }
    Ok(())
}

/// Where one step of the work reaches.
pub(super) struct Reach<'a> {
    /// Beside the system's own places; may be read.
    pub(super) read: Vec<PathBuf>,
    /// May be written.
    pub(super) write: &'a [&'a Path],
}

/// Runs work on a thread of its own that reaches that and no more; so do programs that it starts.
pub(super) fn behind<T: Send>(
    reach: &Reach<'_>,
    work: impl FnOnce() -> Outcome<T> + Send,
) -> Outcome<T> {
    std::thread::scope(|scope| {
        let walled = || {
            raise(reach).map_err(|error| Stop::new("no wall for git").because(&error))?;
            work()
        };
        let running = scope.spawn(walled);
        let broken = |_| Stop::new("the thread that runs git broke");
        running.join().map_err(broken)?
    })
}

fn raise(reach: &Reach<'_>) -> Result<(), RulesetError> {
    let all = AccessFs::from_all(WANTED);
    let read = AccessFs::from_read(WANTED);
    let mut rules = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(all)?
        .handle_access(AccessNet::from_all(WANTED))?
        .scope(Scope::from_all(WANTED))?
        .create()?;
    for place in SYSTEM.iter().map(Path::new) {
        rules = open(rules, place, read)?;
    }
    for place in &reach.read {
        rules = open(rules, place, read)?;
    }
    for place in reach.write {
        rules = open(rules, place, all)?;
    }
    for file in FILES.iter().map(Path::new) {
        rules = open(rules, file, AccessFs::ReadFile.into())?;
    }
    // Git opens it for both where a standard stream is closed.
    let null = AccessFs::ReadFile | AccessFs::WriteFile;
    open(rules, Path::new("/dev/null"), null)?.restrict_self()?;
    Ok(())
}

/// A place that is not there is not reached.
fn open(
    rules: RulesetCreated,
    place: &Path,
    rights: BitFlags<AccessFs>,
) -> Result<RulesetCreated, RulesetError> {
    match PathFd::new(place) {
        Ok(opened) => rules.add_rule(PathBeneath::new(opened, rights)),
        Err(_) => Ok(rules),
    }
}
