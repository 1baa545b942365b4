// SPDX-License-Identifier: Apache-2.0
//! A further directory of the host's, as a file system of its own in the machine's memory. The
//! workload's user fills it, then the file system itself becomes read-only: no mount, right or
//! descriptor that the workload could have makes it writable again.

use std::ffi::CString;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, chownat, mkdirat, openat};
use rustix::io::Errno;
use rustix::mount::{MountFlags, mount, mount_remount};
use torno_guest_protocol::FileFailure;

use crate::place::Failure;
use crate::settings::Settings;

/// Makes the place, where only the home directory lacks it, and mounts an empty directory there.
pub(super) fn open(settings: &Settings, path: &str, bytes_max: u64) -> Result<PathBuf, Failure> {
    let place = PathBuf::from(path);
    make(settings, &place)?;
    let (uid, gid) = (settings.uid.as_raw(), settings.gid.as_raw());
    let files = bytes_max / BYTES_PER_FILE + FILES_MIN;
    let options = format!("mode=0700,uid={uid},gid={gid},size={bytes_max},nr_inodes={files}");
    let options = CString::new(options).map_err(|_| Errno::INVAL)?;
    mount("tmpfs", &place, "tmpfs", FLAGS, options.as_c_str())?;
    Ok(place)
}

/// Nobody writes there any more: the file system is closed, not a mount of it alone.
pub(super) fn close(place: &Path) -> Result<(), Failure> {
    Ok(mount_remount(place, FLAGS | MountFlags::RDONLY, c"")?)
}

/// Each directory on the way, by the handle of the one that it lies in.
fn make(settings: &Settings, place: &Path) -> Result<(), Failure> {
    let mut parts = place.components();
    if parts.next() != Some(Component::RootDir) || place == Path::new("/") {
        return Err(Failure::new(FileFailure::Outside, "not an absolute path"));
    }
    let mut at: OwnedFd = openat(CWD, "/", DIRECTORY, Mode::empty())?;
    for part in parts {
        let Component::Normal(name) = part else {
            return Err(Failure::new(FileFailure::Outside, "no plain path"));
        };
        at = match openat(at.as_fd(), name, DIRECTORY, Mode::empty()) {
            Err(Errno::NOENT) => {
                mkdirat(at.as_fd(), name, Mode::from_raw_mode(0o755))?;
                let (uid, gid) = (Some(settings.uid), Some(settings.gid));
                chownat(at.as_fd(), name, uid, gid, AtFlags::SYMLINK_NOFOLLOW)?;
                openat(at.as_fd(), name, DIRECTORY, Mode::empty())?
            }
            found => found?,
        };
    }
    Ok(())
}

const FLAGS: MountFlags = MountFlags::NOSUID.union(MountFlags::NODEV);
const DIRECTORY: OFlags = OFlags::PATH
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);
// LIMIT: a file with content takes a block; empty ones, links and directories take memory too.
const BYTES_PER_FILE: u64 = 4096;
// LIMIT: a small directory of links has room.
const FILES_MIN: u64 = 1024;
