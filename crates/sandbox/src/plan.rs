// SPDX-License-Identifier: Apache-2.0
//! Spec and facts → plan: everything a start will do, as data. Pure; the golden tests print it.

mod also;
mod claim;
mod error;
mod etc;
mod home;
pub(crate) mod image;
pub(crate) mod oci;
pub(crate) mod rules;

pub use error::PlanError;
pub(crate) use error::{MACHINE_FIX, RUNSC_FIX};
pub use etc::trust_environment;
pub use oci::environment;

use crate::cgroup::CgroupValues;
use crate::facts::{HostFacts, RootEntry};
use crate::faults::is_new_enough;
use crate::rights::Rights;
use crate::runtime::{FileAccess, Runtime, RuntimeKind};
use crate::spec::{GUEST_PATH, IdMap, Level, SandboxId, SandboxSpec, UID_RANGE, Workspace};
use error::LANDLOCK_VERSION;
use rules::WorkspaceRules;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// LIMIT: below this lie the ids of people and system services of every distribution.
const UID_BASE_MIN: u32 = 100_000;
/// LIMIT: a guest, its shell and one tool don't fit into less.
const MEMORY_BYTES_MIN: u64 = 16 << 20;
/// LIMIT: above 16 TiB a limit is a slip.
const BYTES_MAX: u64 = 16 << 40;
const PIDS_RANGE: std::ops::RangeInclusive<u64> = 8..=1 << 20;
const CPU_MILLI_RANGE: std::ops::RangeInclusive<u64> = 10..=1_000_000;
const DISK_BYTES_MIN: u64 = 1 << 20;
pub(crate) const CPU_PERIOD_US: u64 = 100_000;

/// One act on the sandbox's root directory before the runtime starts. Paths are relative to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TreeStep {
    /// A directory, mode 0755.
    Directory(PathBuf),
    /// A file, mode 0644.
    File(PathBuf, Arc<[u8]>),
    /// A symbolic link and its target.
    Link(PathBuf, String),
    /// A host file or directory, read-only, nosuid, nodev, without what is mounted below it.
    Bind {
        /// On the host.
        host: PathBuf,
        /// Inside.
        inside: PathBuf,
    },
    /// Covers a directory with an empty read-only one.
    Cover(PathBuf),
    /// A program, mode 0755.
    Program(PathBuf, Arc<[u8]>),
    /// A file of the workload's own, mode 0600, below the home directory.
    HomeFile(PathBuf, Arc<[u8]>),
    /// Home in memory, with its size and number of files: made here when something is mounted
    /// below.
    Home(PathBuf, u64, u64),
    /// The workspace's descriptor.
    Workspace(PathBuf),
    /// KVM's device, for a machine's monitor.
    Kvm,
}

/// Whose network stack the workload has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Network {
    /// The host's, in a sealed namespace; by which `nft`.
    Sealed(PathBuf),
    /// The machine's own, which the guest agent seals; the host's side has none at all.
    Machine,
}

/// Everything that a start will do.
#[derive(Debug, Clone)]
pub struct Plan {
    pub(crate) id: SandboxId,
    pub(crate) level: Level,
    pub(crate) runtime: Runtime,
    pub(crate) tree: Vec<TreeStep>,
    pub(crate) config: String,
    pub(crate) cgroup: CgroupValues,
    pub(crate) workspace: Workspace,
    pub(crate) rules: WorkspaceRules,
    pub(crate) ids: IdMap,
    pub(crate) network: Network,
    pub(crate) keeper: Option<PathBuf>,
    pub(crate) cgroups: crate::cgroup::CgroupHost,
    /// What the first process is told, where it is a monitor with an interface.
    pub(crate) monitor: Option<crate::vm::Orders>,
    /// What the sandbox holds QEMU for.
    pub(crate) machine: Option<crate::vm::Machine>,
}

impl Plan {
    /// The boundary this plan makes.
    #[must_use]
    pub fn level(&self) -> Level {
        self.level
    }

    pub(crate) fn file_access(&self) -> FileAccess {
        FileAccess {
            by_gofer: self.rules.write.is_some() || !self.rules.hide.is_empty(),
            shared: self.workspace == Workspace::Shared,
        }
    }

    /// The OCI configuration, for display.
    #[must_use]
    pub fn config(&self) -> &str {
        &self.config
    }
}

/// Makes the plan.
///
/// # Errors
/// [`PlanError`] when anything asked for can't be had exactly as asked.
pub fn plan(spec: &SandboxSpec, facts: &HostFacts) -> Result<Plan, PlanError> {
    if matches!(spec.level, Level::Microvm | Level::Vm) {
        return crate::vm::plan(spec, facts);
    }
    image::check(spec)?;
    let rights = facts.rights.clone()?;
    let runtime = runtime_for(spec.level, facts)?;
    check(spec)?;
    let ids = ids(spec, rights)?;
    if runtime.kind == RuntimeKind::Runc && rights != Rights::Root && !facts.cgroups.v1.is_empty() {
        return Err(PlanError::RuncNeedsRoot);
    }
    if spec.level == Level::Container && facts.landlock_version < LANDLOCK_VERSION {
        return Err(PlanError::LandlockTooOld(facts.landlock_version));
    }
    let rules = WorkspaceRules::parse(&spec.files)?;
    let tree = tree(spec, facts)?;
    check_mounts(&tree, &facts.locked_mounts)?;
    Ok(Plan {
        id: spec.id.clone(),
        level: spec.level,
        tree,
        config: oci::config(spec, facts, ids, runtime.kind),
        cgroup: CgroupValues {
            memory_bytes: spec.limits.memory_bytes,
            pids: spec.limits.pids,
            cpu_quota_us: spec.limits.cpu_milli * CPU_PERIOD_US / 1000,
            cpu_period_us: CPU_PERIOD_US,
        },
        workspace: spec.workspace,
        rules,
        ids,
        network: Network::Sealed(facts.nft.clone().ok_or(PlanError::NftMissing)?),
        keeper: facts.keeper.clone(),
        cgroups: facts.cgroups.clone(),
        runtime,
        monitor: None,
        machine: None,
    })
}

/// What starts processes at a level. A machine's is QEMU, which a container holds.
pub(crate) fn runtime_for(level: Level, facts: &HostFacts) -> Result<Runtime, PlanError> {
    let (found, fix) = match level {
        Level::Container | Level::Microvm | Level::Vm => {
            (&facts.container_runtime, "run `apt-get install crun`")
        }
        Level::Gvisor => (&facts.gvisor_runtime, RUNSC_FIX),
    };
    let runtime = found.clone().ok_or_else(|| PlanError::RuntimeMissing {
        level: level.name(),
        fix,
    })?;
    if is_new_enough(&runtime) {
        Ok(runtime)
    } else {
        Err(PlanError::RuntimeTooOld {
            level: level.name(),
            found: runtime.version,
        })
    }
}

pub(crate) fn check(spec: &SandboxSpec) -> Result<(), PlanError> {
    let limits = &spec.limits;
    let ranges = [
        ("memory", limits.memory_bytes, MEMORY_BYTES_MIN..=BYTES_MAX),
        ("pids", limits.pids, PIDS_RANGE),
        ("cpus", limits.cpu_milli, CPU_MILLI_RANGE),
        ("disk", limits.disk_bytes, DISK_BYTES_MIN..=BYTES_MAX),
    ];
    if let Some((name, ..)) = ranges
        .iter()
        .find(|(_, value, range)| !range.contains(value))
    {
        return Err(PlanError::Limit(name));
    }
    for (name, value) in &spec.env {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        let first_ok = name
            .bytes()
            .next()
            .is_some_and(|byte| !byte.is_ascii_digit());
        if !first_ok || !name.bytes().all(plain) || value.contains('\0') {
            return Err(PlanError::Environment(name.clone()));
        }
    }
    let host_ok = |host: &&String| {
        let ok = |byte: u8| {
            byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'.')
        };
        host.is_empty() || host.len() > 253 || !host.bytes().all(ok)
    };
    match spec.git_hosts.iter().find(host_ok) {
        Some(host) => Err(PlanError::GitHost(host.clone())),
        None => Ok(()),
    }
}

/// The sandbox's ids, if they are nobody else's.
pub(crate) fn ids(spec: &SandboxSpec, rights: Rights) -> Result<IdMap, PlanError> {
    let base = spec.uid_base;
    match rights {
        Rights::Root if (UID_BASE_MIN..=u32::MAX - 2 * UID_RANGE).contains(&base) => {
            Ok(IdMap::Range(base))
        }
        Rights::Namespace(ids) if ids.hold(base) => Ok(IdMap::Three(base)),
        Rights::Root | Rights::Namespace(_) => Err(PlanError::UidRange(base)),
    }
}

pub(crate) fn tree(spec: &SandboxSpec, facts: &HostFacts) -> Result<Vec<TreeStep>, PlanError> {
    let mut steps: Vec<TreeStep> = DIRECTORIES
        .iter()
        .map(|path| TreeStep::Directory(path.into()))
        .collect();
    steps.extend(match &spec.image {
        Some(image) => image::system(image),
        None => system(facts),
    });
    steps.extend(etc::files(spec, facts));
    match &spec.image {
        Some(image) => steps.extend(image::configuration(image, &steps)),
        None => steps.extend(facts.etc.iter().map(|name| bind(&format!("/etc/{name}")))),
    }
    steps.extend(home::directory(spec));
    for also in &spec.also {
        steps.extend(also::steps(also)?);
    }
    steps.extend(home::files(spec)?);
    steps.push(TreeStep::Program(
        relative(Path::new(GUEST_PATH)),
        spec.guest.bytes(),
    ));
    if spec.workspace != Workspace::None {
        steps.push(TreeStep::Workspace("workspace".into()));
    }
    Ok(steps)
}

/// The host's programs and libraries.
pub(crate) fn system(facts: &HostFacts) -> Vec<TreeStep> {
    let mut steps = vec![bind("/usr")];
    for (name, entry) in &facts.root {
        match entry {
            RootEntry::Link(target) => steps.push(TreeStep::Link(name.into(), target.clone())),
            RootEntry::Directory => {
                steps.push(TreeStep::Directory(name.into()));
                steps.push(bind(&format!("/{name}")));
            }
        }
    }
    if facts.has_usr_local {
        steps.push(TreeStep::Cover("usr/local".into()));
    }
    steps
}

/// A directory without what is mounted below it can't be had in an ordinary user's namespace.
fn check_mounts(tree: &[TreeStep], locked: &[PathBuf]) -> Result<(), PlanError> {
    for step in tree {
        let TreeStep::Bind { host, .. } = step else {
            continue;
        };
        if let Some(mount) = locked.iter().find(|m| *m != host && m.starts_with(host)) {
            return Err(PlanError::MountBelow {
                host: host.clone(),
                mount: mount.clone(),
            });
        }
    }
    Ok(())
}

/// Mount points and the directories that programs expect; nothing of the host is in them.
const DIRECTORIES: [&str; 17] = [
    "usr",
    "etc",
    "proc",
    "dev",
    "sys",
    "tmp",
    "run",
    "home",
    "home/agent",
    "workspace",
    "opt",
    "srv",
    "var",
    "var/lib",
    "var/cache",
    "mnt",
    ".torno",
];

fn bind(host: &str) -> TreeStep {
    TreeStep::Bind {
        host: host.into(),
        inside: relative(Path::new(host)),
    }
}

pub(crate) fn relative(path: &Path) -> PathBuf {
    path.strip_prefix("/").unwrap_or(path).to_owned()
}

/// Whether a runtime applies the seccomp profile of the configuration.
pub(crate) fn has_seccomp(kind: RuntimeKind) -> bool {
    kind != RuntimeKind::Runsc
}

#[cfg(test)]
pub(crate) mod tests;
