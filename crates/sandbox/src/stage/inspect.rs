// SPDX-License-Identifier: Apache-2.0
//! What may not be in a workspace that is given away.

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat, fstat, openat, statat};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::workspace::{DEPTH_MAX, ENTRIES_MAX};

/// Walks the directory; refuses what would reach out of it: ownership of an outside link's file
/// would go with it.
pub(crate) fn inspect(root: BorrowedFd<'_>) -> io::Result<()> {
    let root = openat(root, ".", DIRECTORY, Mode::empty())?;
    let mut walk = Walk {
        device: fstat(&root)?.st_dev,
        budget: ENTRIES_MAX,
        links: BTreeMap::new(),
    };
    walk.below(&root, Path::new(""), DEPTH_MAX)?;
    if let Some((path, ..)) = walk.links.values().find(|(_, links, seen)| seen < links) {
        return Err(refused(path, "has a hard link outside of the directory"));
    }
    Ok(())
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
        Ok(())
    }
}

fn refused(path: &Path, why: &str) -> io::Error {
    io::Error::other(format!(
        "`{}` {why}, which a workspace may not have: remove it",
        path.display()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixListener;

    fn inspected(fill: impl FnOnce(&Path)) -> Result<(), String> {
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
        assert_eq!(found, Ok(()));
    }
}
