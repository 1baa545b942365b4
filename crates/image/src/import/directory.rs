// SPDX-License-Identifier: Apache-2.0
//! A directory as an image of one layer; and a bare archive of a root directory, as package tools
//! write it.

use super::{ImportError, make};
use crate::archive::{Packed, pack};
use crate::digest::Hashed;
use crate::store::{Expected, Store, StoreError};
use rustix::fs::{Mode, OFlags};
use std::io::{self, PipeReader, PipeWriter, Read};
use std::path::Path;
use torno_policy::names::ImageDigest;

/// LIMIT: an archive of what an image may have unpacked; the unpacking counts again.
const LAYER_BYTES_MAX: u64 = 40 << 30;

/// Packs a directory and makes an image of it.
///
/// # Errors
/// [`ImportError`].
pub fn directory(store: &mut Store, path: &Path) -> Result<(ImageDigest, Packed), ImportError> {
    let failed = |error: io::Error| ImportError::Read(path.to_owned(), error);
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = rustix::fs::open(path, flags, Mode::empty());
    let root = root.map_err(|error| failed(error.into()))?;
    let (reader, writer) = io::pipe().map_err(failed)?;
    let (packed, image) = std::thread::scope(|scope| {
        let packing = scope.spawn(move || {
            let mut writer: PipeWriter = writer;
            pack(&root, &mut writer)
        });
        let image = layer_of(store, reader);
        let packed = packing.join();
        (packed, image)
    });
    let broken = |_| failed(io::Error::other("the packing broke"));
    // What went wrong with packing is why the archive is short.
    let packed = packed.map_err(broken)??;
    Ok((image?, packed))
}

/// Makes an image of one archive of a root directory.
///
/// # Errors
/// [`ImportError`].
pub fn layer_of(store: &mut Store, archive: PipeReader) -> Result<ImageDigest, ImportError> {
    let blob = layer_blob(store, archive)?;
    image_of(store, blob)
}

/// Takes an archive in, whatever it is.
pub(crate) fn layer_blob(
    store: &mut Store,
    archive: PipeReader,
) -> Result<(ImageDigest, u64), ImportError> {
    let expected = Expected {
        digest: None,
        size: None,
        bytes_max: LAYER_BYTES_MAX,
    };
    Ok(store.put_blob(archive, expected)?)
}

/// Makes an image of an archive that was taken in.
pub(crate) fn image_of(
    store: &mut Store,
    (digest, size): (ImageDigest, u64),
) -> Result<ImageDigest, ImportError> {
    let plain = plain_digest(store, &digest)?;
    make(store, &[(digest, size, plain)], None)
}

/// The digest of what a layer unpacks to.
fn plain_digest(store: &Store, blob: &ImageDigest) -> Result<ImageDigest, ImportError> {
    let limits = crate::limits::Limits::default();
    let file = store.open_blob(blob)?;
    let read = || -> io::Result<Option<ImageDigest>> {
        let mut plain: crate::layer::Layer<_> = crate::layer::open(file, &limits, LAYER_BYTES_MAX)?;
        io::copy(&mut plain, &mut io::sink())?;
        Ok(Hashed::digest(plain))
    };
    let plain = read().map_err(crate::archive::ArchiveError::Read)?;
    Ok(plain.ok_or(StoreError::Long("layer"))?)
}

/// What is read of a metadata file.
pub(super) fn read_short(source: impl Read) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    let bytes_max = crate::limits::METADATA_BYTES_MAX;
    source.take(bytes_max + 1).read_to_end(&mut text)?;
    if u64::try_from(text.len()).is_ok_and(|length| length <= bytes_max) {
        Ok(text)
    } else {
        Err(io::Error::other("it is longer than it may be"))
    }
}
