// SPDX-License-Identifier: Apache-2.0
//! Blobs: bytes under their SHA-256. They are written aside, hashed on the way, and get their name
//! when they are what they should be.

use super::{Store, StoreError, of_file};
use crate::digest;
use crate::digest::Hashed;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::PathBuf;
use torno_policy::names::ImageDigest;

/// What a blob has to be.
#[derive(Debug, Clone, Copy)]
pub struct Expected<'a> {
    /// Its digest, where one was said.
    pub digest: Option<&'a ImageDigest>,
    /// Its size, where one was said.
    pub size: Option<u64>,
    /// What it may have at most.
    pub bytes_max: u64,
}

impl Store {
    pub(super) fn blobs(&self) -> PathBuf {
        self.shelf.directory().join("blobs")
    }

    fn blob(&self, digest: &ImageDigest) -> PathBuf {
        self.blobs().join(digest.hex())
    }

    /// Whether a blob is here, whole.
    #[must_use]
    pub fn has_blob(&self, digest: &ImageDigest) -> bool {
        self.blob(digest).is_file()
    }

    /// Takes a blob in, and gives its digest and size.
    ///
    /// # Errors
    /// [`StoreError`] when it is another or too long; nothing of it stays.
    pub fn put_blob(
        &mut self,
        source: impl Read,
        expected: Expected<'_>,
    ) -> Result<(ImageDigest, u64), StoreError> {
        let fresh = self.fresh();
        let taken = self.take(source, expected, &fresh);
        if taken.is_err() {
            // The next writer removes it otherwise.
            let _ = fs::remove_file(&fresh);
        }
        taken
    }

    fn take(
        &self,
        source: impl Read,
        expected: Expected<'_>,
        fresh: &PathBuf,
    ) -> Result<(ImageDigest, u64), StoreError> {
        let failed = |error| of_file(fresh, error);
        let mut file = File::create_new(fresh).map_err(failed)?;
        let mut source = Hashed::new(source.take(expected.bytes_max.saturating_add(1)));
        if let Err(error) = io::copy(&mut source, &mut file) {
            return Err(if source.is_broken() {
                StoreError::Source(error)
            } else {
                failed(error)
            });
        }
        let bytes = source.length();
        if bytes > expected.bytes_max {
            return Err(StoreError::Long("blob"));
        }
        let Some(found) = source.digest() else {
            return Err(StoreError::Long("blob"));
        };
        let is_other = expected.digest.is_some_and(|said| *said != found)
            || expected.size.is_some_and(|said| said != bytes);
        if is_other {
            let said = expected.digest.unwrap_or(&found).clone();
            let found = found.to_string();
            return Err(StoreError::Other { said, found, bytes });
        }
        file.sync_all().map_err(failed)?;
        fs::rename(fresh, self.blob(&found)).map_err(failed)?;
        Ok((found, bytes))
    }

    /// Opens a blob.
    ///
    /// # Errors
    /// [`StoreError::Missing`].
    pub fn open_blob(&self, digest: &ImageDigest) -> Result<File, StoreError> {
        let path = self.blob(digest);
        match File::open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(StoreError::Missing(digest.clone()))
            }
            file => file.map_err(|error| of_file(&path, error)),
        }
    }

    /// Reads a short blob, and hashes it once more.
    ///
    /// # Errors
    /// [`StoreError`] also when it is too long.
    pub fn read_blob(&self, digest: &ImageDigest, bytes_max: u64) -> Result<Vec<u8>, StoreError> {
        let mut text = Vec::new();
        let file = self.open_blob(digest)?;
        let read = file.take(bytes_max + 1).read_to_end(&mut text);
        read.map_err(|error| of_file(&self.blob(digest), error))?;
        let bytes = u64::try_from(text.len()).unwrap_or(u64::MAX);
        if bytes > bytes_max {
            return Err(StoreError::Long("manifest or configuration"));
        }
        match digest::of(&text) {
            Some(found) if found == *digest => Ok(text),
            found => Err(StoreError::Other {
                said: digest.clone(),
                found: found.map_or_else(String::new, |found| found.to_string()),
                bytes,
            }),
        }
    }

    /// Drops a blob that is not needed any more.
    pub(crate) fn drop_blob(&self, digest: &ImageDigest) -> Result<(), StoreError> {
        let path = self.blob(digest);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(of_file(&path, error)),
            Ok(()) | Err(_) => Ok(()),
        }
    }
}
