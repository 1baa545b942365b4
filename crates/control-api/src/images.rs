// SPDX-License-Identifier: Apache-2.0
//! The shelf: where unpacked images lie, and what is written beside each. `torno` fills it, the
//! launcher reads it; neither the launcher nor this module ever looks into an archive.

use rustix::fs::{FlockOperation, Mode, OFlags, flock};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use thiserror::Error;
use torno_policy::names::{ImageDigest, ImageName};

/// LIMIT: names of a top directory and of /etc, and a few variables.
const ABOUT_BYTES_MAX: u64 = 1 << 20;
/// LIMIT: a name's file holds one digest.
const NAME_BYTES_MAX: u64 = 128;

/// Why an image can't be had.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ShelfError {
    /// No such name.
    #[error("there is no image `{0}`")]
    Name(ImageName),
    /// No such digest.
    #[error("there is no image {0}")]
    Image(ImageDigest),
    /// A file of the shelf.
    #[error("`{0}` can't be read")]
    Read(PathBuf, #[source] io::Error),
    /// Its content.
    #[error("`{0}` is not what this version writes")]
    Content(PathBuf),
}

/// What lies at a place of an image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PartKind {
    /// A directory.
    Directory,
    /// A regular file.
    File,
    /// A symbolic link, and its target as it stands there.
    Link(String),
}

/// A place of an image that a sandbox may show: an entry of its top directory, of its `etc`, or
/// `var/lib`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    /// Relative to the image's root.
    pub path: String,
    /// What lies there.
    pub kind: PartKind,
}

/// What is known of an unpacked image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct About {
    /// The digest of its manifest.
    pub digest: ImageDigest,
    /// Where it came from, for people.
    pub source: String,
    /// Unix seconds.
    pub made_at: u64,
    /// Its layers.
    pub layers: u64,
    /// Its entries.
    pub entries: u64,
    /// Bytes of its files.
    pub bytes: u64,
    /// Devices and FIFOs that were left out.
    pub left_out: u64,
    /// SHA-256 of the unpacked tree: paths, kinds, rights and contents.
    pub tree: ImageDigest,
    /// Variables that its programs want.
    pub env: Vec<(String, String)>,
    /// What a sandbox may show of it.
    pub parts: Vec<Part>,
}

/// The directory with all images.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shelf(PathBuf);

/// An image that stays where it is as long as this is held.
#[derive(Debug)]
pub struct Held {
    /// What is known of it.
    pub about: About,
    /// Its root directory.
    pub root: PathBuf,
    _lock: File,
}

impl Shelf {
    /// The shelf in that directory.
    #[must_use]
    pub fn new(directory: PathBuf) -> Self {
        Self(directory)
    }

    /// The directory.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.0
    }

    /// Where names lie, a file each with the digest that it stands for.
    #[must_use]
    pub fn names(&self) -> PathBuf {
        self.0.join("names")
    }

    /// Where images lie, a directory each.
    #[must_use]
    pub fn images(&self) -> PathBuf {
        self.0.join("unpacked")
    }

    /// An image's directory.
    #[must_use]
    pub fn image(&self, digest: &ImageDigest) -> PathBuf {
        self.images().join(digest.hex())
    }

    /// The digest that a name stands for.
    ///
    /// # Errors
    /// [`ShelfError`].
    pub fn resolve(&self, name: &ImageName) -> Result<ImageDigest, ShelfError> {
        let path = self.names().join(name.as_str());
        let text = match read(&path, NAME_BYTES_MAX) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(ShelfError::Name(name.clone()));
            }
            text => text.map_err(|error| ShelfError::Read(path.clone(), error))?,
        };
        let text = std::str::from_utf8(&text).map(str::trim_end).ok();
        let digest = text.and_then(|text| ImageDigest::parse(text).ok());
        digest.ok_or(ShelfError::Content(path))
    }

    /// What is known of an image.
    ///
    /// # Errors
    /// [`ShelfError`].
    pub fn about(&self, digest: &ImageDigest) -> Result<About, ShelfError> {
        let path = self.image(digest).join(ABOUT);
        let text = match read(&path, ABOUT_BYTES_MAX) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(ShelfError::Image(digest.clone()));
            }
            text => text.map_err(|error| ShelfError::Read(path.clone(), error))?,
        };
        let about: Option<About> = serde_json::from_slice(&text).ok();
        let about = about.filter(|about| about.digest == *digest);
        about.ok_or(ShelfError::Content(path))
    }

    /// Takes hold of an image: while that lasts, it is not removed.
    ///
    /// # Errors
    /// [`ShelfError`].
    pub fn hold(&self, digest: &ImageDigest) -> Result<Held, ShelfError> {
        let directory = self.image(digest);
        let failed = |error: rustix::io::Errno| match error {
            rustix::io::Errno::NOENT => ShelfError::Image(digest.clone()),
            error => ShelfError::Read(directory.clone(), error.into()),
        };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let lock = rustix::fs::open(&directory, flags, Mode::empty()).map_err(failed)?;
        flock(&lock, FlockOperation::NonBlockingLockShared).map_err(failed)?;
        // Whoever removes it has renamed it first: what was locked must still be what is there.
        Ok(Held {
            about: self.about(digest)?,
            root: directory.join(ROOT),
            _lock: lock.into(),
        })
    }
}

/// Of an image's directory: what is known of it.
pub const ABOUT: &str = "image.json";
/// And its root directory.
pub const ROOT: &str = "root";

fn read(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    let mut text = Vec::new();
    file.take(bytes_max + 1).read_to_end(&mut text)?;
    if u64::try_from(text.len()).is_ok_and(|length| length <= bytes_max) {
        Ok(text)
    } else {
        Err(io::Error::other("it is too large"))
    }
}
