// SPDX-License-Identifier: Apache-2.0
//! Images, as the launcher sees them: directories on the shelf, unpacked by somebody else. It looks
//! them up by name or digest, holds the ones that sandboxes are made of, and opens no archive.
//! A machine has its image as a disk, which is made when the first one asks for it, beside the
//! launcher's loop, and is kept with the image.

use super::sandboxes::Failed;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use torno_control_api::images::{About, Held, PartKind, Shelf, ShelfError};
use torno_policy::grant::Image;
use torno_policy::names::ImageDigest;
use torno_sandbox::{DiskSource, ImagePart, ImageTree, MachineParts};

/// The shelf, and the disks that are being made.
pub(super) struct Images {
    shelf: Shelf,
    /// By their images; what has ended waits for whoever asked.
    coming: BTreeMap<ImageDigest, JoinHandle<Result<(), String>>>,
}

/// LIMIT: what a disk has besides its files' bytes: a block for the end of each, and its entry.
const ENTRY_BYTES: u64 = 8 << 10;
/// LIMIT: and once for all.
const DISK_BYTES: u64 = 16 << 20;

impl Images {
    pub(super) fn new(directory: PathBuf) -> Self {
        // Mounts are taken by a way without links.
        let real = std::fs::canonicalize(&directory);
        Self {
            shelf: Shelf::new(real.unwrap_or(directory)),
            coming: BTreeMap::new(),
        }
    }

    /// Where they lie.
    pub(super) fn directory(&self) -> &Path {
        self.shelf.directory()
    }

    /// What a document's image stands for at this moment.
    pub(super) fn find(&self, image: &Image) -> Result<ImageDigest, Failed> {
        let digest = match image {
            Image::Named { name, .. } => self.shelf.resolve(name).map_err(failed)?,
            Image::Exact(digest) => digest.clone(),
            Image::Host => return Err(Failed::internal("the host is no image")),
        };
        Ok(self.shelf.hold(&digest).map_err(failed)?.about.digest)
    }

    /// Takes hold of one for a sandbox.
    pub(super) fn hold(&self, digest: Option<&ImageDigest>) -> Result<Option<Held>, Failed> {
        digest
            .map(|digest| self.shelf.hold(digest).map_err(failed))
            .transpose()
    }

    /// Whether an image's disk is there; where it isn't, it is being made from now on, one at a
    /// time.
    pub(super) fn has_disk(
        &mut self,
        digest: &ImageDigest,
        parts: &MachineParts,
    ) -> Result<bool, Failed> {
        if self
            .coming
            .get(digest)
            .is_some_and(|made| !made.is_finished())
        {
            return Ok(false);
        }
        if let Some(made) = self.coming.remove(digest) {
            let made = made.join();
            let made = made.unwrap_or_else(|_| Err("the making died".to_owned()));
            made.map_err(|message| not_made(&message))?;
        }
        let held = self.shelf.hold(digest).map_err(failed)?;
        if held.disk().map_err(failed)?.is_some() {
            return Ok(true);
        }
        if self.coming.values().all(JoinHandle::is_finished) {
            // Of those whose askers have gone, nothing is wanted.
            self.coming.clear();
            let parts = parts.clone();
            let work = move || make(&held, &parts).map_err(|error| format!("{error:#}"));
            let thread = std::thread::Builder::new().name("disk".into()).spawn(work);
            let thread = thread.map_err(|error| Failed::internal(&error.to_string()))?;
            self.coming.insert(digest.clone(), thread);
        }
        Ok(false)
    }
}

/// Makes a disk of what was unpacked. The image is held meanwhile.
fn make(held: &Held, parts: &MachineParts) -> anyhow::Result<()> {
    let place = held.disk_place()?;
    // Another daemon may have been at it.
    if held.disk()?.is_some() {
        return Ok(());
    }
    let bytes_max = disk_bytes_max(&held.about);
    let unfinished = place.unfinished();
    anyhow::ensure!(
        super::disk::has_room(&held.root, bytes_max),
        "the disk has no room for it: `torno image prune` makes some"
    );
    tracing::warn!("the disk of {} is being made", held.about.digest);
    let source = DiskSource {
        directory: &held.root,
        without: None,
        bytes_max,
    };
    torno_sandbox::make_disk(parts, source, &unfinished)?;
    let sha256 = torno_sandbox::disk_digest(&unfinished)?;
    place.keep(&ImageDigest::parse(&format!("sha256:{sha256}"))?)?;
    Ok(())
}

fn disk_bytes_max(about: &About) -> u64 {
    let entries = about.entries.saturating_mul(ENTRY_BYTES);
    about
        .bytes
        .saturating_add(entries)
        .saturating_add(DISK_BYTES)
}

fn not_made(message: &str) -> Failed {
    Failed {
        code: "image_unavailable".to_owned(),
        message: format!("the image can't be made a machine's disk: {message}"),
        hint: "use `gvisor` or `container`, or look at the disk and run `torno image verify`"
            .to_owned(),
    }
}

/// What a plan needs to know of it.
pub(super) fn tree(held: &Held) -> Result<ImageTree, Failed> {
    let parts = held.about.parts.iter().map(|part| {
        let kind = match &part.kind {
            PartKind::Directory => ImagePart::Directory,
            PartKind::File => ImagePart::File,
            PartKind::Link(target) => ImagePart::Link(target.clone()),
        };
        (PathBuf::from(&part.path), kind)
    });
    Ok(ImageTree {
        root: held.root.clone(),
        parts: parts.collect(),
        env: held.about.env.clone(),
        disk: held.disk().map_err(failed)?.map(|disk| disk.path),
    })
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
