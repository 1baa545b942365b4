// SPDX-License-Identifier: Apache-2.0
//! A name in a directory that somebody else uses at the same time. What comes there comes whole and
//! in one step (renameat2(2)), and only where there still is what was looked at: the other's last
//! word is never lost.

use super::tree;
use crate::orders::BaselineEntry;
use anyhow::Context;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, RenameFlags, ResolveFlags};
use rustix::io::Errno;
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// What is put at a name.
pub(super) enum Content<'a> {
    /// A regular file with this content.
    File {
        /// Read to its end.
        from: &'a mut dyn Read,
        mode: Mode,
        /// It is on the disk before it is there.
        durable: bool,
    },
    /// A symbolic link to this text.
    Link(&'a str),
}

/// The directory of a path beneath `target`, made where it is missing, and the last name.
pub(super) fn parent<'p>(target: &OwnedFd, path: &'p str) -> anyhow::Result<(OwnedFd, &'p str)> {
    let open =
        |at: &OwnedFd, name: &str| rustix::fs::openat2(at, name, DIRECTORY, Mode::empty(), BENEATH);
    let mut directory = open(target, ".")?;
    let (parents, name) = path.rsplit_once('/').unwrap_or(("", path));
    for part in parents.split('/').filter(|part| !part.is_empty()) {
        directory = match open(&directory, part) {
            Err(Errno::NOENT) => {
                let mode = rustix::fs::fstat(&directory)?.st_mode & 0o755;
                rustix::fs::mkdirat(&directory, part, Mode::from_raw_mode(mode))?;
                let made = open(&directory, part)?;
                belongs_to(directory.as_fd(), made.as_fd())?;
                made
            }
            opened => opened?,
        };
    }
    Ok((directory, name))
}

const DIRECTORY: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::CLOEXEC);
/// Never out of the directory, and through no link on the way.
pub(super) const BENEATH: ResolveFlags = ResolveFlags::BENEATH
    .union(ResolveFlags::NO_SYMLINKS)
    .union(ResolveFlags::NO_MAGICLINKS);

/// What lies at a name: a file or a link; nothing where there is none. Anything else is an error.
pub(super) fn entry(
    directory: BorrowedFd<'_>,
    name: &str,
) -> anyhow::Result<Option<BaselineEntry>> {
    let found = match rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => return Ok(None),
        found => found?,
    };
    match FileType::from_raw_mode(found.st_mode) {
        FileType::RegularFile => {
            let tree::Entry::File { file, mode, .. } = tree::open_file(directory, name)? else {
                anyhow::bail!("it changed while it was read");
            };
            Ok(Some(BaselineEntry {
                digest: tree::digest(file)?,
                executable: mode & 0o100 != 0,
                link: false,
            }))
        }
        FileType::Symlink => {
            let to = rustix::fs::readlinkat(directory, name, Vec::new())?;
            let to = to.into_string().map_err(|_| anyhow::anyhow!("no UTF-8"))?;
            Ok(Some(BaselineEntry {
                digest: tree::text_digest(&to),
                executable: false,
                link: true,
            }))
        }
        _ => anyhow::bail!("neither a file nor a link lies there"),
    }
}

/// Whoever may read and write what is replaced may do so with what replaces it, and nobody else;
/// whether it may be executed is said anew. Nothing is returned where there is no file.
fn kept_mode((directory, name): (BorrowedFd<'_>, &str), wanted: Mode) -> Option<Mode> {
    let before = rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
    let is_file = FileType::from_raw_mode(before.st_mode) == FileType::RegularFile;
    let kept = before.st_mode & 0o666;
    // Who may read a program may execute it.
    let executed = if wanted.contains(Mode::XUSR) {
        (kept & 0o444) >> 2
    } else {
        0
    };
    is_file.then(|| Mode::from_raw_mode(kept | executed))
}

/// Puts it there and says what it is, unless something else than `expected` lies there: then that
/// stays, and nothing is returned.
pub(super) fn put(
    (directory, name): (BorrowedFd<'_>, &str),
    content: Content<'_>,
    expected: Option<&BaselineEntry>,
) -> anyhow::Result<Option<BaselineEntry>> {
    let fresh = fresh_name()?;
    let kept = match &content {
        Content::File { mode, .. } => kept_mode((directory, name), *mode),
        Content::Link(_) => None,
    };
    let made = make((directory, &fresh), content, kept);
    let put =
        made.and_then(|made| Ok(change((directory, name), &fresh, expected)?.then_some(made)));
    // What lay there before, or what was not wanted.
    match rustix::fs::unlinkat(directory, &*fresh, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => put,
        Err(error) => put.and(Err(error.into())),
    }
}

/// Takes away what lies there; false where that is not what was expected, which stays.
pub(super) fn take_away(
    (directory, name): (BorrowedFd<'_>, &str),
    expected: &BaselineEntry,
) -> anyhow::Result<bool> {
    if !is(directory, name, Some(expected))? {
        return Ok(false);
    }
    let aside = fresh_name()?;
    let keep = RenameFlags::NOREPLACE;
    rustix::fs::renameat_with(directory, name, directory, &*aside, keep)?;
    if is(directory, &aside, Some(expected))? {
        rustix::fs::unlinkat(directory, &*aside, AtFlags::empty())?;
        return Ok(true);
    }
    let back = rustix::fs::renameat_with(directory, &*aside, directory, name, keep);
    back.with_context(|| format!("what lay there is called `{aside}` now"))?;
    Ok(false)
}

/// Made beside, whole.
fn make(
    (directory, fresh): (BorrowedFd<'_>, &str),
    content: Content<'_>,
    kept: Option<Mode>,
) -> anyhow::Result<BaselineEntry> {
    let (from, mode, durable) = match content {
        Content::Link(to) => {
            rustix::fs::symlinkat(to, directory, fresh)?;
            return Ok(BaselineEntry {
                digest: tree::text_digest(to),
                executable: false,
                link: true,
            });
        }
        Content::File {
            from,
            mode,
            durable,
        } => (from, mode, durable),
    };
    // Nothing new is open to more than its directory is.
    let around = Mode::from_raw_mode(rustix::fs::fstat(directory)?.st_mode);
    let narrow = mode & (around | Mode::RUSR | Mode::WUSR | Mode::XUSR);
    let made = rustix::fs::openat(directory, fresh, FRESH_FILE, narrow)?;
    if let Some(kept) = kept {
        // While it is ours: a mode is its owner's to change.
        rustix::fs::fchmod(&made, kept)?;
    }
    belongs_to(directory, made.as_fd())?;
    let mut to = File::from(made);
    let mut hash = Sha256::new();
    let mut piece = vec![0; 64 * 1024];
    loop {
        let count = from.read(&mut piece)?;
        let bytes = piece.get(..count).unwrap_or_default();
        if bytes.is_empty() {
            break;
        }
        hash.update(bytes);
        to.write_all(bytes)?;
    }
    if durable {
        to.sync_all()?;
    }
    Ok(BaselineEntry {
        digest: data_encoding::HEXLOWER.encode(&hash.finalize()),
        executable: mode.contains(Mode::XUSR),
        link: false,
    })
}

/// Made new, through no link.
pub(super) const FRESH_FILE: OFlags = OFlags::WRONLY
    .union(OFlags::CREATE)
    .union(OFlags::EXCL)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// Whether what lies at a name has the expected content.
fn is(
    directory: BorrowedFd<'_>,
    name: &str,
    expected: Option<&BaselineEntry>,
) -> anyhow::Result<bool> {
    let about = |entry: &BaselineEntry| (entry.digest.clone(), entry.link);
    Ok(entry(directory, name)?.as_ref().map(about) == expected.map(about))
}

/// Puts what was made beside at a name; false where something else than expected lies there.
fn change(
    (directory, name): (BorrowedFd<'_>, &str),
    fresh: &str,
    expected: Option<&BaselineEntry>,
) -> anyhow::Result<bool> {
    if !is(directory, name, expected)? {
        return Ok(false);
    }
    if let Some(expected) = expected {
        return exchange((directory, name), fresh, expected);
    }
    match rustix::fs::renameat_with(directory, fresh, directory, name, RenameFlags::NOREPLACE) {
        Err(Errno::EXIST) => Ok(false),
        renamed => Ok(renamed.map(|()| true)?),
    }
}

/// Exchanges it for what lies there, looks at that and, were it something else, exchanges it back.
fn exchange(
    (directory, name): (BorrowedFd<'_>, &str),
    fresh: &str,
    expected: &BaselineEntry,
) -> anyhow::Result<bool> {
    let rename = |how| rustix::fs::renameat_with(directory, fresh, directory, name, how);
    match rename(RenameFlags::EXCHANGE) {
        // Gone since.
        Err(Errno::NOENT) => return Ok(false),
        // A file system that can't (NFS, some of FUSE): it was right a moment ago.
        Err(Errno::INVAL) => return Ok(rename(RenameFlags::empty()).map(|()| true)?),
        exchanged => exchanged?,
    }
    let is_right = is(directory, fresh, Some(expected)).unwrap_or(false);
    if !is_right {
        rename(RenameFlags::EXCHANGE)?;
    }
    Ok(is_right)
}

/// What is made belongs to whom its directory belongs to, whoever makes it.
fn belongs_to(directory: BorrowedFd<'_>, made: BorrowedFd<'_>) -> anyhow::Result<()> {
    let (wanted, is) = (rustix::fs::fstat(directory)?, rustix::fs::fstat(made)?);
    if wanted.st_uid != is.st_uid {
        let owner = rustix::fs::Uid::from_raw(wanted.st_uid);
        let group = rustix::fs::Gid::from_raw(wanted.st_gid);
        let given = rustix::fs::fchown(made, Some(owner), Some(group));
        given.context("its owner")?;
    }
    Ok(())
}

/// How a name begins that nobody has.
const FRESH: &str = ".torno-";

/// A name that nobody has.
fn fresh_name() -> anyhow::Result<String> {
    let mut random = [0_u8; 8];
    getrandom::fill(&mut random)?;
    let random = data_encoding::HEXLOWER.encode(&random);
    Ok(format!("{FRESH}{random}"))
}

/// Whether a path is what a porter that was killed has left beside a place: nobody's change, and
/// perhaps somebody's last word, so it stays where it is.
pub(super) fn is_left(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    let random = name.strip_prefix(FRESH).unwrap_or_default();
    random.len() == 16 && random.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests;
