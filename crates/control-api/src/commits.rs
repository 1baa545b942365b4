// SPDX-License-Identifier: Apache-2.0
//! What a session committed, on its way from a porter to the person's `torno`: names and ids in the
//! one form that git writes, and objects as bytes that nobody has looked into yet.
//!
//! A stream is frames, each a length, a head in JSON, and for an object or a pack so many bytes.
//! `End` is its last one; a stream without it broke off. Refs come first, so that in a session that
//! lives every object of theirs comes after them.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::io::{self, Read, Write};
use torno_policy::names::SessionId;

/// LIMIT: a name. Git keeps a ref as a file and locks it beside (`NAME.lock`); file names have 255
/// bytes, and ours stands below `refs/torno/SESSION/`.
const NAME_BYTES_MAX: usize = 200;
/// LIMIT: a head of a frame: a name and an id, or two sentences.
const HEAD_BYTES_MAX: usize = 8 * 1024;
/// LIMIT: refs that are read; a mirror of a busy repository has some thousands.
pub const REFS_MAX: usize = 20_000;
/// LIMIT: loose objects; git packs what is above 6,700 (git-config(1), `gc.auto`).
pub const OBJECTS_MAX: usize = 200_000;
/// LIMIT: packs; git makes one of more than 50 (`gc.autoPackLimit`).
pub const PACKS_MAX: usize = 1_000;
/// LIMIT: bytes of objects and packs together, as they are on disk.
pub const BYTES_MAX: u64 = 8 << 30;
/// LIMIT: what is told to have been left, so that a hostile repository can't fill a screen.
pub const LEFT_MAX: usize = 100;

/// A branch or a tag by its whole name, as git-check-ref-format(1) has it, and stricter: it is
/// UTF-8 without control characters, and no part of it begins like an option.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RefName(String);

/// Why a name is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RefNameError {
    /// Neither branch nor tag.
    #[error("it is neither a branch nor a tag")]
    Elsewhere,
    /// Longer than a file's name can be.
    #[error("its name is longer than {NAME_BYTES_MAX} bytes")]
    Long,
    /// Against the rules for names.
    #[error("git allows no such name, or it reads like something else")]
    Odd,
}

impl RefName {
    /// Reads a whole name.
    ///
    /// # Errors
    /// [`RefNameError`].
    pub fn parse(text: &str) -> Result<Self, RefNameError> {
        let kinds = ["refs/heads/", "refs/tags/"];
        let name = kinds.iter().find_map(|kind| text.strip_prefix(kind));
        let name = name.ok_or(RefNameError::Elsewhere)?;
        if text.len() > NAME_BYTES_MAX {
            return Err(RefNameError::Long);
        }
        let odd = |c: char| c.is_control() || " ~^:?*[\\".contains(c);
        let part = |part: &str| {
            !part.is_empty() && !part.starts_with(['.', '-']) && !part.ends_with(".lock")
        };
        let is_name = name.split('/').all(part)
            && !name.contains(odd)
            && !name.contains("..")
            && !name.contains("@{")
            && !name.ends_with('.')
            && !matches!(name, "@" | "HEAD");
        if is_name {
            Ok(Self(text.to_owned()))
        } else {
            Err(RefNameError::Odd)
        }
    }

    /// The whole name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Where it stands in the person's repository: below a place that is the session's alone.
    #[must_use]
    pub fn of_session(&self, session: &SessionId) -> String {
        let name = self.0.strip_prefix("refs/").unwrap_or(&self.0);
        format!("refs/torno/{session}/{name}")
    }

    /// Whether both can be files of one directory: neither lies below the other, and they are not
    /// the same to a file system that takes upper and lower case for one.
    #[must_use]
    pub fn clashes(&self, other: &Self) -> bool {
        let (one, two) = (self.0.to_lowercase(), other.0.to_lowercase());
        let below = |one: &str, two: &str| {
            let rest = one.strip_prefix(two);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        below(&one, &two) || below(&two, &one)
    }
}

impl TryFrom<String> for RefName {
    type Error = RefNameError;
    fn try_from(text: String) -> Result<Self, RefNameError> {
        Self::parse(&text)
    }
}

impl From<RefName> for String {
    fn from(name: RefName) -> Self {
        name.0
    }
}

impl fmt::Display for RefName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The id of an object in a repository of SHA-1: 40 digits, lower case, and not the null id.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ObjectId(String);

impl ObjectId {
    /// Reads an id.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let is_id = text.len() == 40 && text.bytes().all(is_digit);
        (is_id && text.bytes().any(|byte| byte != b'0')).then(|| Self(text.to_owned()))
    }

    /// The digits.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The directory of a loose object and its file there.
    #[must_use]
    pub fn place(&self) -> (&str, &str) {
        self.0.split_at_checked(2).unwrap_or(("", ""))
    }
}

/// A digit of an id, as git writes it.
#[must_use]
pub fn is_digit(byte: u8) -> bool {
    matches!(byte, b'0'..=b'9' | b'a'..=b'f')
}

impl TryFrom<String> for ObjectId {
    type Error = &'static str;
    fn try_from(text: String) -> Result<Self, Self::Error> {
        Self::parse(&text).ok_or("no object id")
    }
}

impl From<ObjectId> for String {
    fn from(id: ObjectId) -> Self {
        id.0
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// One step of the stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Frame {
    /// A branch or a tag, and what it is at.
    Ref {
        /// Its name.
        name: RefName,
        /// The object.
        id: ObjectId,
    },
    /// What was found and does not come.
    Left {
        /// What, as the repository says it: hostile text.
        what: String,
        /// Why, in words.
        why: String,
    },
    /// The file of a loose object follows.
    Object {
        /// What its name says that it is; nobody has looked.
        id: ObjectId,
        /// How long it is.
        bytes: u64,
    },
    /// A pack follows.
    Pack {
        /// How long it is.
        bytes: u64,
    },
    /// Nothing comes back of this repository.
    Failed {
        /// Why, in words that may hold hostile text.
        why: String,
    },
    /// That was all.
    End,
}

/// Writes a frame's head. The bytes of an object or a pack are the caller's to send.
///
/// # Errors
/// When the reader is gone, or a sentence is longer than a head may be.
pub fn write_frame(to: &mut impl Write, frame: &Frame) -> io::Result<()> {
    let head = serde_json::to_vec(frame)?;
    let long = || io::Error::other("a frame is too long");
    if head.len() > HEAD_BYTES_MAX {
        return Err(long());
    }
    let length = u32::try_from(head.len()).map_err(|_| long())?;
    to.write_all(&length.to_be_bytes())?;
    to.write_all(&head)
}

/// Reads a frame's head. The bytes of an object or a pack have to be read before the next one.
///
/// # Errors
/// When the stream breaks off, or holds what is no frame.
pub fn read_frame(from: &mut impl Read) -> io::Result<Frame> {
    let mut length = [0; 4];
    from.read_exact(&mut length)?;
    let length = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
    if length > HEAD_BYTES_MAX {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "no frame is so long",
        ));
    }
    let mut head = vec![0; length];
    from.read_exact(&mut head)?;
    Ok(serde_json::from_slice(&head)?)
}

/// What may still come in one stream; both ends count by it.
#[derive(Debug, Clone, Copy)]
pub struct Budget {
    refs: usize,
    left: usize,
    objects: usize,
    packs: usize,
    bytes: u64,
}

impl Default for Budget {
    fn default() -> Self {
        Self {
            refs: REFS_MAX,
            // One more says how many are not told.
            left: LEFT_MAX + 1,
            objects: OBJECTS_MAX,
            packs: PACKS_MAX,
            bytes: BYTES_MAX,
        }
    }
}

/// More than a limit allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the repository has more {0} than a limit allows; `git gc` inside makes it smaller")]
pub struct OverBudget(&'static str);

impl Budget {
    /// Takes a frame from it.
    ///
    /// # Errors
    /// [`OverBudget`] at a limit.
    pub fn take(&mut self, frame: &Frame) -> Result<(), OverBudget> {
        let one = |left: &mut usize, what| {
            *left = left.checked_sub(1).ok_or(OverBudget(what))?;
            Ok(())
        };
        match frame {
            Frame::Ref { .. } => one(&mut self.refs, "refs (20,000)"),
            Frame::Left { .. } => one(&mut self.left, "to be left"),
            Frame::Object { bytes, .. } => {
                one(&mut self.objects, "loose objects (200,000)")?;
                self.take_bytes(*bytes)
            }
            Frame::Pack { bytes } => {
                one(&mut self.packs, "packs (1,000)")?;
                self.take_bytes(*bytes)
            }
            Frame::Failed { .. } | Frame::End => Ok(()),
        }
    }

    fn take_bytes(&mut self, bytes: u64) -> Result<(), OverBudget> {
        let left = self.bytes.checked_sub(bytes);
        self.bytes = left.ok_or(OverBudget("bytes of objects (8 GiB)"))?;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
