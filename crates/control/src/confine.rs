// SPDX-License-Identifier: Apache-2.0
//! What a role gives up, in order: core dumps and tracing before it reads a byte, then, when it
//! holds all its descriptors, the file system and the network (landlock(7)), then every system
//! call outside its list (seccomp(2)). A step that fails ends the role: it never runs with less.
//!
//! The launcher keeps its rights: it makes namespaces and mounts. It is in a network namespace that
//! leads nowhere, and has no credential and no session data instead.

mod syscalls;

use crate::roles::Role;
use anyhow::{Context, ensure};
use landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, PathBeneath, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetStatus, Scope,
};
use rustix::fs::{Mode, OFlags};
use rustix::process::{DumpableBehavior, Resource, Rlimit};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch,
};
use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

/// The landlock rights every kernel must have for us: file system, since Linux 5.13.
const REQUIRED: ABI = ABI::V1;
/// The rights asked for where the kernel has them: TCP (6.7), ioctl (6.10), scopes (6.12).
const WANTED: ABI = ABI::V6;

/// A directory that stays reachable, and whether it may be written.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reach<'a> {
    pub(crate) place: BorrowedFd<'a>,
    pub(crate) write: bool,
}

/// What the C library's resolver reads: its configuration and its modules. Directories, since their
/// files are replaced while we run.
const RESOLVER: &[&str] = &["/etc", "/usr/lib", "/lib", "/lib64"];
/// Where the addresses of name servers stand; on many systems a link out of /etc.
const NAME_SERVERS: &str = "/etc/resolv.conf";

/// Opens a directory for [`Reach`].
pub(crate) fn directory(path: &Path) -> anyhow::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty())
        .with_context(|| format!("can't open `{}`", path.display()))
}

/// LIMIT: 2 GiB of memory for one gate: 4 MiB for each of 512 connections. What a session's clients
/// and far ends make it hold beyond that ends the gate, and its session, instead of the host.
const GATE_BYTES_MAX: u64 = 2 << 30;

/// LIMIT: 2 GiB of memory for one porter, which lists a tree that a workload made. Far more than
/// the names of the largest tree that is walked take, in all their copies.
const PORTER_BYTES_MAX: u64 = 2 << 30;

/// The first thing a role does: no core dump, nobody traces it, no new privileges. What a gate or a
/// porter may hold has an end.
pub(crate) fn before_anything(role: Role) -> anyhow::Result<()> {
    let none = Rlimit {
        current: Some(0),
        maximum: Some(0),
    };
    rustix::process::setrlimit(Resource::Core, none).context("core limit")?;
    let most = match role {
        Role::Gate => Some(GATE_BYTES_MAX),
        Role::Porter => Some(PORTER_BYTES_MAX),
        Role::Desk | Role::Notary | Role::Dialer | Role::Launcher => None,
    };
    if most.is_some() {
        let memory = Rlimit {
            current: most,
            maximum: most,
        };
        rustix::process::setrlimit(Resource::Data, memory).context("memory limit")?;
    }
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable).context("dumpable")?;
    if role != Role::Launcher {
        // The launcher's newuidmap needs its set-user-id bit where the daemon is not root.
        rustix::thread::set_no_new_privs(true).context("no_new_privs")?;
    }
    Ok(())
}

/// Gives up everything but the role's own, once its descriptors are here. The standing roles but
/// the dialer lose TCP as well.
pub(crate) fn role(role: Role, reach: &[Reach<'_>]) -> anyhow::Result<()> {
    let network = role == Role::Dialer;
    // A machine without one of the resolver's directories does not need it.
    let resolver: Vec<OwnedFd> = resolver_directories()
        .iter()
        .filter_map(|path| directory(path).ok())
        .collect();
    let mut reach = reach.to_vec();
    if network {
        reach.extend(resolver.iter().map(|fd| Reach {
            place: fd.as_fd(),
            write: false,
        }));
    }
    // The first look at a clock finds the kernel's shared page (vdso(7)), which takes calls that
    // are given up below; without it each look is a system call.
    let _ = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    landlock_self(&reach, network).context("landlock")?;
    seccomp_self(role).context("seccomp")
}

/// [`RESOLVER`], and where [`NAME_SERVERS`] really lies.
fn resolver_directories() -> Vec<PathBuf> {
    let name_servers = std::fs::canonicalize(NAME_SERVERS).ok();
    let name_servers = name_servers.as_deref().and_then(Path::parent);
    let fixed = RESOLVER.iter().map(PathBuf::from);
    fixed.chain(name_servers.map(PathBuf::from)).collect()
}

fn landlock_self(reach: &[Reach<'_>], network: bool) -> anyhow::Result<()> {
    let files = AccessFs::from_all(WANTED);
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(REQUIRED))?
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(files)?
        .scope(Scope::AbstractUnixSocket)?;
    if !network {
        ruleset = ruleset.handle_access(AccessNet::from_all(WANTED))?;
    }
    let mut ruleset = ruleset.create()?;
    for place in reach {
        let rights = if place.write {
            files
        } else {
            AccessFs::from_read(WANTED)
        };
        ruleset = ruleset.add_rule(PathBeneath::new(place.place, rights))?;
    }
    let status = ruleset.restrict_self()?;
    ensure!(
        status.ruleset != RulesetStatus::NotEnforced,
        "the kernel has it switched off"
    );
    Ok(())
}

fn seccomp_self(role: Role) -> anyhow::Result<()> {
    let allowed = syscalls::of(role);
    let arch: TargetArch = std::env::consts::ARCH
        .try_into()
        .context("this architecture")?;
    let mut rules = BTreeMap::new();
    for number in allowed {
        let conditions = if number == libc::SYS_socket {
            families()?
        } else {
            Vec::new()
        };
        rules.insert(number, conditions);
    }
    let refused = SeccompAction::Errno(rustix::io::Errno::PERM.raw_os_error().unsigned_abs());
    let filter = SeccompFilter::new(rules, refused, SeccompAction::Allow, arch)?;
    let program: BpfProgram = filter.try_into()?;
    seccompiler::apply_filter_all_threads(&program)?;
    Ok(())
}

/// `socket(2)` of these families and no other.
fn families() -> anyhow::Result<Vec<SeccompRule>> {
    let rule = |family: &i32| {
        let family = u64::from(family.unsigned_abs());
        let is = SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, family)?;
        Ok(SeccompRule::new(vec![is])?)
    };
    syscalls::FAMILIES.iter().map(rule).collect()
}
