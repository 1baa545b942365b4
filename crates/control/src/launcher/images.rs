// SPDX-License-Identifier: Apache-2.0
//! Images, as the launcher sees them: directories on the shelf, unpacked by somebody else. It looks
//! them up by name or digest, holds the ones that sandboxes are made of, and opens no archive.

use super::sandboxes::Failed;
use std::path::PathBuf;
use torno_control_api::images::{Held, PartKind, Shelf, ShelfError};
use torno_policy::grant::Image;
use torno_policy::names::ImageDigest;
use torno_sandbox::{ImagePart, ImageTree};

/// The shelf.
pub(super) struct Images(Shelf);

impl Images {
    pub(super) fn new(directory: PathBuf) -> Self {
        // Mounts are taken by a way without links.
        let real = std::fs::canonicalize(&directory);
        Self(Shelf::new(real.unwrap_or(directory)))
    }

    /// What a document's image stands for at this moment.
    pub(super) fn find(&self, image: &Image) -> Result<ImageDigest, Failed> {
        let digest = match image {
            Image::Named { name, .. } => self.0.resolve(name).map_err(failed)?,
            Image::Exact(digest) => digest.clone(),
            Image::Host => return Err(Failed::internal("the host is no image")),
        };
        Ok(self.0.hold(&digest).map_err(failed)?.about.digest)
    }

    /// Takes hold of one for a sandbox.
    pub(super) fn hold(&self, digest: Option<&ImageDigest>) -> Result<Option<Held>, Failed> {
        digest
            .map(|digest| self.0.hold(digest).map_err(failed))
            .transpose()
    }
}

/// What a plan needs to know of it.
pub(super) fn tree(held: &Held) -> ImageTree {
    let parts = held.about.parts.iter().map(|part| {
        let kind = match &part.kind {
            PartKind::Directory => ImagePart::Directory,
            PartKind::File => ImagePart::File,
            PartKind::Link(target) => ImagePart::Link(target.clone()),
        };
        (PathBuf::from(&part.path), kind)
    });
    ImageTree {
        root: held.root.clone(),
        parts: parts.collect(),
        env: held.about.env.clone(),
    }
}

fn failed(error: ShelfError) -> Failed {
    let hint = match &error {
        ShelfError::Name(_) | ShelfError::Image(_) => {
            "`torno image list` shows what is here; bring it with `torno image import`, or use \
             image `host`"
        }
        _ => "run `torno image verify`, or remove the image and bring it again",
    };
    Failed {
        code: "image_unavailable".to_owned(),
        message: format!("{:#}", anyhow::Error::from(error)),
        hint: hint.to_owned(),
    }
}
