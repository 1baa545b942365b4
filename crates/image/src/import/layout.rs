// SPDX-License-Identifier: Apache-2.0
//! An OCI layout: a directory with `index.json` and `blobs/sha256/`. Its files are somebody's; each
//! counts by its digest.

use super::ImportError;
use super::directory::read_short;
use crate::limits::METADATA_BYTES_MAX;
use crate::manifest::{Descriptor, INDEX_TYPES, Index, Manifest};
use crate::store::{Expected, Store};
use rustix::fs::{Mode, OFlags};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use torno_policy::names::ImageDigest;

/// Takes in the one image for this machine, under that tag where one is named.
///
/// # Errors
/// [`ImportError`].
pub fn layout(
    store: &mut Store,
    path: &Path,
    tag: Option<&str>,
) -> Result<ImageDigest, ImportError> {
    let index = path.join("index.json");
    let text = open(&index).and_then(read_short);
    let text = text.map_err(|error| ImportError::Read(index, error))?;
    let blobs = path.join("blobs/sha256");
    let open_blob = |digest: &ImageDigest| {
        let path = blobs.join(digest.hex());
        open(&path).map_err(|error| ImportError::Read(path, error))
    };
    take(store, &text, tag, &open_blob)
}

/// The same for any source that opens blobs by digest.
pub(super) fn take(
    store: &mut Store,
    index: &[u8],
    tag: Option<&str>,
    open: &dyn Fn(&ImageDigest) -> Result<File, ImportError>,
) -> Result<ImageDigest, ImportError> {
    let mut entry = Index::parse(index)?.choose(tag)?;
    if INDEX_TYPES.contains(&entry.media_type.as_str()) {
        // One index more: the images of one tag for each kind of machine.
        let text = metadata(store, &entry, open)?;
        entry = Index::parse(&text)?.choose(None)?;
    }
    let manifest = Manifest::parse(&metadata(store, &entry, open)?)?;
    metadata(store, &manifest.config, open)?;
    for layer in &manifest.layers {
        put(store, layer, layer.size, open)?;
    }
    Ok(entry.digest)
}

/// A manifest, an index or a configuration.
fn metadata(
    store: &mut Store,
    descriptor: &Descriptor,
    open: &dyn Fn(&ImageDigest) -> Result<File, ImportError>,
) -> Result<Vec<u8>, ImportError> {
    put(store, descriptor, METADATA_BYTES_MAX, open)?;
    Ok(store.read_blob(&descriptor.digest, METADATA_BYTES_MAX)?)
}

fn put(
    store: &mut Store,
    descriptor: &Descriptor,
    bytes_max: u64,
    open: &dyn Fn(&ImageDigest) -> Result<File, ImportError>,
) -> Result<(), ImportError> {
    if store.has_blob(&descriptor.digest) {
        return Ok(());
    }
    let expected = Expected {
        digest: Some(&descriptor.digest),
        size: Some(descriptor.size),
        bytes_max,
    };
    store.put_blob(open(&descriptor.digest)?, expected)?;
    Ok(())
}

/// A regular file, and nothing that would be waited for.
fn open(path: &PathBuf) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    if file.metadata()?.is_file() {
        Ok(file)
    } else {
        Err(io::Error::other("it is no regular file"))
    }
}
