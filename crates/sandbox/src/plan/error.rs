// SPDX-License-Identifier: Apache-2.0
//! Why no plan could be made, and what brings what is missing.

use super::rules::RuleError;
use crate::rights::Refusal;
use std::path::PathBuf;
use thiserror::Error;

/// Why no plan could be made; each says what to do.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PlanError {
    /// The launcher may not.
    #[error(transparent)]
    Rights(#[from] Refusal),
    /// No runtime.
    #[error("no runtime for `{level}`: {fix}")]
    RuntimeMissing {
        /// The level asked for.
        level: &'static str,
        /// What brings it.
        fix: &'static str,
    },
    /// One that can't work.
    #[error("`{found}` is too old for `{level}`: gVisor of 2024 or later is needed")]
    RuntimeTooOld {
        /// The level asked for.
        level: &'static str,
        /// What is here.
        found: String,
    },
    /// The agent could not raise its wall.
    #[error(
        "this kernel's landlock has version {0}, and `container` needs {LANDLOCK_VERSION}: boot \
         Linux 5.19 or later with `landlock` among its `lsm=`"
    )]
    LandlockTooOld(u32),
    /// No nft.
    #[error("nft is not installed: run `apt-get install nftables`")]
    NftMissing,
    /// A limit that would mean nothing, or everything.
    #[error("limit `{0}` is out of range")]
    Limit(&'static str),
    /// The uid range would hold the host's own ids, or the user's.
    #[error("ids from {0} are not a sandbox's")]
    UidRange(u32),
    /// A further directory.
    #[error("`{0}` can't be listed under `also`")]
    Also(PathBuf),
    /// The runtime makes groups that an ordinary user is not given.
    #[error("runc makes groups in every cgroup v1 hierarchy, which takes root; crun does not")]
    RuncNeedsRoot,
    /// The kernel keeps what is mounted on a directory together with it.
    #[error(
        "`{mount}` is mounted below `{host}`, and without root a sandbox can't be given the one \
         without the other; unmount it"
    )]
    MountBelow {
        /// The directory that goes in.
        host: PathBuf,
        /// What is mounted below it.
        mount: PathBuf,
    },
    /// A file rule.
    #[error(transparent)]
    Rule(#[from] RuleError),
    /// An environment variable.
    #[error("environment variable `{0}` has a name or value that can't be set")]
    Environment(String),
    /// A file of the home directory.
    #[error("`{0}` is no place for a file of the home directory")]
    HomeFile(PathBuf),
    /// No QEMU, no kernel, or no maker of images.
    #[error("a machine needs QEMU, Debian's cloud kernel and erofs-utils: {MACHINE_FIX}")]
    MachineMissing,
    /// A machine's disk was not made, or not the kernel that its monitor reads.
    #[error("the disk of the machine is not there: start the session again, and it is made")]
    DiskMissing,
    /// A directory of the host that can't be in a machine yet.
    #[error("`{0}` is unavailable at the levels `microvm` and `vm`: use `gvisor` or `container`")]
    NotInMachine(PathBuf),
    /// A directory of the host that has no place in an image.
    #[error(
        "`{0}` is of the host, and `/opt` and `/srv` are the image's: list directories below your \
         home, or use image `host`"
    )]
    NotInImage(PathBuf),
    /// A git host.
    #[error("`{0}` is not a host name for a git remote")]
    GitHost(String),
}

/// With version 1 no file could be moved into another directory.
pub(super) const LANDLOCK_VERSION: u32 = 2;

/// What brings a usable runsc. Debian 12's is of 2022.
pub(crate) const RUNSC_FIX: &str = "needs runsc of 2024 or later, and Debian 12's package is too \
     old: `cargo xtask build` in a checkout brings a newer one, or put `runsc` into `runtimes/` \
     beside tornod";

/// What brings the parts of a machine.
pub(crate) const MACHINE_FIX: &str = "`cargo xtask build` in a checkout brings them, or run \
     `apt-get install --no-install-recommends qemu-system-x86 linux-image-cloud-amd64 erofs-utils`";
