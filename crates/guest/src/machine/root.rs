// SPDX-License-Identifier: Apache-2.0
//! The root directory: the launcher's tree, read-only, with places of the disk and those that may
//! be written to in memory.

use std::ffi::CString;
use std::io::Write as _;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{OpenOptionsExt as _, chown};
use std::path::Path;

use anyhow::{Context as _, ensure};
use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};
use rustix::mount::{
    MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags, mount,
    mount_bind, mount_change, mount_move, mount_remount, move_mount, open_tree, unmount,
};
use torno_guest_protocol::{
    MACHINE_DISK, MACHINE_TREE, MachineFile, MachineMount, MachinePlace, MachineSetup,
};

use crate::settings::Settings;

/// Makes it, and moves into it for good. Gives the way to what lies below its read-only mount.
pub(super) fn enter(disk: &Path, setup: &MachineSetup) -> anyhow::Result<OwnedFd> {
    let tree = Path::new(MACHINE_TREE);
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let lying_below = rustix::fs::open(tree, flags, Mode::empty()).context("the tree")?;
    mount_bind(tree, tree).context("the tree")?;
    show(disk, tree, &setup.disk)?;
    for place in &setup.mounts {
        mount_place(tree, place).with_context(|| format!("mount {}", place.destination))?;
    }
    let read_only = MountFlags::BIND | MountFlags::RDONLY | MountFlags::NOSUID;
    mount_remount(tree, read_only, c"").context("the tree, read-only")?;
    std::env::set_current_dir(tree)?;
    mount_move(tree, "/").context("the root")?;
    rustix::process::chroot(".").context("the root")?;
    std::env::set_current_dir("/")?;
    mount_change(
        "/",
        MountPropagationFlags::PRIVATE | MountPropagationFlags::REC,
    )?;
    Ok(lying_below)
}

/// Mounts places of the disk in the tree, each with the rules of the disk's own mount, which goes
/// again: nothing else of the disk can be reached. Neither an image's links nor its names lead out
/// of it.
fn show(disk: &Path, tree: &Path, places: &[MachinePlace]) -> anyhow::Result<()> {
    let system = MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV;
    mount(disk, MACHINE_DISK, "erofs", system, None).context("the disk")?;
    let [disk, tree] = [Path::new(MACHINE_DISK), tree].map(|top| {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        rustix::fs::open(top, flags, Mode::empty())
    });
    let (disk, tree) = (disk?, tree?);
    for place in places {
        show_one(&disk, &tree, place).with_context(|| format!("`{}` of the disk", place.of))?;
    }
    drop(disk);
    unmount(MACHINE_DISK, UnmountFlags::DETACH).context("the disk")?;
    Ok(())
}

fn show_one(disk: &OwnedFd, tree: &OwnedFd, place: &MachinePlace) -> anyhow::Result<()> {
    let find = |top: &OwnedFd, path: &str| {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let resolve =
            ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        let path = if path.is_empty() { "." } else { path };
        openat2(top, path, flags, Mode::empty(), resolve)
    };
    let from = find(disk, &place.of)?;
    let to = find(tree, &place.at).with_context(|| format!("`{}`", place.at))?;
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_EMPTY_PATH;
    let copy = open_tree(&from, "", flags)?;
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    move_mount(&copy, "", &to, "", flags)?;
    Ok(())
}

fn mount_place(tree: &Path, place: &MachineMount) -> anyhow::Result<()> {
    let at = below(tree, &place.destination)?;
    let mut flags = MountFlags::empty();
    let mut data = Vec::new();
    for option in &place.options {
        match option.as_str() {
            "nosuid" => flags |= MountFlags::NOSUID,
            "nodev" => flags |= MountFlags::NODEV,
            "noexec" => flags |= MountFlags::NOEXEC,
            other => data.push(other),
        }
    }
    let data = CString::new(data.join(","))?;
    mount(
        place.kind.as_str(),
        at,
        place.kind.as_str(),
        flags,
        data.as_c_str(),
    )?;
    Ok(())
}

/// Makes a file of the workload's own, and the directory that it lies in.
pub(super) fn make_file(
    root: &Path,
    file: &MachineFile,
    settings: &Settings,
) -> anyhow::Result<()> {
    let at = below(root, &file.path)?;
    let (uid, gid) = (Some(settings.uid.as_raw()), Some(settings.gid.as_raw()));
    let directory = at.parent().context("a file needs a directory")?;
    if !directory.is_dir() {
        std::fs::create_dir(directory)?;
        chown(directory, uid, gid)?;
    }
    let mut options = std::fs::OpenOptions::new();
    let mut made = options.write(true).create_new(true).mode(0o600).open(&at)?;
    made.write_all(file.text.as_bytes())?;
    chown(&at, uid, gid)?;
    Ok(())
}

fn below(tree: &Path, path: &str) -> anyhow::Result<std::path::PathBuf> {
    let inside = Path::new(path).strip_prefix("/").context("not absolute")?;
    let is_plain = |part| matches!(part, std::path::Component::Normal(_));
    ensure!(inside.components().all(is_plain), "no plain path");
    Ok(tree.join(inside))
}
