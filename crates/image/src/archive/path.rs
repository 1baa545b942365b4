// SPDX-License-Identifier: Apache-2.0
//! Where an entry goes: plain names below the root, and nothing else. One spelling of it is left.

use super::ArchiveError;
use crate::limits::{DEPTH_MAX, NAME_BYTES_MAX, PATH_BYTES_MAX};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// A path below the root, without `.`, `..`, an empty name or NUL; empty for the root itself.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntryPath(Vec<u8>);

impl EntryPath {
    /// Reads a path of an archive: `./` before it and `/` behind it are usual and dropped.
    ///
    /// # Errors
    /// [`ArchiveError::Path`] for what leads out, or is spelled in a way that others read
    /// otherwise.
    pub fn parse(text: &[u8]) -> Result<Self, ArchiveError> {
        let refuse = |why| {
            Err(ArchiveError::Path {
                path: shown(text),
                why,
            })
        };
        if text.is_empty() || text.contains(&0) {
            return refuse("is empty or has a NUL in it");
        }
        if text.starts_with(b"/") {
            return refuse("is absolute");
        }
        let plain = text.strip_prefix(b"./").unwrap_or(text);
        let plain = plain.strip_suffix(b"/").unwrap_or(plain);
        if plain.is_empty() || plain == b"." {
            return Ok(Self(Vec::new()));
        }
        if plain.len() > PATH_BYTES_MAX {
            return refuse("is too long");
        }
        let mut depth = 0;
        for name in plain.split(|byte| *byte == b'/') {
            depth += 1;
            match name {
                b".." => return refuse("leads upwards"),
                b"" | b"." => return refuse("has an empty name or a `.` in it"),
                _ if name.len() > NAME_BYTES_MAX => return refuse("has a name that is too long"),
                _ if depth > DEPTH_MAX => return refuse("is nested too deeply"),
                _ => {}
            }
        }
        Ok(Self(plain.to_vec()))
    }

    /// The root itself.
    #[must_use]
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// The directory that it lies in, and its name there; nothing for the root.
    #[must_use]
    pub fn split(&self) -> Option<(Self, &OsStr)> {
        let at = self.0.iter().rposition(|byte| *byte == b'/');
        let (parent, name) = match at {
            Some(at) => self.0.split_at(at),
            None => (&[][..], self.0.as_slice()),
        };
        let name = name.strip_prefix(b"/").unwrap_or(name);
        (!name.is_empty()).then(|| (Self(parent.to_vec()), OsStr::from_bytes(name)))
    }

    /// A name below it.
    #[must_use]
    pub(crate) fn join(&self, name: &[u8]) -> Self {
        let mut path = self.0.clone();
        if !path.is_empty() {
            path.push(b'/');
        }
        path.extend_from_slice(name);
        Self(path)
    }

    /// Whether any of them lies below it.
    pub(crate) fn leads_to(&self, paths: &BTreeSet<Self>) -> bool {
        let below = self.join(b"");
        let first = paths.range(&below..).next();
        first.is_some_and(|path| path.0.starts_with(&below.0))
    }

    /// As a path for the system.
    #[must_use]
    pub fn as_path(&self) -> &Path {
        Path::new(OsStr::from_bytes(&self.0))
    }

    /// Its bytes.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// For a person's eyes.
    #[must_use]
    pub fn shown(&self) -> String {
        shown(&self.0)
    }

    /// Any hostile text for a person's eyes: inert and short.
    pub(crate) fn inert(text: &[u8]) -> String {
        shown(text)
    }
}

/// LIMIT: of a hostile name in an error.
const SHOWN_CHARACTERS_MAX: usize = 120;

/// Hostile bytes, inert and short.
pub(crate) fn shown(text: &[u8]) -> String {
    let plain = |character: char| {
        if character.is_ascii_graphic() && character != '`' {
            character
        } else {
            '?'
        }
    };
    let text = String::from_utf8_lossy(text);
    text.chars().take(SHOWN_CHARACTERS_MAX).map(plain).collect()
}
