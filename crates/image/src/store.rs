// SPDX-License-Identifier: Apache-2.0
//! The store: what was fetched, and what was unpacked of it. One `torno` at a time writes here.
//!
//! ```text
//! blobs/<hex>       fetched and verified, until its image is unpacked
//! unfinished/       whatever is being made; emptied by whoever comes next
//! unpacked/<hex>/   an image, whole: root/, image.json, manifest.json, config.json
//! names/<name>      the digest that a name stands for
//! ```

mod blobs;
mod look;
mod parts;
mod remove;

pub use blobs::Expected;
pub use look::{Verdict, images, names, verify};
pub use remove::Pruned;

use crate::limits::{Limits, METADATA_BYTES_MAX};
use crate::manifest::{Configuration, Manifest, ManifestError};
use crate::unpack::{UnpackError, Unpacker, behind_a_wall};
use rustix::fs::{FlockOperation, Mode, OFlags, flock};
use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use thiserror::Error;
use torno_control_api::images::{ABOUT, About, ROOT, Shelf, ShelfError};
use torno_control_api::places::{PlaceError, make_directory};
use torno_policy::names::{ImageDigest, ImageName};

/// LIMIT: images of one machine; each costs its unpacked size.
const IMAGES_MAX: usize = 256;

/// Why the store did not do what was asked.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StoreError {
    /// Where it lies.
    #[error(transparent)]
    Place(#[from] PlaceError),
    /// Somebody else writes.
    #[error("another `torno image` is at work in `{0}`: wait for it")]
    Busy(PathBuf),
    /// A file of it.
    #[error("`{0}`")]
    File(PathBuf, #[source] io::Error),
    /// What is taken in breaks off.
    #[error("what was to be taken in broke off")]
    Source(#[source] io::Error),
    /// Bytes that are not what was said.
    #[error("what came as {said} is {found}, of {bytes} bytes")]
    Other {
        /// Said.
        said: ImageDigest,
        /// Found.
        found: String,
        /// How many.
        bytes: u64,
    },
    /// Too long.
    #[error("the {0} is longer than it may be")]
    Long(&'static str),
    /// Something else than it should be.
    #[error("{0} was not fetched")]
    Missing(ImageDigest),
    /// What the image says.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// What it holds.
    #[error(transparent)]
    Unpack(#[from] UnpackError),
    /// An image that can't be had.
    #[error(transparent)]
    Shelf(#[from] ShelfError),
    /// Full.
    #[error("the store has {IMAGES_MAX} images already: remove some")]
    Full,
    /// A sandbox has it.
    #[error("image {0} is in use by a sandbox")]
    InUse(ImageDigest),
}

/// The store, and the right to write there.
#[derive(Debug)]
pub struct Store {
    shelf: Shelf,
    limits: Limits,
    /// Names of unfinished things.
    next: u64,
    _lock: File,
}

/// What is told of an image's origin.
#[derive(Debug, Clone)]
pub struct Origin {
    /// For people.
    pub source: String,
    /// Unix seconds.
    pub now: u64,
}

impl Store {
    /// Opens the store in that directory, which is made where there is none. What an earlier
    /// writer left unfinished goes.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn open(directory: &Path, limits: Limits) -> Result<Self, StoreError> {
        make_directory(directory, None)?;
        let lock_path = directory.join("lock");
        let flags = OFlags::CREATE | OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let lock = rustix::fs::open(&lock_path, flags, Mode::RUSR | Mode::WUSR);
        let lock = File::from(lock.map_err(|error| of_file(&lock_path, error))?);
        flock(&lock, FlockOperation::NonBlockingLockExclusive)
            .map_err(|_| StoreError::Busy(directory.to_owned()))?;
        let store = Self {
            shelf: Shelf::new(directory.to_owned()),
            limits,
            next: 0,
            _lock: lock,
        };
        let unfinished = store.unfinished();
        remove::tree(&unfinished)?;
        for path in [
            unfinished,
            store.blobs(),
            store.shelf.images(),
            store.shelf.names(),
        ] {
            make_directory(&path, None)?;
        }
        Ok(store)
    }

    /// Where images are looked for.
    #[must_use]
    pub fn shelf(&self) -> &Shelf {
        &self.shelf
    }

    fn unfinished(&self) -> PathBuf {
        self.shelf.directory().join("unfinished")
    }

    fn fresh(&mut self) -> PathBuf {
        self.next += 1;
        self.unfinished().join(self.next.to_string())
    }

    /// Unpacks the image of a manifest whose blobs are all here, and calls it that. One that is
    /// there already only gets the name. `progress` is told of each layer.
    ///
    /// # Errors
    /// [`StoreError`]; then nothing of it is on the shelf, and what was fetched stays for the next
    /// time.
    pub fn shelve(
        &mut self,
        digest: &ImageDigest,
        name: Option<&ImageName>,
        origin: &Origin,
        progress: &mut (dyn FnMut(usize, usize) + Send),
    ) -> Result<About, StoreError> {
        let manifest_text = self.read_blob(digest, METADATA_BYTES_MAX)?;
        let manifest = Manifest::parse(&manifest_text)?;
        if !self.shelf.image(digest).exists() {
            if images(&self.shelf)?.len() >= IMAGES_MAX {
                return Err(StoreError::Full);
            }
            self.unpack(digest, (&manifest, &manifest_text), origin, progress)?;
        }
        if let Some(name) = name {
            self.call(name, digest)?;
        }
        let layers = manifest.layers.iter().map(|layer| &layer.digest);
        for blob in layers.chain([digest, &manifest.config.digest]) {
            self.drop_blob(blob)?;
        }
        Ok(self.shelf.about(digest)?)
    }

    fn unpack(
        &mut self,
        digest: &ImageDigest,
        (manifest, manifest_text): (&Manifest, &[u8]),
        origin: &Origin,
        progress: &mut (dyn FnMut(usize, usize) + Send),
    ) -> Result<(), StoreError> {
        let config_text = self.read_blob(&manifest.config.digest, METADATA_BYTES_MAX)?;
        let config = Configuration::parse(&config_text, manifest)?;
        let fresh = self.fresh();
        let root = fresh.join(ROOT);
        for path in [&fresh, &root] {
            make(path)?;
        }
        let mut layers = Vec::new();
        for (layer, plain) in manifest.layers.iter().zip(&config.rootfs.diff_ids) {
            layers.push((self.open_blob(&layer.digest)?, plain));
        }
        let (blobs, into) = (directory(&self.blobs())?, directory(&root)?);
        let target = directory(&root)?;
        let limits = self.limits.clone();
        let count = layers.len();
        let unpacked = behind_a_wall(&blobs, &into, move || {
            let mut unpacker = Unpacker::new(target, limits);
            for (at, (layer, plain)) in layers.into_iter().enumerate() {
                progress(at + 1, count);
                unpacker.add(layer, plain)?;
            }
            Ok(unpacker.unpacked())
        })?;
        let about = About {
            digest: digest.clone(),
            source: origin.source.clone(),
            made_at: origin.now,
            layers: u64::try_from(count).unwrap_or_default(),
            entries: unpacked.entries,
            bytes: unpacked.bytes,
            left_out: unpacked.left_out,
            tree: look::tree_digest(&root)?,
            env: config.variables(),
            parts: parts::of(&root)?,
        };
        let about = serde_json::to_vec(&about)
            .map_err(|error| of_file(&fresh.join(ABOUT), io::Error::other(error)))?;
        write(&fresh.join("manifest.json"), manifest_text)?;
        write(&fresh.join("config.json"), &config_text)?;
        write(&fresh.join(ABOUT), &about)?;
        // What is in the kernel's memory is on the disk before the image is on the shelf.
        rustix::fs::syncfs(&into).map_err(|error| of_file(&root, error))?;
        let place = self.shelf.image(digest);
        fs::rename(&fresh, &place).map_err(|error| of_file(&place, error))?;
        Ok(())
    }

    /// Lets a name stand for an image; it may have stood for another.
    fn call(&mut self, name: &ImageName, digest: &ImageDigest) -> Result<(), StoreError> {
        let (fresh, place) = (self.fresh(), self.shelf.names().join(name.as_str()));
        write(&fresh, format!("{digest}\n").as_bytes())?;
        fs::rename(&fresh, &place).map_err(|error| of_file(&place, error))
    }
}

fn make(path: &Path) -> Result<(), StoreError> {
    let made = fs::DirBuilder::new().mode(0o700).create(path);
    made.map_err(|error| of_file(path, error))?;
    // A sandbox's user passes through an image's root directory; nobody else gets to it.
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(path, open).map_err(|error| of_file(path, error))
}

fn directory(path: &Path) -> Result<OwnedFd, StoreError> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty()).map_err(|error| of_file(path, error))
}

/// A new file, on the disk.
fn write(path: &Path, text: &[u8]) -> Result<(), StoreError> {
    let written = File::create_new(path).and_then(|mut file| {
        io::Write::write_all(&mut file, text)?;
        file.sync_all()
    });
    written.map_err(|error| of_file(path, error))
}

fn of_file(path: &Path, error: impl Into<io::Error>) -> StoreError {
    StoreError::File(path.to_owned(), error.into())
}

#[cfg(test)]
pub(crate) mod tests;
