// SPDX-License-Identifier: Apache-2.0
//! What may not be in a workspace; and of a person's own directory as one: which of its files run
//! on the host
//! when the person uses git, and the mount that shifts its ids.

use crate::sys;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat, fstat, openat, statat};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::workspace::{DEPTH_MAX, ENTRIES_MAX};

/// LIMIT: each repository costs up to five mounts.
const REPOSITORIES_MAX: usize = 64;

/// What a walk of the directory found.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Findings {
    /// `.git` directories and files: they become mounts, so that they can't be moved away.
    pub(crate) repositories: Vec<PathBuf>,
    /// Configuration and hooks: read-only.
    pub(crate) executing: Vec<PathBuf>,
}

/// Walks the directory; refuses what would reach out of it: before a copy is given away too, since
/// ownership of an outside link's file would go with it.
pub(crate) fn inspect(root: BorrowedFd<'_>) -> io::Result<Findings> {
    let root = openat(root, ".", DIRECTORY, Mode::empty())?;
    let mut walk = Walk {
        device: fstat(&root)?.st_dev,
        budget: ENTRIES_MAX,
        links: BTreeMap::new(),
        found: Findings::default(),
    };
    walk.below(&root, Path::new(""), DEPTH_MAX)?;
    if let Some((path, ..)) = walk.links.values().find(|(_, links, seen)| seen < links) {
        return Err(refused(path, "has a hard link outside of the directory"));
    }
    if walk.found.repositories.len() > REPOSITORIES_MAX {
        return Err(io::Error::other(
            "the directory holds more than 64 repositories: bind one of them",
        ));
    }
    Ok(walk.found)
}

const DIRECTORY: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::CLOEXEC)
    .union(OFlags::NOFOLLOW);

struct Walk {
    device: u64,
    budget: usize,
    /// Inode → first path, links of the inode, links seen.
    links: BTreeMap<u64, (PathBuf, u128, u128)>,
    found: Findings,
}

impl Walk {
    fn below(&mut self, directory: &OwnedFd, at: &Path, depth: usize) -> io::Result<()> {
        if depth == 0 {
            return Err(refused(at, "is nested too deeply"));
        }
        for entry in Dir::read_from(directory)? {
            let entry = entry?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name == "." || name == ".." {
                continue;
            }
            let path = at.join(name);
            self.budget = self
                .budget
                .checked_sub(1)
                .ok_or_else(|| io::Error::other("the directory has too many entries"))?;
            let found = statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
            self.see(&path, &found)?;
            if FileType::from_raw_mode(found.st_mode) == FileType::Directory {
                self.below(
                    &openat(directory, name, DIRECTORY, Mode::empty())?,
                    &path,
                    depth - 1,
                )?;
            }
        }
        Ok(())
    }

    fn see(&mut self, path: &Path, found: &Stat) -> io::Result<()> {
        if found.st_dev != self.device {
            return Err(refused(path, "is on another file system"));
        }
        match FileType::from_raw_mode(found.st_mode) {
            FileType::Directory | FileType::Symlink => {}
            FileType::RegularFile => {
                if found.st_nlink > 1 {
                    let links = u128::from(found.st_nlink);
                    self.links
                        .entry(found.st_ino)
                        .or_insert_with(|| (path.to_owned(), links, 0))
                        .2 += 1;
                }
            }
            _ => return Err(refused(path, "is a socket, FIFO or device")),
        }
        self.note_git(path);
        Ok(())
    }

    fn note_git(&mut self, path: &Path) {
        let name = path.file_name().unwrap_or_default();
        let parent = path.parent().unwrap_or_else(|| Path::new(""));
        let in_repository = parent.file_name().is_some_and(|name| name == ".git");
        let in_modules = parent
            .components()
            .collect::<Vec<_>>()
            .windows(2)
            .any(|pair| {
                matches!(pair, [git, below]
                if git.as_os_str() == ".git" && below.as_os_str() == "modules")
            });
        if name == ".git" {
            self.found.repositories.push(path.to_owned());
        } else if (in_repository || in_modules)
            && EXECUTING.iter().any(|executing| name == *executing)
        {
            self.found.executing.push(path.to_owned());
        }
    }
}

/// What git runs, or is told by what to run.
const EXECUTING: [&str; 3] = ["config", "config.worktree", "hooks"];

fn refused(path: &Path, why: &str) -> io::Error {
    io::Error::other(format!(
        "`{}` {why}, which a workspace may not have: remove it",
        path.display()
    ))
}

/// Shows the owner's files as the sandbox's, and makes what the sandbox writes the owner's.
pub(super) fn shift(tree: BorrowedFd<'_>, inside: u32) -> io::Result<()> {
    let owner = fstat(tree)?;
    if owner.st_uid == 0 {
        return Err(io::Error::other(
            "a directory of root is not bound: use a copy of the workspace",
        ));
    }
    let namespace = sys::user_namespace(|child| {
        let child = child.as_raw_nonzero();
        let write = |kind: &str, id: u32| {
            let file = format!("/proc/{child}/{kind}_map");
            std::fs::write(file, format!("{id} {inside} 1\n"))
        };
        write("uid", owner.st_uid)?;
        write("gid", owner.st_gid)
    })?;
    sys::shift_ids(tree, namespace.as_fd())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::net::UnixListener;

    fn inspected(fill: impl FnOnce(&Path)) -> Result<Findings, String> {
        let outer = tempfile::tempdir().unwrap();
        let root = outer.path().join("work");
        fs::create_dir(&root).unwrap();
        fs::write(outer.path().join("outside"), "x").unwrap();
        fill(&root);
        inspect(fs::File::open(&root).unwrap().as_fd()).map_err(|error| error.to_string())
    }

    #[test]
    fn a_tree_that_reaches_out_of_itself_is_refused() {
        let error = inspected(|root| drop(UnixListener::bind(root.join("socket")).unwrap()));
        assert!(error.unwrap_err().contains("`socket` is a socket"));
        let error = inspected(|root| {
            rustix::fs::mknodat(
                rustix::fs::CWD,
                root.join("fifo"),
                FileType::Fifo,
                Mode::RUSR,
                0,
            )
            .unwrap();
        });
        assert!(error.unwrap_err().contains("`fifo` is a socket, FIFO"));
        let error = inspected(|root| {
            fs::hard_link(root.with_file_name("outside"), root.join("link")).unwrap()
        });
        assert!(
            error
                .unwrap_err()
                .contains("`link` has a hard link outside")
        );
    }

    #[test]
    fn hard_links_within_the_tree_are_its_own() {
        let found = inspected(|root| {
            fs::write(root.join("a"), "x").unwrap();
            fs::hard_link(root.join("a"), root.join("b")).unwrap();
        });
        assert_eq!(found, Ok(Findings::default()));
    }

    #[test]
    fn what_git_runs_is_found_in_repositories_and_submodules() {
        let found = inspected(|root| {
            for path in [".git/hooks", ".git/modules/sub/hooks", "src/hooks"] {
                fs::create_dir_all(root.join(path)).unwrap();
            }
            for path in [
                ".git/config",
                ".git/HEAD",
                ".git/modules/sub/config",
                "src/config",
            ] {
                fs::write(root.join(path), "x").unwrap();
            }
        })
        .unwrap();
        assert_eq!(found.repositories, [Path::new(".git")]);
        let mut executing = found.executing;
        executing.sort();
        assert_eq!(
            executing,
            [
                ".git/config",
                ".git/hooks",
                ".git/modules/sub/config",
                ".git/modules/sub/hooks"
            ]
            .map(PathBuf::from)
        );
    }
}
