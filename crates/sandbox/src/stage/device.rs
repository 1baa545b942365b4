// SPDX-License-Identifier: Apache-2.0
//! KVM's device for a machine's monitor: a node of its own, which belongs to the sandbox's user
//! alone. The host's node belongs to root or to a group of the host's, and neither is in the
//! sandbox's ids. Every other mount of a sandbox refuses devices.

use rustix::fs::{AtFlags, CWD, FileType, Gid, Mode, Uid, chownat, makedev, mknodat};
use rustix::mount::{MountFlags, mount};
use std::io;
use std::path::Path;

/// The node in the staging namespace; the runtime binds it, and its directory stays behind.
pub(crate) const KVM_NODE: &str = "/run/devices/kvm";
/// KVM's numbers (Linux, `Documentation/admin-guide/devices.txt`).
const NUMBERS: (u32, u32) = (10, 232);

/// Makes it.
pub(super) fn make_kvm(owner: u32) -> io::Result<()> {
    let directory = Path::new(KVM_NODE).parent();
    let directory = directory.ok_or(io::ErrorKind::InvalidInput)?;
    super::directory(directory)?;
    mount(
        "tmpfs",
        directory,
        "tmpfs",
        MountFlags::NOSUID | MountFlags::NOEXEC,
        c"mode=0755,size=4k,nr_inodes=2",
    )?;
    let device = makedev(NUMBERS.0, NUMBERS.1);
    let mode = Mode::RUSR | Mode::WUSR;
    mknodat(CWD, KVM_NODE, FileType::CharacterDevice, mode, device)?;
    let (uid, gid) = (Uid::from_raw(owner), Gid::from_raw(owner));
    chownat(
        CWD,
        KVM_NODE,
        Some(uid),
        Some(gid),
        AtFlags::SYMLINK_NOFOLLOW,
    )?;
    Ok(())
}
