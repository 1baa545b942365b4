// SPDX-License-Identifier: Apache-2.0
//! The second wall, raised from inside: own user, no capability, no new privileges, landlock,
//! limits. All but the limits belong to a thread, and whatever that thread starts inherits them; so
//! each function here is called by a thread that is then used for nothing else.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access as _, AccessFs, CompatLevel, Compatible as _, LandlockStatus, RestrictionStatus,
    Ruleset, RulesetAttr as _, RulesetCreatedAttr as _, RulesetError, RulesetStatus, Scope,
    path_beneath_rules,
};
use rustix::process::{Resource, Rlimit, getgid, getgroups, getrlimit, getuid, setrlimit};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, clear_ambient_capability_set, no_new_privs,
    remove_capability_from_bounding_set, set_capabilities, set_no_new_privs, set_thread_groups,
    set_thread_res_gid, set_thread_res_uid,
};
use thiserror::Error;
use torno_guest_protocol::{Wall, WallKind};

use crate::settings::Settings;

/// The wall that could not be raised; nothing may run.
#[derive(Debug, Error)]
pub(crate) enum RaiseError {
    /// The user or its groups stay.
    #[error("cannot become user {uid}; start the agent as that user or with the right to change")]
    Identity {
        /// The user that was asked for.
        uid: u32,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// A capability stays.
    #[error("cannot give up capabilities; check the launcher's plan")]
    Capabilities(#[source] io::Error),
    /// Exec could gain privileges.
    #[error("cannot forbid new privileges; the kernel is too old")]
    NoNewPrivileges(#[source] io::Error),
    /// The kernel refused the rules.
    #[error("cannot restrict the file system; check the kernel's landlock")]
    Landlock(#[source] RulesetError),
    /// There is no landlock, or an old one, and it was required.
    #[error("landlock is required but does not hold here; use another kernel or level")]
    LandlockMissing,
    /// A limit can't be set.
    #[error("cannot limit resources; check the launcher's plan")]
    Limits(#[source] io::Error),
}

/// Makes this thread the workload's user, without any capability, for good; and makes sure of it.
// ATTACK: 147
pub(crate) fn drop_identity(settings: &Settings) -> Result<[Wall; 2], RaiseError> {
    let identity = |error: rustix::io::Errno| RaiseError::Identity {
        uid: settings.uid.as_raw(),
        source: error.into(),
    };
    // Without the capability these two fail, and then there is nothing to lose either: the sets are
    // read back below.
    let _no_ambient_set = clear_ambient_capability_set();
    for capability in CapabilitySet::all().iter() {
        let _not_permitted_or_unknown = remove_capability_from_bounding_set(capability);
    }
    let groups_stay = match set_thread_groups(&[]) {
        Ok(()) => false,
        Err(error) if getuid() != settings.uid => return Err(identity(error)),
        Err(_) => getgroups()
            .map_err(identity)?
            .iter()
            .any(|&group| group != settings.gid),
    };
    set_thread_res_gid(settings.gid, settings.gid, settings.gid).map_err(identity)?;
    set_thread_res_uid(settings.uid, settings.uid, settings.uid).map_err(identity)?;
    let none = CapabilitySets {
        effective: CapabilitySet::empty(),
        permitted: CapabilitySet::empty(),
        inheritable: CapabilitySet::empty(),
    };
    set_capabilities(None, none).map_err(|error| RaiseError::Capabilities(error.into()))?;
    if getuid() != settings.uid || getgid() != settings.gid {
        return Err(identity(rustix::io::Errno::PERM));
    }
    let left = capabilities(None).map_err(|error| RaiseError::Capabilities(error.into()))?;
    if !(left.effective | left.permitted | left.inheritable).is_empty() {
        return Err(RaiseError::Capabilities(
            io::ErrorKind::PermissionDenied.into(),
        ));
    }
    let detail = if groups_stay {
        "supplementary groups stay"
    } else {
        ""
    };
    Ok([
        Wall {
            kind: WallKind::OwnUser,
            holds: !groups_stay,
            detail: detail.into(),
        },
        Wall {
            kind: WallKind::NoCapabilities,
            holds: true,
            detail: String::new(),
        },
    ])
}

/// Forbids this thread, and what it starts, to gain privileges and to write outside of the places
/// that are meant for it. One landlock domain for all programs: they may signal each other, not us.
pub(crate) fn confine(settings: &Settings) -> Result<[Wall; 3], RaiseError> {
    set_no_new_privs(true).map_err(|error| RaiseError::NoNewPrivileges(error.into()))?;
    if !no_new_privs().map_err(|error| RaiseError::NoNewPrivileges(error.into()))? {
        return Err(RaiseError::NoNewPrivileges(
            io::ErrorKind::PermissionDenied.into(),
        ));
    }
    let status = restrict_files(settings).map_err(RaiseError::Landlock)?;
    let abi = match status.landlock {
        LandlockStatus::Available { effective_abi, .. } => effective_abi,
        LandlockStatus::NotEnabled | LandlockStatus::NotImplemented => ABI::Unsupported,
    };
    let is_enforced = status.ruleset != RulesetStatus::NotEnforced;
    let files_hold = is_enforced && abi >= FILES_ABI;
    if settings.landlock_required && !files_hold {
        return Err(RaiseError::LandlockMissing);
    }
    let detail = format!("landlock abi {}", abi as i32);
    Ok([
        Wall {
            kind: WallKind::NoNewPrivileges,
            holds: true,
            detail: String::new(),
        },
        Wall {
            kind: WallKind::Landlock,
            holds: files_hold,
            detail: detail.clone(),
        },
        Wall {
            kind: WallKind::LandlockScope,
            holds: is_enforced && abi >= SCOPE_ABI,
            detail,
        },
    ])
}

/// No core dumps, and a bounded number of descriptors; for this whole process and what it starts.
pub(crate) fn limit_resources() -> Result<Wall, RaiseError> {
    let limits = |error: rustix::io::Errno| RaiseError::Limits(error.into());
    let none = Rlimit {
        current: Some(0),
        maximum: Some(0),
    };
    setrlimit(Resource::Core, none).map_err(limits)?;
    let most = getrlimit(Resource::Nofile)
        .maximum
        .unwrap_or(DESCRIPTORS_MAX)
        .min(DESCRIPTORS_MAX);
    let descriptors = Rlimit {
        current: Some(most),
        maximum: Some(most),
    };
    setrlimit(Resource::Nofile, descriptors).map_err(limits)?;
    Ok(Wall {
        kind: WallKind::ResourceLimits,
        holds: true,
        detail: format!("{most} descriptors"),
    })
}

fn restrict_files(settings: &Settings) -> Result<RestrictionStatus, RulesetError> {
    // Reading and executing is left to the mounts; only what changes something is handled.
    let changes = AccessFs::from_write(SCOPE_ABI);
    let ruleset = || {
        Ruleset::default()
            .set_compatibility(CompatLevel::BestEffort)
            .handle_access(changes)?
            .scope(Scope::from_all(SCOPE_ABI))?
            .create()
    };
    // Without landlock no place is even opened: a user-space kernel keeps what it saw of a
    // directory, and the workspace of a sandbox made ahead is filled later.
    let is_there = Option::<OwnedFd>::from(ruleset()?).is_some();
    let places = if is_there {
        writable_places(settings)
    } else {
        Vec::new()
    };
    ruleset()?
        .add_rules(path_beneath_rules(places, changes))?
        .restrict_self()
}

fn writable_places(settings: &Settings) -> Vec<PathBuf> {
    let fixed = WRITABLE.iter().map(PathBuf::from);
    let own = settings.writable.iter().cloned();
    fixed
        .chain(own)
        .chain([settings.workspace.clone()])
        .filter(|path| path != Path::new("/"))
        .collect()
}

/// Where every sandbox has room to write, as far as its mounts let it.
const WRITABLE: [&str; 14] = [
    "/tmp",
    "/var/tmp",
    "/home",
    "/run/user",
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
    "/dev/tty",
    "/dev/ptmx",
    "/dev/pts",
    "/dev/shm",
    "/dev/console",
];

/// The first version that lets files be moved between writable places (Linux 5.19). It does not
/// hold back truncation, as version 3 does; read-only mounts do. The launcher says what is here.
const FILES_ABI: ABI = ABI::V2;
/// The first version with scopes, and the newest whose rights were tried here.
const SCOPE_ABI: ABI = ABI::V6;
// LIMIT: more than any build tool opens, and a descriptor costs the kernel about 1 KiB.
const DESCRIPTORS_MAX: u64 = 65_536;
