// SPDX-License-Identifier: Apache-2.0
//! The shelf: where unpacked images lie, and what is written beside each. `torno` fills it; the
//! launcher reads it, and adds an image's disk when a machine is made of it for the first time.
//! Neither the launcher nor this module ever looks into an archive.

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
    directory: PathBuf,
    _lock: File,
}

/// An image as a machine's disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Disk {
    /// Its file.
    pub path: PathBuf,
    /// Its SHA-256 when it was made: the file is called by it.
    pub digest: ImageDigest,
}

/// The right to make an image's disk.
#[derive(Debug)]
pub struct DiskPlace {
    directory: PathBuf,
    _lock: File,
}

impl Held {
    /// Its disk, if that was made.
    ///
    /// # Errors
    /// [`ShelfError::Read`].
    pub fn disk(&self) -> Result<Option<Disk>, ShelfError> {
        find_disk(&self.directory)
    }

    /// Waits until nobody else makes its disk.
    ///
    /// # Errors
    /// [`ShelfError::Read`].
    pub fn disk_place(&self) -> Result<DiskPlace, ShelfError> {
        let path = self.directory.join(DISK_LOCK);
        let flags = OFlags::CREATE | OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let lock = rustix::fs::open(&path, flags, Mode::RUSR | Mode::WUSR);
        let failed = |error: rustix::io::Errno| ShelfError::Read(path.clone(), error.into());
        let lock = lock.map_err(failed)?;
        flock(&lock, FlockOperation::LockExclusive).map_err(failed)?;
        Ok(DiskPlace {
            directory: self.directory.clone(),
            _lock: lock.into(),
        })
    }
}

impl DiskPlace {
    /// Where it is made.
    #[must_use]
    pub fn unfinished(&self) -> PathBuf {
        self.directory.join(DISK_UNFINISHED)
    }

    /// What was made there is the disk from now on, under its digest.
    ///
    /// # Errors
    /// [`ShelfError::Read`].
    pub fn keep(self, digest: &ImageDigest) -> Result<(), ShelfError> {
        let name = format!("{DISK_START}{}{DISK_END}", digest.hex());
        let path = self.directory.join(name);
        let kept = std::fs::rename(self.unfinished(), &path);
        kept.map_err(|error| ShelfError::Read(path, error))
    }
}

fn find_disk(directory: &Path) -> Result<Option<Disk>, ShelfError> {
    let failed = |error| ShelfError::Read(directory.to_owned(), error);
    for entry in std::fs::read_dir(directory).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name();
        let digest = name.to_str().and_then(|name| {
            let hex = name.strip_prefix(DISK_START)?.strip_suffix(DISK_END)?;
            ImageDigest::parse(&format!("sha256:{hex}")).ok()
        });
        if let Some(digest) = digest
            && entry.file_type().map_err(failed)?.is_file()
        {
            let path = entry.path();
            return Ok(Some(Disk { path, digest }));
        }
    }
    Ok(None)
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

    /// An image's disk, if that was made.
    ///
    /// # Errors
    /// [`ShelfError::Read`].
    pub fn disk(&self, digest: &ImageDigest) -> Result<Option<Disk>, ShelfError> {
        find_disk(&self.image(digest))
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
            directory,
            _lock: lock.into(),
        })
    }
}

/// Of an image's directory: what is known of it.
pub const ABOUT: &str = "image.json";
/// And its root directory.
pub const ROOT: &str = "root";
/// And its disk, by its digest: the name says what was made, and is there when all of it is. The
/// number is that of the form in which this version makes disks.
const DISK_START: &str = "disk-1-";
const DISK_END: &str = ".erofs";
const DISK_UNFINISHED: &str = "disk.unfinished";
const DISK_LOCK: &str = "disk.lock";

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

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// A shelf with one image.
    fn shelf() -> (tempfile::TempDir, Shelf, ImageDigest) {
        let directory = tempfile::tempdir().unwrap();
        let shelf = Shelf::new(directory.path().to_owned());
        let digest = ImageDigest::parse(&format!("sha256:{}", "a".repeat(64))).unwrap();
        let about = About {
            digest: digest.clone(),
            source: String::new(),
            made_at: 0,
            layers: 1,
            entries: 1,
            bytes: 1,
            left_out: 0,
            tree: digest.clone(),
            env: Vec::new(),
            parts: Vec::new(),
        };
        fs::create_dir_all(shelf.image(&digest).join(ROOT)).unwrap();
        let text = serde_json::to_vec(&about).unwrap();
        fs::write(shelf.image(&digest).join(ABOUT), text).unwrap();
        (directory, shelf, digest)
    }

    #[test]
    fn a_disk_is_there_when_it_is_whole_and_is_called_by_what_it_is() {
        let (_directory, shelf, digest) = shelf();
        let held = shelf.hold(&digest).unwrap();
        assert_eq!(held.disk().unwrap(), None);
        let place = held.disk_place().unwrap();
        fs::write(place.unfinished(), "half").unwrap();
        assert_eq!(held.disk().unwrap(), None);
        let made = ImageDigest::parse(&format!("sha256:{}", "b".repeat(64))).unwrap();
        place.keep(&made).unwrap();
        let disk = held.disk().unwrap().unwrap();
        assert_eq!(disk.digest, made);
        assert_eq!(fs::read_to_string(&disk.path).unwrap(), "half");
        assert_eq!(shelf.disk(&digest).unwrap(), Some(disk));
    }

    #[test]
    fn what_only_looks_like_a_disk_is_none() {
        let (_directory, shelf, digest) = shelf();
        let image = shelf.image(&digest);
        let whole = format!("disk-1-{}.erofs", "b".repeat(64));
        for name in ["disk-1-.erofs", "disk-1-b.erofs", "disk.unfinished"] {
            fs::write(image.join(name), "").unwrap();
        }
        fs::write(image.join(whole.replace("disk-1", "disk-0")), "").unwrap();
        std::os::unix::fs::symlink("/etc/passwd", image.join(&whole)).unwrap();
        assert_eq!(shelf.disk(&digest).unwrap(), None);
    }
}
