// SPDX-License-Identifier: Apache-2.0
//! Where images come from on this machine: an OCI layout, an archive of docker's or OCI's, a
//! directory. Each brings blobs and a manifest into the store; unpacking is one for all.

mod archives;
mod directory;
mod layout;

pub use archives::archive;
pub use directory::{directory, layer_of};
pub(crate) use directory::{image_of, layer_blob};
pub use layout::layout;

use crate::archive::{ArchiveError, PackError};
use crate::manifest::{
    CONFIG_TYPE, Configuration, Descriptor, LAYER_TYPE, MANIFEST_TYPES, Manifest, ManifestError,
    Platform, RootFiles, Settings,
};
use crate::store::{Expected, Store, StoreError};
use std::io;
use std::path::PathBuf;
use thiserror::Error;
use torno_policy::names::ImageDigest;

/// Why nothing was taken in.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ImportError {
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// What the image says.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// An archive of archives.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// A directory.
    #[error(transparent)]
    Pack(#[from] PackError),
    /// A file of the source.
    #[error("`{0}` can't be read")]
    Read(PathBuf, #[source] io::Error),
    /// Neither one nor the other.
    #[error("`{0}` is neither an OCI layout nor an archive of `docker save` or of OCI")]
    Kind(PathBuf),
    /// Something that it should hold.
    #[error("the archive names `{0}`, which is not in it")]
    Missing(String),
    /// Several.
    #[error("the archive has several images: name one by its tag: {0}")]
    Several(String),
}

/// Makes an image of layers that are blobs already: digests of the packed and of the plain bytes.
fn make(
    store: &mut Store,
    layers: &[(ImageDigest, u64, ImageDigest)],
    env: Option<Vec<String>>,
) -> Result<ImageDigest, ImportError> {
    let own = Platform::own();
    let config = Configuration {
        architecture: own.architecture,
        os: own.os,
        config: Some(Settings { env }),
        rootfs: RootFiles {
            kind: "layers".to_owned(),
            diff_ids: layers.iter().map(|(_, _, plain)| plain.clone()).collect(),
        },
    };
    let config = put_json(store, &config, "configuration")?;
    manifest(
        store,
        (config, CONFIG_TYPE),
        layers.iter().map(|(d, s, _)| (d.clone(), *s)),
    )
}

/// Makes a manifest of a configuration and layers that are blobs already.
fn manifest(
    store: &mut Store,
    ((config, size), config_type): ((ImageDigest, u64), &str),
    layers: impl Iterator<Item = (ImageDigest, u64)>,
) -> Result<ImageDigest, ImportError> {
    let descriptor = |media_type: &str, digest, size| Descriptor {
        media_type: media_type.to_owned(),
        digest,
        size,
        platform: None,
        annotations: None,
    };
    let manifest = Manifest {
        schema_version: 2,
        media_type: Some(MANIFEST_TYPES[0].to_owned()),
        config: descriptor(config_type, config, size),
        layers: layers
            .map(|(digest, size)| descriptor(LAYER_TYPE, digest, size))
            .collect(),
    };
    Ok(put_json(store, &manifest, "manifest")?.0)
}

fn put_json(
    store: &mut Store,
    value: &impl serde::Serialize,
    what: &'static str,
) -> Result<(ImageDigest, u64), ImportError> {
    let text = serde_json::to_vec(value).map_err(|error| ManifestError::Json(what, error))?;
    let expected = Expected {
        digest: None,
        size: None,
        bytes_max: crate::limits::METADATA_BYTES_MAX,
    };
    Ok(store.put_blob(text.as_slice(), expected)?)
}

#[cfg(test)]
mod tests;
