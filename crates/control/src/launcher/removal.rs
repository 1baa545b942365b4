// SPDX-License-Identifier: Apache-2.0
//! Removal of a tree that a workload made: any depth, any names, links never followed. Directories
//! found inside are moved to the top one by one, so neither stack nor descriptors grow with depth.

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};
use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

/// Removes the directory and everything in it; one that is not there is gone already.
pub(super) fn remove_tree(path: &Path) -> io::Result<()> {
    let top = match open(rustix::fs::CWD, path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        opened => opened?,
    };
    let mut moved = 0_u64;
    loop {
        let entries = entries(top.as_fd())?;
        if entries.is_empty() {
            break;
        }
        for (name, kind) in entries {
            if kind != FileType::Directory {
                rustix::fs::unlinkat(&top, &name, AtFlags::empty())?;
                continue;
            }
            let inner = open(top.as_fd(), &name)?;
            for (child, kind) in self::entries(inner.as_fd())? {
                if kind != FileType::Directory {
                    rustix::fs::unlinkat(&inner, &child, AtFlags::empty())?;
                    continue;
                }
                rename_to_top(&inner, &child, &top, &mut moved)?;
            }
            rustix::fs::unlinkat(&top, &name, AtFlags::REMOVEDIR)?;
        }
    }
    drop(top);
    std::fs::remove_dir(path)
}

/// Moves a directory to the top under a name that is free there.
fn rename_to_top(
    inner: &OwnedFd,
    child: &CString,
    top: &OwnedFd,
    moved: &mut u64,
) -> io::Result<()> {
    loop {
        let fresh = format!(".removed-{moved}");
        *moved += 1;
        let flags = rustix::fs::RenameFlags::NOREPLACE;
        match rustix::fs::renameat_with(inner, child, top, &*fresh, flags) {
            Err(rustix::io::Errno::EXIST) => {}
            renamed => return Ok(renamed?),
        }
    }
}

fn open<P: rustix::path::Arg>(at: BorrowedFd<'_>, path: P) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(at, path, flags, Mode::empty())?)
}

fn entries(directory: BorrowedFd<'_>) -> io::Result<Vec<(CString, FileType)>> {
    let mut entries = Vec::new();
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        let kind = match entry.file_type() {
            FileType::Unknown => {
                let stat = rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
                FileType::from_raw_mode(stat.st_mode)
            }
            known => known,
        };
        entries.push((name.to_owned(), kind));
    }
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    // ATTACK: 158
    #[test]
    fn a_tree_deeper_than_any_stack_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().join("top");
        std::fs::create_dir(&top).unwrap();
        let mut at = open(rustix::fs::CWD, &top).unwrap();
        for _ in 0..20_000 {
            rustix::fs::mkdirat(&at, "d", Mode::from_raw_mode(0o700)).unwrap();
            at = open(at.as_fd(), "d").unwrap();
        }
        drop(at);
        remove_tree(&top).unwrap();
        assert!(!top.exists());
    }

    // ATTACK: 176
    #[test]
    fn links_are_removed_and_what_they_point_to_stays() {
        let dir = tempfile::tempdir().unwrap();
        let outside = dir.path().join("outside");
        std::fs::create_dir_all(outside.join("kept")).unwrap();
        let top = dir.path().join("top");
        std::fs::create_dir_all(top.join("a/.removed-0")).unwrap();
        std::fs::create_dir_all(top.join(".removed-0/x")).unwrap();
        std::os::unix::fs::symlink(&outside, top.join("a/link")).unwrap();
        remove_tree(&top).unwrap();
        assert!(!top.exists());
        assert!(outside.join("kept").exists());
        remove_tree(&top).unwrap();
    }
}
