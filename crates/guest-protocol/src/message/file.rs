// SPDX-License-Identifier: Apache-2.0
//! What is said about files: what a path is, what a directory holds, how a write treats what is
//! there, and why a request failed.

use serde::{Deserialize, Serialize};

// LIMIT: Linux's own PATH_MAX; a longer path can't be opened anyway.
/// The longest path, in bytes, that a file request may name.
pub const PATH_BYTES_MAX: usize = 4_096;

// LIMIT: one page of a listing; with `LISTING_BYTES_MAX` it always fits one control frame.
/// The most entries in one [`super::GuestMessage::DirectoryListed`].
pub const LISTING_ENTRIES_MAX: usize = 1_000;

// LIMIT: names are at most 255 bytes but JSON may write six characters for one; a page is closed by
// its encoded length, well below a control frame's limit.
/// The most bytes of encoded entries in one [`super::GuestMessage::DirectoryListed`].
pub const LISTING_BYTES_MAX: usize = 128 * 1024;

/// What a [`super::HostMessage::WriteFile`] does with what is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WriteMode {
    /// Fails if the path exists.
    CreateNew,
    /// Replaces the content, or creates the file.
    Replace,
    /// Adds at the end, or creates the file.
    Append,
}

/// Why a file request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileFailure {
    /// No such path.
    NotFound,
    /// There already.
    Exists,
    /// The path leads out of the workspace and `/tmp`, or can't be one.
    Outside,
    /// Not a regular file (FIFO, socket, device, directory).
    NotAFile,
    /// Not a directory.
    NotADirectory,
    /// A directory that isn't empty.
    NotEmpty,
    /// Permission or a read-only mount.
    Denied,
    /// Longer than was asked for.
    TooLarge,
    /// The disk, its quota or its inodes are full.
    NoSpace,
    /// Too many requests at once.
    Busy,
    /// Anything else; the message says what.
    Failed,
}

/// What a path is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// FIFO, socket or device: visible, never opened.
    Special,
}

/// One path's description.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileMetadata {
    /// What it is.
    pub kind: FileKind,
    /// Length in bytes, of a regular file.
    pub bytes: u64,
    /// Permission bits.
    pub mode: u32,
    /// Last change of the content, seconds since 1970; the guest's clock and the guest's word.
    pub modified: i64,
}

/// One name of a directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DirectoryEntry {
    /// The name; not canonical, may hold any character but `/` and NUL.
    pub name: String,
    /// The name wasn't UTF-8 and is shown with replacement characters: it can't be addressed.
    pub is_lossy: bool,
    /// What it is and how long.
    pub metadata: FileMetadata,
}
