// SPDX-License-Identifier: Apache-2.0
//! Where a file request may go: below the workspace or `/tmp`, found by handles and never by the
//! look of a path. Links are followed only while they stay below; without openat2 (gVisor) not at
//! all.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, ResolveFlags, Stat, fstat, openat, openat2, statat};
use rustix::io::Errno;
use torno_guest_protocol::FileFailure;
use torno_guest_protocol::message::PATH_BYTES_MAX;

use crate::settings::Settings;

/// Why a request failed: a code, and words for people.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) code: FileFailure,
    pub(crate) message: String,
}

impl Failure {
    pub(crate) fn new(code: FileFailure, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
        }
    }
}

impl From<Errno> for Failure {
    fn from(error: Errno) -> Self {
        let (code, advice) = match error {
            Errno::NOENT => (FileFailure::NotFound, "check the path"),
            Errno::EXIST => (FileFailure::Exists, "choose another name or ask to replace"),
            Errno::XDEV | Errno::LOOP => (
                FileFailure::Outside,
                "stay below the workspace or /tmp, without links out of it",
            ),
            Errno::NOTDIR => (FileFailure::NotADirectory, "check the path"),
            Errno::ISDIR => (FileFailure::NotAFile, "name a regular file"),
            Errno::NXIO | Errno::NODEV => (FileFailure::NotAFile, "name a regular file"),
            Errno::NOTEMPTY => (FileFailure::NotEmpty, "ask for a recursive removal"),
            Errno::ACCESS | Errno::PERM | Errno::ROFS | Errno::BUSY | Errno::TXTBSY => (
                FileFailure::Denied,
                "this place is protected in the sandbox",
            ),
            Errno::FBIG | Errno::OVERFLOW => (FileFailure::TooLarge, "take less at once"),
            Errno::NOSPC | Errno::DQUOT => (FileFailure::NoSpace, "remove something first"),
            Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::AGAIN => {
                (FileFailure::Busy, "try again later")
            }
            Errno::NAMETOOLONG | Errno::INVAL => (FileFailure::Outside, "check the path"),
            _ => (FileFailure::Failed, "see the system's message"),
        };
        Self::new(code, format!("{error}; {advice}"))
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        match Errno::from_io_error(&error) {
            Some(errno) => errno.into(),
            None => Self::new(FileFailure::Failed, error.to_string()),
        }
    }
}

/// A place below one of the two roots.
#[derive(Debug)]
pub(crate) struct Place {
    root: OwnedFd,
    /// Components below the root; none is empty, `.` or `..`.
    parts: Vec<String>,
}

impl Place {
    /// Reads a request's path. The text only chooses the root; all else is found by handle.
    // ATTACK: 166, 168
    pub(crate) fn parse(path: &str, settings: &Settings) -> Result<Self, Failure> {
        let outside = |why: &str| Err(Failure::new(FileFailure::Outside, why));
        if path.is_empty() || path.len() > PATH_BYTES_MAX || path.contains('\0') {
            return outside("the path is empty, too long or holds a NUL byte; correct it");
        }
        let parts: Vec<&str> = path
            .split('/')
            .filter(|part| !part.is_empty() && *part != ".")
            .collect();
        if parts.contains(&"..") {
            return outside("the path holds `..`; give it without");
        }
        let roots = [settings.workspace.as_path(), std::path::Path::new("/tmp")];
        let below = |root: &std::path::Path| {
            let mut rest = parts.as_slice();
            for part in root.components().skip(1) {
                let (first, others) = rest.split_first()?;
                if part.as_os_str() != *first {
                    return None;
                }
                rest = others;
            }
            Some(rest)
        };
        let (root, rest) = if path.starts_with('/') {
            match roots
                .into_iter()
                .find_map(|root| Some((root, below(root)?)))
            {
                Some(found) => found,
                None => {
                    return outside("only the workspace and /tmp can be reached; use a command");
                }
            }
        } else {
            (settings.workspace.as_path(), parts.as_slice())
        };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let root = openat(CWD, root, flags, Mode::empty())?;
        Ok(Self {
            root,
            parts: rest.iter().map(|&part| part.to_owned()).collect(),
        })
    }

    /// Opens the place itself; a link at its end is followed if it stays below the root.
    pub(crate) fn open(&self, flags: OFlags, mode: Mode) -> Result<OwnedFd, Failure> {
        Ok(open_below(self.root.as_fd(), &self.parts, flags, mode)?)
    }

    /// The directory that holds the place, and its name there.
    pub(crate) fn parent(&self) -> Result<(OwnedFd, &str), Failure> {
        let Some((name, parents)) = self.parts.split_last() else {
            return Err(Failure::new(
                FileFailure::Denied,
                "the workspace and /tmp themselves stay; name something in them",
            ));
        };
        let flags = OFlags::PATH | OFlags::DIRECTORY;
        Ok((
            open_below(self.root.as_fd(), parents, flags, Mode::empty())?,
            name,
        ))
    }

    /// Every place on the way, from the root's own child to this one.
    pub(crate) fn ancestors(&self) -> Result<Vec<Self>, Failure> {
        (1..=self.parts.len())
            .map(|count| {
                let parts = self.parts.iter().take(count).cloned().collect();
                Ok(Self {
                    root: self.root.try_clone()?,
                    parts,
                })
            })
            .collect()
    }

    /// What is there, a link at the end not followed.
    pub(crate) fn stat(&self) -> Result<Stat, Failure> {
        match self.parent() {
            Ok((directory, name)) => Ok(statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW)?),
            Err(_) if self.parts.is_empty() => Ok(fstat(&self.root)?),
            Err(failure) => Err(failure),
        }
    }
}

fn open_below(
    root: BorrowedFd<'_>,
    parts: &[String],
    flags: OFlags,
    mode: Mode,
) -> rustix::io::Result<OwnedFd> {
    let flags = flags | OFlags::CLOEXEC;
    let path = if parts.is_empty() {
        ".".to_owned()
    } else {
        parts.join("/")
    };
    // openat2 takes no flag that means nothing to a mere handle.
    let flags = if flags.contains(OFlags::PATH) {
        flags
    } else {
        flags | OFlags::NOCTTY
    };
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    for _ in 0..RACES_MAX {
        match openat2(root, path.as_str(), flags, mode, resolve) {
            // A rename or mount went on meanwhile, and the kernel can't be sure.
            Err(Errno::AGAIN) => {}
            Err(Errno::NOSYS) => return walk_below(root, parts, flags, mode),
            result => return result,
        }
    }
    Err(Errno::AGAIN)
}

/// The same without openat2: a handle for each component, links refused.
fn walk_below(
    root: BorrowedFd<'_>,
    parts: &[String],
    flags: OFlags,
    mode: Mode,
) -> rustix::io::Result<OwnedFd> {
    let flags = flags | OFlags::NOFOLLOW;
    let Some((last, parents)) = parts.split_last() else {
        return openat(root, ".", flags, mode);
    };
    let mut directory = root.try_clone_to_owned().map_err(|_| Errno::MFILE)?;
    let step = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    for part in parents {
        directory = openat(&directory, part.as_str(), step, Mode::empty())?;
    }
    openat(&directory, last.as_str(), flags, mode)
}

// LIMIT: a hostile renamer can spoil every try; then the request fails.
const RACES_MAX: u32 = 16;

#[cfg(test)]
mod tests;
