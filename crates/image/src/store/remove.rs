// SPDX-License-Identifier: Apache-2.0
//! Removal: by hand, and of what nothing stands for. Never of an image that a sandbox holds.

use super::look::{images, listed, names};
use super::{Store, StoreError, of_file};
use rustix::fs::{FlockOperation, flock};
use std::fs;
use std::io;
use std::path::Path;
use torno_policy::names::{ImageDigest, ImageName};

/// What a collection took.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Pruned {
    /// Images that no name stood for, oldest first.
    pub images: Vec<ImageDigest>,
    /// Those that a sandbox holds.
    pub in_use: Vec<ImageDigest>,
    /// Blobs of images that were never unpacked.
    pub blobs: usize,
    /// Bytes of files that are free now.
    pub bytes: u64,
}

impl Store {
    /// Takes a name away; the image stays until nothing stands for it and it is collected.
    ///
    /// # Errors
    /// [`StoreError`] also when there is no such name.
    pub fn forget(&mut self, name: &ImageName) -> Result<ImageDigest, StoreError> {
        let digest = self.shelf.resolve(name)?;
        let path = self.shelf.names().join(name.as_str());
        fs::remove_file(&path).map_err(|error| of_file(&path, error))?;
        Ok(digest)
    }

    /// Removes an image and every name that stands for it.
    ///
    /// # Errors
    /// [`StoreError::InUse`] while a sandbox holds it; then its names stay too.
    pub fn remove(&mut self, image: &ImageDigest) -> Result<(), StoreError> {
        let place = self.shelf.image(image);
        if !place.exists() {
            return Err(torno_control_api::images::ShelfError::Image(image.clone()).into());
        }
        let holder = super::directory(&place)?;
        flock(&holder, FlockOperation::NonBlockingLockExclusive)
            .map_err(|_| StoreError::InUse(image.clone()))?;
        for (name, digest) in names(&self.shelf)? {
            if digest == *image {
                self.forget(&name)?;
            }
        }
        // First out of sight, at once; then it may take its time.
        let aside = self.fresh();
        fs::rename(&place, &aside).map_err(|error| of_file(&place, error))?;
        tree(&aside)
    }

    /// Removes what nothing stands for: images without a name, and blobs of no image.
    ///
    /// # Errors
    /// [`StoreError`] of the first that can't be removed.
    pub fn prune(&mut self) -> Result<Pruned, StoreError> {
        let mut pruned = Pruned::default();
        let named: Vec<ImageDigest> = names(&self.shelf)?.into_iter().map(|(_, d)| d).collect();
        let mut waiting = Vec::new();
        for image in images(&self.shelf)?
            .into_iter()
            .filter(|image| !named.contains(image))
        {
            let about = self.shelf.about(&image).ok();
            let (made_at, bytes) = about.map_or((0, 0), |about| (about.made_at, about.bytes));
            let disk = self.shelf.disk(&image)?;
            let disk = disk.and_then(|disk| fs::metadata(disk.path).ok());
            let bytes = bytes + disk.map_or(0, |disk| disk.len());
            waiting.push((made_at, image, bytes));
        }
        waiting.sort();
        for (_, image, bytes) in waiting {
            match self.remove(&image) {
                Ok(()) => {
                    pruned.images.push(image);
                    pruned.bytes += bytes;
                }
                Err(StoreError::InUse(image)) => pruned.in_use.push(image),
                Err(error) => return Err(error),
            }
        }
        for blob in listed(&self.blobs())? {
            let path = self.blobs().join(blob);
            let bytes = fs::metadata(&path).map_or(0, |found| found.len());
            fs::remove_file(&path).map_err(|error| of_file(&path, error))?;
            pruned.blobs += 1;
            pruned.bytes += bytes;
        }
        Ok(pruned)
    }
}

/// Removes a tree of the store: links are not followed (std's own walk is by handles).
pub(super) fn tree(path: &Path) -> Result<(), StoreError> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(of_file(path, error)),
        Ok(()) | Err(_) => Ok(()),
    }
}
