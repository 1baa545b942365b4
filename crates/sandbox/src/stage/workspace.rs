// SPDX-License-Identifier: Apache-2.0
//! The workspace inside: given to the sandbox's own ids, and cut by mounts to what the file rules
//! leave. Every step is by descriptor and beneath the workspace; no link is followed.

use super::inspect::inspect;
use super::{EMPTY_DIRECTORY, EMPTY_FILE, attach_at, detach, make_read_only, named, open_path};
use crate::plan::Plan;
use crate::plan::rules::Place;
use rustix::fs::{AtFlags, Dir, FileType, Gid, Mode, OFlags, ResolveFlags, Uid};
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

/// LIMIT: deeper trees than this are an attack on whoever walks them.
pub(super) const DEPTH_MAX: usize = 200;
/// LIMIT: entries of one workspace; the walk has to end.
pub(super) const ENTRIES_MAX: usize = 2_000_000;

/// Gives a directory and all below it to one id.
pub(crate) fn give_to(root: BorrowedFd<'_>, id: u32) -> io::Result<()> {
    let owner = (Uid::from_raw(id), Gid::from_raw(id));
    inspect(root)?;
    let mut budget = ENTRIES_MAX;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let root = rustix::fs::openat(root, ".", flags, Mode::empty())?;
    give_below(&root, owner, DEPTH_MAX, &mut budget)
}

fn give_below(
    directory: &OwnedFd,
    owner: (Uid, Gid),
    depth: usize,
    budget: &mut usize,
) -> io::Result<()> {
    if depth == 0 {
        return Err(io::Error::other("the workspace is nested too deeply"));
    }
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        *budget = budget
            .checked_sub(1)
            .ok_or_else(|| io::Error::other("the workspace has too many entries"))?;
        let (uid, gid) = (Some(owner.0), Some(owner.1));
        let is_directory = match entry.file_type() {
            FileType::Unknown => {
                let found = rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
                FileType::from_raw_mode(found.st_mode) == FileType::Directory
            }
            kind => kind == FileType::Directory,
        };
        if is_directory {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
            let below = rustix::fs::openat(directory, name, flags, Mode::empty())?;
            give_below(&below, owner, depth - 1, budget)?;
        } else {
            rustix::fs::chownat(directory, name, uid, gid, AtFlags::SYMLINK_NOFOLLOW)?;
        }
    }
    rustix::fs::fchown(directory, Some(owner.0), Some(owner.1))?;
    Ok(())
}

/// Narrows the workspace attached at `root`: written places stay writable, hidden ones are covered.
pub(super) fn apply_rules(root: &Path, plan: &Plan) -> io::Result<()> {
    let workspace = open_path(root)?;
    let everything = |place: &Place| place.path.as_os_str().is_empty();
    if let Some(places) = plan
        .rules
        .write
        .as_ref()
        .filter(|places| !places.iter().any(everything))
    {
        let mut writable = Vec::new();
        for place in places {
            let found = writable_place(workspace.as_fd(), place, plan)
                .map_err(|error| named(&place.path, error))?;
            writable.push((place, detach(found.as_fd(), false)?));
        }
        make_read_only(workspace.as_fd())?;
        for (place, tree) in writable {
            let at = beneath(workspace.as_fd(), &place.path)?;
            attach_at(&tree, at.as_fd())?;
        }
    }
    for place in &plan.rules.hide {
        match beneath(workspace.as_fd(), &place.path) {
            Ok(found) => hide(found.as_fd())?,
            Err(Errno::NOENT | Errno::NOTDIR) => {}
            Err(error) => return Err(named(&place.path, error)),
        }
    }
    Ok(())
}

fn hide(found: BorrowedFd<'_>) -> io::Result<()> {
    let is_directory =
        FileType::from_raw_mode(rustix::fs::fstat(found)?.st_mode) == FileType::Directory;
    let empty = open_path(Path::new(if is_directory {
        EMPTY_DIRECTORY
    } else {
        EMPTY_FILE
    }))?;
    attach_at(&detach(empty.as_fd(), true)?, found)
}

/// The place of a write rule; one that is missing is made, which shows as a change.
fn writable_place(workspace: BorrowedFd<'_>, place: &Place, plan: &Plan) -> io::Result<OwnedFd> {
    let found = match beneath(workspace, &place.path) {
        Err(Errno::NOENT) => {
            make(workspace, place, plan.ids.agent())?;
            beneath(workspace, &place.path)?
        }
        found => found?,
    };
    let is_directory =
        FileType::from_raw_mode(rustix::fs::fstat(&found)?.st_mode) == FileType::Directory;
    if is_directory == place.is_tree {
        Ok(found)
    } else {
        Err(io::Error::other(
            "a directory is written as `dir/**`, a file by its exact path",
        ))
    }
}

fn make(workspace: BorrowedFd<'_>, place: &Place, id: u32) -> io::Result<()> {
    let parent = match place
        .path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty())
    {
        Some(parent) => beneath(workspace, parent)?,
        None => workspace.try_clone_to_owned()?,
    };
    let name = place.path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    if place.is_tree {
        rustix::fs::mkdirat(&parent, name, Mode::from_raw_mode(0o755))?;
    } else {
        let flags =
            OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        rustix::fs::openat(&parent, name, flags, Mode::from_raw_mode(0o644))?;
    }
    let (uid, gid) = (Uid::from_raw(id), Gid::from_raw(id));
    rustix::fs::chownat(
        &parent,
        name,
        Some(uid),
        Some(gid),
        AtFlags::SYMLINK_NOFOLLOW,
    )?;
    Ok(())
}

fn beneath(workspace: BorrowedFd<'_>, path: &Path) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    rustix::fs::openat2(workspace, path, flags, Mode::empty(), resolve)
}
