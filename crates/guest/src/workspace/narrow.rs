// SPDX-License-Identifier: Apache-2.0
//! The file rules of the grant, as mounts over the filled workspace: what may not be written is
//! read-only, what is hidden too. Where something is hidden, nothing but an empty place came along.

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, chownat, fstat, mkdirat, openat, openat2,
};
use rustix::io::Errno;
use rustix::mount::{
    MountFlags, MoveMountFlags, OpenTreeFlags, mount_bind, mount_remount, move_mount, open_tree,
};
use torno_guest_protocol::FileFailure;

use crate::place::Failure;
use crate::settings::Settings;

/// Narrows the workspace.
pub(super) fn apply(
    settings: &Settings,
    write: Option<&[String]>,
    hide: &[String],
) -> Result<(), Failure> {
    let workspace = || openat(CWD, &settings.workspace, HANDLE, Mode::empty());
    if let Some(write) = write.filter(|write| !write.iter().any(|rule| rule == "**")) {
        let mut writable = Vec::new();
        for rule in write {
            let (path, is_tree) = split(rule);
            let place = place(workspace()?.as_fd(), path, is_tree, settings)?;
            writable.push((path, clone(place.as_fd())?));
        }
        make_read_only(&settings.workspace)?;
        for (path, tree) in writable {
            let at = beneath(workspace()?.as_fd(), path)?;
            attach(&tree, at.as_fd())?;
        }
    }
    for rule in hide {
        let (path, _) = split(rule);
        match beneath(workspace()?.as_fd(), path) {
            Ok(_) => make_read_only(&settings.workspace.join(path))?,
            Err(Errno::NOENT | Errno::NOTDIR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// `dir/**` or an exact path.
fn split(rule: &str) -> (&str, bool) {
    rule.strip_suffix("/**")
        .map_or((rule, false), |path| (path, true))
}

/// The place of a write rule; one that is missing is made, and shows as a change.
fn place(
    workspace: BorrowedFd<'_>,
    path: &str,
    is_tree: bool,
    settings: &Settings,
) -> Result<OwnedFd, Failure> {
    let found = match beneath(workspace, path) {
        Err(Errno::NOENT) => {
            make(workspace, path, is_tree, settings)?;
            beneath(workspace, path)?
        }
        found => found?,
    };
    let is_directory = FileType::from_raw_mode(fstat(&found)?.st_mode) == FileType::Directory;
    if is_directory == is_tree {
        return Ok(found);
    }
    let code = if is_directory {
        FileFailure::NotAFile
    } else {
        FileFailure::NotADirectory
    };
    let advice = "a directory is written as `dir/**`, a file by its exact path";
    Err(Failure::new(code, format!("`{path}`: {advice}")))
}

fn make(
    workspace: BorrowedFd<'_>,
    path: &str,
    is_tree: bool,
    settings: &Settings,
) -> Result<(), Failure> {
    let (parent, name) = match path.rsplit_once('/') {
        Some((parent, name)) => (beneath(workspace, parent)?, name),
        None => (beneath(workspace, ".")?, path),
    };
    if is_tree {
        mkdirat(&parent, name, Mode::from_raw_mode(0o700))?;
    } else {
        openat(&parent, name, FRESH_FILE, Mode::from_raw_mode(0o600))?;
    }
    let (uid, gid) = (Some(settings.uid), Some(settings.gid));
    Ok(chownat(&parent, name, uid, gid, AtFlags::SYMLINK_NOFOLLOW)?)
}

fn beneath(workspace: BorrowedFd<'_>, path: &str) -> rustix::io::Result<OwnedFd> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    openat2(workspace, path, HANDLE, Mode::empty(), resolve)
}

/// A mount of its own of what lies there, attached nowhere yet.
fn clone(found: BorrowedFd<'_>) -> rustix::io::Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_EMPTY_PATH;
    open_tree(found, c"", flags)
}

fn attach(tree: &OwnedFd, at: BorrowedFd<'_>) -> rustix::io::Result<()> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    move_mount(tree, c"", at, c"", flags)
}

/// Mounts a place over itself, read-only. No program has run yet: a path leads where it led.
fn make_read_only(path: &Path) -> rustix::io::Result<()> {
    mount_bind(path, path)?;
    let flags = MountFlags::BIND | MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV;
    mount_remount(path, flags, c"")
}

const HANDLE: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
const FRESH_FILE: OFlags = OFlags::WRONLY
    .union(OFlags::CREATE)
    .union(OFlags::EXCL)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);
