// SPDX-License-Identifier: Apache-2.0
//! A walk over a directory by handle: each entry is opened beneath the directory it was listed in,
//! without following a link (openat(2) with `O_NOFOLLOW`), so nothing outside is ever reached.

use anyhow::{Context, bail, ensure};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// LIMIT: entries of a workspace; more is not a workspace but an archive.
const ENTRIES_MAX: usize = 1_000_000;
/// LIMIT: their paths together. Whoever walks keeps them, some twice: a tree of long names must not
/// take the host's memory.
const PATHS_BYTES_MAX: usize = 256 << 20;
/// LIMIT: directories inside each other; the deepest real trees have a few dozen.
const DEPTH_MAX: usize = 200;
/// LIMIT: a relative path, as Linux has it (PATH_MAX).
const PATH_BYTES_MAX: usize = 4096;

/// An entry that was found.
pub(super) enum Entry {
    /// A directory; it was entered.
    Directory,
    /// A regular file, opened for reading, with its size and mode.
    File { file: File, bytes: u64, mode: u32 },
    /// A symbolic link and its target's text.
    Link(String),
    /// A socket, FIFO or device.
    Special,
}

/// Calls `visit` for every entry below `root`, parents first, in order of names. Names that are no
/// UTF-8 stop the walk: they could not be shown to a person. What goes while it is walked is not
/// there: the tree may be in use.
pub(super) fn walk(
    root: &OwnedFd,
    visit: &mut dyn FnMut(&str, Entry) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    walk_where(root, &mut |_, _| true, visit)
}

/// The same, of what is wanted by its path and the mode that it has: nothing else is opened.
pub(super) fn walk_where(
    root: &OwnedFd,
    wanted: &mut dyn FnMut(&str, u32) -> bool,
    visit: &mut dyn FnMut(&str, Entry) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let mut left = Left {
        entries: ENTRIES_MAX,
        path_bytes: PATHS_BYTES_MAX,
    };
    walk_below((root.as_fd(), "", 0), &mut left, wanted, visit)
}

/// What a walk may still find.
struct Left {
    entries: usize,
    path_bytes: usize,
}

impl Left {
    fn take(&mut self, path: &str) -> anyhow::Result<()> {
        ensure!(
            path.len() <= PATH_BYTES_MAX,
            "the path `{path}` is longer than 4096 bytes"
        );
        let left = self.entries.checked_sub(1);
        self.entries = left.context("more than a million entries")?;
        let left = self.path_bytes.checked_sub(path.len());
        self.path_bytes = left.context("paths that are together longer than 256 MiB")?;
        Ok(())
    }
}

fn walk_below(
    (directory, prefix, depth): (BorrowedFd<'_>, &str, usize),
    left: &mut Left,
    wanted: &mut dyn FnMut(&str, u32) -> bool,
    visit: &mut dyn FnMut(&str, Entry) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    ensure!(
        depth <= DEPTH_MAX,
        "`{prefix}` lies more than {DEPTH_MAX} directories deep"
    );
    for name in names(directory, prefix, left.entries)? {
        let path = if prefix.is_empty() {
            name.clone()
        } else {
            format!("{prefix}/{name}")
        };
        left.take(&path)?;
        let about = || format!("`{path}`");
        let stat = there(rustix::fs::statat(
            directory,
            &name,
            AtFlags::SYMLINK_NOFOLLOW,
        ));
        let Some(stat) = stat.with_context(about)? else {
            continue;
        };
        if !wanted(&path, stat.st_mode) {
            continue;
        }
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => {
                let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let opened = rustix::fs::openat(directory, &name, flags, Mode::empty());
                let Some(opened) = there(opened).with_context(about)? else {
                    continue;
                };
                visit(&path, Entry::Directory)?;
                let below = (opened.as_fd(), path.as_str(), depth + 1);
                walk_below(below, left, wanted, visit)?;
            }
            FileType::RegularFile => match open_file(directory, &name) {
                Err(error) if is_gone(&error) => {}
                opened => visit(&path, opened.with_context(about)?)?,
            },
            FileType::Symlink => {
                let target = rustix::fs::readlinkat(directory, &name, Vec::new());
                let Some(target) = there(target).with_context(about)? else {
                    continue;
                };
                let target = target
                    .into_string()
                    .map_err(|_| anyhow::anyhow!("no UTF-8"));
                visit(&path, Entry::Link(target.with_context(about)?))?;
            }
            _ => visit(&path, Entry::Special)?,
        }
    }
    Ok(())
}

/// What was found, unless it went between two looks.
fn there<T>(found: rustix::io::Result<T>) -> rustix::io::Result<Option<T>> {
    match found {
        Err(rustix::io::Errno::NOENT) => Ok(None),
        found => found.map(Some),
    }
}

fn is_gone(error: &anyhow::Error) -> bool {
    error.downcast_ref() == Some(&rustix::io::Errno::NOENT)
}

/// The names of a directory, sorted; more than so many are refused before they are held.
pub(super) fn names(
    directory: BorrowedFd<'_>,
    prefix: &str,
    most: usize,
) -> anyhow::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(directory).with_context(|| format!("`{prefix}`"))? {
        let entry = entry.with_context(|| format!("`{prefix}`"))?;
        let Ok(name) = entry.file_name().to_str() else {
            bail!("a name in `{prefix}` is no UTF-8; rename it");
        };
        if name != "." && name != ".." {
            ensure!(names.len() < most, "more than a million entries");
            names.push(name.to_owned());
        }
    }
    names.sort_unstable();
    Ok(names)
}

/// Opens a regular file; what became something else since it was listed is an error.
pub(super) fn open_file(directory: BorrowedFd<'_>, name: &str) -> anyhow::Result<Entry> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let opened = rustix::fs::openat(directory, name, flags, Mode::empty())?;
    let stat = rustix::fs::fstat(&opened)?;
    ensure!(
        FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile,
        "it changed while it was read"
    );
    let bytes = u64::try_from(stat.st_size).context("a negative size")?;
    Ok(Entry::File {
        file: File::from(opened),
        bytes,
        mode: stat.st_mode & 0o777,
    })
}

/// SHA-256 of a stream, hex.
pub(super) fn digest(mut stream: impl Read) -> std::io::Result<String> {
    let mut hash = Sha256::new();
    let mut buffer = vec![0_u8; 64 * 1024];
    loop {
        let read = stream.read(&mut buffer)?;
        if read == 0 {
            return Ok(data_encoding::HEXLOWER.encode(&hash.finalize()));
        }
        hash.update(buffer.get(..read).unwrap_or_default());
    }
}

/// SHA-256 of a link's target, hex.
pub(super) fn text_digest(text: &str) -> String {
    data_encoding::HEXLOWER.encode(&Sha256::digest(text.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_bounded_together_and_each() {
        // ATTACK: 163
        let mut left = Left {
            entries: 3,
            path_bytes: 10,
        };
        left.take("12345").unwrap();
        let said = left.take(&"x".repeat(PATH_BYTES_MAX + 1)).unwrap_err();
        assert!(said.to_string().contains("longer than 4096"));
        left.take("12345").unwrap();
        let said = left.take("1").unwrap_err().to_string();
        assert!(said.contains("together"), "{said}");
        let mut none = Left {
            entries: 0,
            path_bytes: 10,
        };
        let said = none.take("1").unwrap_err().to_string();
        assert!(said.contains("a million entries"), "{said}");
    }

    #[test]
    fn a_directory_of_too_many_names_is_refused_before_they_are_held() {
        // ATTACK: 163
        let directory = tempfile::tempdir().unwrap();
        for name in ["a", "b", "c"] {
            std::fs::write(directory.path().join(name), "").unwrap();
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let opened = rustix::fs::open(directory.path(), flags, Mode::empty()).unwrap();
        assert_eq!(names(opened.as_fd(), "", 3).unwrap(), ["a", "b", "c"]);
        assert!(names(opened.as_fd(), "", 2).is_err());
    }
}
