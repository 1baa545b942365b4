// SPDX-License-Identifier: Apache-2.0
//! The one directory of the record. Every file is named relative to its descriptor, never followed
//! through a link, and created for the owner alone. [`Disk`] is what the recorder needs of the
//! newest segment's file; a port, so that a full or failing disk can be played in tests.

use rustix::fs::{self, AtFlags, FallocateFlags, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use std::fmt::Debug;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

/// The newest signed head.
pub(crate) const CHECKPOINT: &str = "checkpoint";
/// Every signed head, oldest first.
pub(crate) const CHECKPOINTS: &str = "checkpoints";
/// Disk kept back for ends and kills.
pub(crate) const RESERVE: &str = "reserve";

/// An open directory.
#[derive(Debug)]
pub(crate) struct Directory {
    handle: OwnedFd,
}

/// A segment by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SegmentName(pub(crate) u64);

impl SegmentName {
    pub(crate) fn file(self) -> String {
        format!("segment-{:020}.jsonl", self.0)
    }

    fn parse(name: &str) -> Option<Self> {
        let digits = name.strip_prefix("segment-")?.strip_suffix(".jsonl")?;
        let segment = Self(digits.parse().ok()?);
        (segment.file() == name).then_some(segment)
    }
}

impl Directory {
    /// Opens the directory; whether others may enter it is the second value.
    pub(crate) fn open(path: &Path) -> io::Result<(Self, bool)> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let handle = fs::open(path, flags, Mode::empty())?;
        let shared =
            Mode::from_raw_mode(fs::fstat(&handle)?.st_mode).intersects(Mode::RWXG | Mode::RWXO);
        Ok((Self { handle }, shared))
    }

    /// Takes the writer's lock; `false` when another process has it.
    pub(crate) fn lock(&self) -> io::Result<bool> {
        match fs::flock(&self.handle, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(true),
            Err(Errno::WOULDBLOCK) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Segments in order, and whether a file has a segment's prefix without its form.
    pub(crate) fn segments(&self) -> io::Result<(Vec<SegmentName>, bool)> {
        let mut segments = Vec::new();
        let mut odd = false;
        for entry in fs::Dir::read_from(&self.handle)? {
            let entry = entry?;
            let Ok(name) = entry.file_name().to_str() else {
                continue;
            };
            match SegmentName::parse(name) {
                Some(segment) => segments.push(segment),
                None => odd |= name.starts_with("segment-"),
            }
        }
        segments.sort_unstable();
        Ok((segments, odd))
    }

    /// Opens a file for reading; `None` when there is none.
    pub(crate) fn read(&self, name: &str) -> io::Result<Option<File>> {
        match self.open_file(name, OFlags::RDONLY) {
            Ok(file) => Ok(Some(file)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The whole of a small file; more than `limit` bytes is an error.
    pub(crate) fn read_small(&self, name: &str, limit: u64) -> io::Result<Option<Vec<u8>>> {
        let Some(file) = self.read(name)? else {
            return Ok(None);
        };
        let mut bytes = Vec::new();
        file.take(limit + 1).read_to_end(&mut bytes)?;
        if u64::try_from(bytes.len()).is_ok_and(|length| length <= limit) {
            Ok(Some(bytes))
        } else {
            Err(io::ErrorKind::FileTooLarge.into())
        }
    }

    /// A file that must not exist yet, for writing.
    pub(crate) fn create(&self, name: &str) -> io::Result<File> {
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR;
        let file = self.open_file(name, flags)?;
        self.sync()?;
        Ok(file)
    }

    /// A file that is there, for writing at any place.
    pub(crate) fn write(&self, name: &str) -> io::Result<File> {
        self.open_file(name, OFlags::RDWR)
    }

    /// A file for appending, made when it is not there.
    pub(crate) fn append(&self, name: &str) -> io::Result<File> {
        self.open_file(name, OFlags::CREATE | OFlags::APPEND | OFlags::RDWR)
    }

    /// Replaces a file as a whole, durably.
    pub(crate) fn replace(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let fresh = format!("{name}.new");
        let flags = OFlags::CREATE | OFlags::TRUNC | OFlags::WRONLY;
        let mut file = self.open_file(&fresh, flags)?;
        file.write_all(bytes)?;
        file.sync_data()?;
        fs::renameat(&self.handle, &fresh, &self.handle, name)?;
        self.sync()
    }

    /// Removes a file; one that is not there is fine.
    pub(crate) fn remove(&self, name: &str) -> io::Result<()> {
        match fs::unlinkat(&self.handle, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Sets disk aside for ends and kills; 0 sets none aside.
    pub(crate) fn set_reserve(&self, bytes: u64) -> io::Result<()> {
        if bytes == 0 {
            return self.remove(RESERVE);
        }
        let file = self.append(RESERVE)?;
        Ok(fs::fallocate(&file, FallocateFlags::empty(), 0, bytes)?)
    }

    /// Makes names durable.
    pub(crate) fn sync(&self) -> io::Result<()> {
        Ok(fs::fsync(&self.handle)?)
    }

    fn open_file(&self, name: &str, flags: OFlags) -> io::Result<File> {
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NOCTTY;
        let file = fs::openat(&self.handle, name, flags, Mode::RUSR | Mode::WUSR)?;
        Ok(File::from(file))
    }
}

/// A file that is written from its beginning to its end. It is written by one thread and flushed by
/// any.
pub(crate) trait Disk: Debug + Send + Sync {
    /// Writes all bytes at a place, or fails having written any part of them.
    fn write(&self, bytes: &[u8], at: u64) -> io::Result<()>;
    /// Returns once everything written before the call is on disk.
    fn sync(&self) -> io::Result<()>;
    /// Cuts the file.
    fn truncate(&self, length: u64) -> io::Result<()>;
}

impl Disk for File {
    fn write(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        self.write_all_at(bytes, at)
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_data()
    }

    fn truncate(&self, length: u64) -> io::Result<()> {
        self.set_len(length)
    }
}

/// How many bytes, as files count them.
pub(crate) fn byte_count(bytes: &[u8]) -> u64 {
    u64::try_from(bytes.len()).unwrap_or(u64::MAX)
}
