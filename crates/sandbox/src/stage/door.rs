// SPDX-License-Identifier: Apache-2.0
//! The launcher's way into a root directory that is closed already: to the memory below its
//! read-only mount, which no path inside leads to. What is written through it is there for the
//! sandbox at once. Whoever holds the last of it closes it for good.

use super::{named, open_path};
use crate::plan::{Plan, TreeStep};
use crate::runtime::ROOT;
use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

/// The doors of one sandbox.
#[derive(Debug)]
pub(crate) struct Doors {
    /// The root directory as it lay before the mount that was closed.
    root: OwnedFd,
    /// Home, where the launcher made it: memory of its own.
    home: Option<(PathBuf, OwnedFd)>,
}

impl Doors {
    /// Takes them, in the staging namespace.
    pub(crate) fn open(root: OwnedFd, plan: &Plan) -> io::Result<Self> {
        let home = plan.tree.iter().find_map(|step| match step {
            TreeStep::Home(path, ..) => Some(path.clone()),
            _ => None,
        });
        let home = match home {
            Some(path) => {
                let door = open_path(&Path::new(ROOT).join(&path))?;
                Some((path, door))
            }
            None => None,
        };
        Ok(Self { root, home })
    }

    /// Home, for who has to meet the sandbox there.
    pub(crate) fn home(&self) -> Option<BorrowedFd<'_>> {
        self.home.as_ref().map(|(_, door)| door.as_fd())
    }

    /// Writes a file of the plan anew; it was made by the start, and keeps its owner and mode.
    pub(crate) fn rewrite(&self, path: &Path, content: &[u8]) -> io::Result<()> {
        let below_home = self
            .home
            .as_ref()
            .and_then(|(home, door)| Some((door, path.strip_prefix(home).ok()?)));
        let (door, below) = below_home.unwrap_or((&self.root, path));
        let flags = OFlags::WRONLY | OFlags::TRUNC | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        // No user code has run, so there is no link to follow; it stays so if that is ever wrong.
        let resolve = ResolveFlags::BENEATH
            | ResolveFlags::NO_SYMLINKS
            | ResolveFlags::NO_MAGICLINKS
            | ResolveFlags::NO_XDEV;
        let file = openat2(door, below, flags, Mode::empty(), resolve)
            .map_err(|error| named(path, error))?;
        File::from(file)
            .write_all(content)
            .map_err(|error| named(path, error))
    }
}
