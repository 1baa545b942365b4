// SPDX-License-Identifier: Apache-2.0
//! An archive with an image in it: of `docker save`, or of OCI's layout. Every file of it becomes a
//! blob on the way through; which of them is what, its own lists say afterwards.

use super::{ImportError, layout, manifest};
use crate::archive::{ArchiveError, EntryPath, Kind, Reader};
use crate::layer;
use crate::limits::{LAYERS_MAX, Limits, METADATA_BYTES_MAX};
use crate::manifest::ManifestError;
use crate::store::{Expected, Store};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;
use torno_policy::names::ImageDigest;

/// LIMIT: an archive of several images has some files for each layer.
const FILES_MAX: usize = 4096;

/// Files of an archive, by their paths.
type Files = BTreeMap<EntryPath, (ImageDigest, u64)>;

/// One image of `docker save`'s list.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Saved {
    config: String,
    #[serde(default)]
    repo_tags: Option<Vec<String>>,
    layers: Vec<String>,
}

/// Takes in the one image of an archive, under that tag where one is named.
///
/// # Errors
/// [`ImportError`].
pub fn archive(
    store: &mut Store,
    path: &Path,
    tag: Option<&str>,
) -> Result<ImageDigest, ImportError> {
    let file = File::open(path).map_err(|error| ImportError::Read(path.to_owned(), error))?;
    let limits = Limits::default();
    let files = read(store, file, &limits)?;
    let list = |name: &str| -> Result<Option<Vec<u8>>, ImportError> {
        match files.get(&EntryPath::parse(name.as_bytes())?) {
            Some((digest, _)) => Ok(Some(store.read_blob(digest, METADATA_BYTES_MAX)?)),
            None => Ok(None),
        }
    };
    let (index, saved) = (list("index.json")?, list("manifest.json")?);
    match (index, saved) {
        // What `docker save` writes today is both; its own list knows the tags.
        (_, Some(saved)) => docker(store, &saved, tag, &files),
        (Some(index), None) => oci(store, &index, tag),
        (None, None) => Err(ImportError::Kind(path.to_owned())),
    }
}

/// Every regular file becomes a blob. Nothing of an archive gets a name on the disk.
fn read(store: &mut Store, file: File, limits: &Limits) -> Result<Files, ImportError> {
    let layer = layer::open(file, limits, limits.bytes).map_err(ArchiveError::Read)?;
    let mut archive = Reader::new(layer);
    let mut files = Files::new();
    while let Some(entry) = archive.next_entry()? {
        match entry.kind {
            Kind::File(size) => {
                let expected = Expected {
                    digest: None,
                    size: Some(size),
                    bytes_max: size,
                };
                let blob = store.put_blob(&mut archive, expected)?;
                let is_twice = files.insert(entry.path.clone(), blob).is_some();
                if is_twice || files.len() > FILES_MAX {
                    return Err(crate::store::StoreError::Long("list of files").into());
                }
            }
            // Old `docker save` links a layer that is there already.
            Kind::Link(_) | Kind::HardLink(_) | Kind::Directory | Kind::Special => {}
        }
    }
    Ok(files)
}

fn docker(
    store: &mut Store,
    list: &[u8],
    tag: Option<&str>,
    files: &Files,
) -> Result<ImageDigest, ImportError> {
    let saved: Vec<Saved> = serde_json::from_slice(list)
        .map_err(|error| ManifestError::Json("list of images", error))?;
    let tags = |saved: &Saved| saved.repo_tags.clone().unwrap_or_default();
    let all: Vec<String> = saved.iter().flat_map(tags).collect();
    let named = |saved: &Saved| {
        let named = |tag: &str| saved.repo_tags.iter().flatten().any(|found| found == tag);
        tag.is_none_or(named)
    };
    let mut fitting = saved.into_iter().filter(named);
    let (Some(image), None) = (fitting.next(), fitting.next()) else {
        let all = EntryPath::inert(all.join(", ").as_bytes());
        return Err(ImportError::Several(all));
    };
    if !(1..=LAYERS_MAX).contains(&image.layers.len()) {
        return Err(ManifestError::Layers(image.layers.len()).into());
    }
    let find = |name: &String| {
        let found = files.get(&EntryPath::parse(name.as_bytes())?);
        let inert = || ImportError::Missing(EntryPath::inert(name.as_bytes()));
        found.cloned().ok_or_else(inert)
    };
    let config = find(&image.config)?;
    let layers: Vec<(ImageDigest, u64)> = image
        .layers
        .iter()
        .map(find)
        .collect::<Result<_, ImportError>>()?;
    manifest(
        store,
        (config, crate::manifest::CONFIG_TYPE),
        layers.into_iter(),
    )
}

fn oci(store: &mut Store, index: &[u8], tag: Option<&str>) -> Result<ImageDigest, ImportError> {
    // What was in the archive is in the store by its digest, or was not there.
    let missing = |digest: &ImageDigest| Err(ImportError::Missing(digest.to_string()));
    layout::take(store, index, tag, &missing)
}
