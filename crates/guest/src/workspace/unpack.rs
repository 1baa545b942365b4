// SPDX-License-Identifier: Apache-2.0
//! The steps of a tree → files below one directory: each made new, by the handle of the directory
//! that it lies in.

use std::fs::File;
use std::io::Write as _;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, mkdirat, openat, symlinkat};
use rustix::io::Errno;
use torno_guest_protocol::ArchivePiece;

use crate::place::Failure;

/// A tree that is being made.
pub(super) struct Tree {
    /// The directories that are open, the top first.
    open: Vec<OwnedFd>,
    file: Option<File>,
}

impl Tree {
    pub(super) fn at(root: &Path) -> Result<Self, Failure> {
        let root = openat(CWD, root, DIRECTORY, Mode::empty())?;
        Ok(Self {
            open: vec![root],
            file: None,
        })
    }

    /// One step. The reader has made sure that it may come here.
    pub(super) fn take(&mut self, piece: &ArchivePiece) -> Result<(), Failure> {
        match piece {
            ArchivePiece::Directory(name) => {
                let name = name.as_bytes();
                mkdirat(self.innermost()?, name, Mode::from_raw_mode(0o700))?;
                let made = openat(self.innermost()?, name, DIRECTORY, Mode::empty())?;
                self.open.push(made);
            }
            ArchivePiece::File { name, is_program } => {
                let mode = Mode::from_raw_mode(if *is_program { 0o700 } else { 0o600 });
                let made = openat(self.innermost()?, name.as_bytes(), FRESH_FILE, mode)?;
                self.file = Some(File::from(made));
            }
            ArchivePiece::Content(bytes) => {
                self.file.as_mut().ok_or(Errno::BADF)?.write_all(bytes)?;
            }
            ArchivePiece::FileEnd => self.file = None,
            ArchivePiece::Link { name, target } => {
                symlinkat(target.as_ref(), self.innermost()?, name.as_bytes())?;
            }
            ArchivePiece::Leave | ArchivePiece::End => {
                self.open.pop();
            }
        }
        Ok(())
    }

    fn innermost(&self) -> Result<BorrowedFd<'_>, Failure> {
        Ok(self.open.last().ok_or(Errno::BADF)?.as_fd())
    }
}

const DIRECTORY: OFlags = OFlags::PATH
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);
const FRESH_FILE: OFlags = OFlags::WRONLY
    .union(OFlags::CREATE)
    .union(OFlags::EXCL)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);
