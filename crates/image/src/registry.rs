// SPDX-License-Identifier: Apache-2.0
//! A registry: an image by tag or digest, fetched into the store. A tag is asked once; from then on
//! everything goes by digest, and what comes under another is refused.

mod access;
mod http;
mod reference;

pub use access::{Credential, credential_for};
pub use http::{Http, HttpError, Trust};
pub use reference::{Reference, ReferenceError};

use crate::digest;
use crate::limits::METADATA_BYTES_MAX;
use crate::manifest::{Descriptor, INDEX_TYPES, Index, MANIFEST_TYPES, Manifest, ManifestError};
use crate::store::{Expected, Store, StoreError};
use access::Access;
use http::Response;
use std::io::Read;
use thiserror::Error;
use torno_policy::names::ImageDigest;

/// Why nothing was pulled.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PullError {
    /// The connection.
    #[error(transparent)]
    Http(#[from] HttpError),
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// What the image says.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// An answer.
    #[error("the registry answered {status} to {what}")]
    Status {
        /// The number.
        status: u16,
        /// What was asked.
        what: String,
    },
    /// Another manifest than was asked for.
    #[error("the registry sent {found} for {said}")]
    Other {
        /// Asked for.
        said: ImageDigest,
        /// Sent.
        found: ImageDigest,
    },
    /// A challenge that can't be met.
    #[error("the registry wants a login that this can't do: {0}")]
    Challenge(&'static str),
}

/// Fetches an image; `progress` is told of each layer and of bytes. Gives its manifest's digest.
/// What came whole stays in the store where a later part fails.
///
/// # Errors
/// [`PullError`].
pub fn pull(
    store: &mut Store,
    http: &Http,
    reference: &Reference,
    credential: Option<Credential>,
    progress: &mut dyn FnMut(&str),
) -> Result<ImageDigest, PullError> {
    let mut pulling = Pulling {
        access: Access::new(http, reference, credential),
        store,
        reference,
    };
    let (mut found, mut text, mut kind) = pulling.manifest(reference.wanted(), None)?;
    if INDEX_TYPES.contains(&kind.as_str()) {
        let entry = Index::parse(&text)?.choose(None)?;
        (found, text, kind) = pulling.manifest(entry.digest.as_str(), Some(&entry.digest))?;
    }
    if !MANIFEST_TYPES.contains(&kind.as_str()) {
        let kind = crate::archive::EntryPath::inert(kind.as_bytes());
        return Err(ManifestError::Type(kind).into());
    }
    let manifest = Manifest::parse(&text)?;
    let expected = Expected {
        digest: Some(&found),
        size: None,
        bytes_max: METADATA_BYTES_MAX,
    };
    pulling.store.put_blob(text.as_slice(), expected)?;
    pulling.blob(&manifest.config, METADATA_BYTES_MAX)?;
    for (at, layer) in manifest.layers.iter().enumerate() {
        let size = layer.size;
        progress(&format!(
            "layer {} of {}, {size} bytes",
            at + 1,
            manifest.layers.len()
        ));
        pulling.blob(layer, size)?;
    }
    Ok(found)
}

struct Pulling<'a> {
    access: Access<'a>,
    store: &'a mut Store,
    reference: &'a Reference,
}

impl Pulling<'_> {
    /// A manifest or index by tag or digest: its digest, text and type.
    fn manifest(
        &mut self,
        wanted: &str,
        digest: Option<&ImageDigest>,
    ) -> Result<(ImageDigest, Vec<u8>, String), PullError> {
        let path = format!("/v2/{}/manifests/{wanted}", self.reference.repository());
        let accepted = [&MANIFEST_TYPES[..], &INDEX_TYPES[..]].concat().join(", ");
        let mut answer = self.good(&path, &accepted)?;
        let kind = answer.header("content-type").unwrap_or_default();
        let kind = kind.split(';').next().unwrap_or_default().trim().to_owned();
        let mut text = Vec::new();
        let mut body = (&mut answer.body).take(METADATA_BYTES_MAX + 1);
        let length = body.read_to_end(&mut text).map_err(HttpError::Read)?;
        if u64::try_from(length).is_ok_and(|length| length > METADATA_BYTES_MAX) {
            return Err(StoreError::Long("manifest").into());
        }
        let found = digest::of(&text).ok_or(StoreError::Long("manifest"))?;
        match digest.or_else(|| self.reference.digest().filter(|d| d.as_str() == wanted)) {
            Some(said) if *said != found => Err(PullError::Other {
                said: said.clone(),
                found,
            }),
            Some(_) | None => Ok((found, text, kind)),
        }
    }

    fn blob(&mut self, wanted: &Descriptor, bytes_max: u64) -> Result<(), PullError> {
        if self.store.has_blob(&wanted.digest) {
            return Ok(());
        }
        let path = format!(
            "/v2/{}/blobs/{}",
            self.reference.repository(),
            wanted.digest
        );
        let answer = self.good(&path, "*/*")?;
        let expected = Expected {
            digest: Some(&wanted.digest),
            size: Some(wanted.size),
            bytes_max,
        };
        self.store.put_blob(answer.body, expected)?;
        Ok(())
    }

    fn good(&mut self, path: &str, accepted: &str) -> Result<Response, PullError> {
        let answer = self.access.get(path, accepted)?;
        if answer.status == 200 {
            return Ok(answer);
        }
        Err(PullError::Status {
            status: answer.status,
            what: path.to_owned(),
        })
    }
}
