// SPDX-License-Identifier: Apache-2.0
//! What the recorder needs of the newest segment's file; a port, so that a full or failing disk can
//! be played in tests.

use rustix::fs::{FallocateFlags, fallocate};
use std::fmt::Debug;
use std::fs::File;
use std::io::{self, Write as _};

/// A file that grows at its end.
pub(crate) trait Disk: Debug + Send {
    /// Appends all bytes, or fails having appended any part of them.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;
    /// Returns once everything appended is on disk.
    fn sync(&mut self) -> io::Result<()>;
    /// Cuts the file, and gives back what was set aside behind its end.
    fn truncate(&mut self, length: u64) -> io::Result<()>;
    /// Sets room aside from `offset` on without changing the file's length.
    fn set_aside(&mut self, offset: u64, bytes: u64) -> io::Result<()>;
}

impl Disk for File {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.write_all(bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.sync_data()
    }

    fn truncate(&mut self, length: u64) -> io::Result<()> {
        self.set_len(length)
    }

    fn set_aside(&mut self, offset: u64, bytes: u64) -> io::Result<()> {
        Ok(fallocate(&*self, FallocateFlags::KEEP_SIZE, offset, bytes)?)
    }
}
