// SPDX-License-Identifier: Apache-2.0
//! `torno image`: bring images in, look at them, take them away. Archives are unpacked here, as the
//! person, behind landlock; the daemon only ever sees the result.

mod build;
mod pull;
mod shown;

use crate::context::Context;
use crate::stop::{FOUND_WANTING, Outcome, Stop};
use std::path::{Path, PathBuf};
use torno_control_api::images::{About, Shelf};
use torno_image::import::{self, ImportError};
use torno_image::limits::Limits;
use torno_image::store::{self, Origin, Store, StoreError, Verdict};
use torno_policy::names::{ImageDigest, ImageName};

/// Bring in, list and remove images that sandboxes are made of
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Image {
    /// Fetch an image from a registry; a tag is asked once, and the digest is what counts
    #[command(after_help = "Examples:
  torno image pull docker.io/library/python:3.12-slim --name python
  torno image pull registry.example/tools@sha256:0123… --name tools --ca-file ca.pem")]
    Pull(pull::Pull),
    /// Take in an image: an OCI layout (a directory) or an archive of `docker save` or of OCI
    #[command(after_help = "Examples:
  docker save python:3.12-slim -o python.tar && torno image import python.tar --name python
  torno image import ./layout --tag 1.0 --name tools")]
    Import(Import),
    /// Make an image of a directory that is laid out like `/`, or of Debian's packages by name
    #[command(after_help = "Examples:
  torno image build --debian python3,git,nodejs --name tools
  torno image build --directory ./root --name tools")]
    Build(build::Build),
    /// Every image, with its names
    #[command(after_help = "Example: torno image list --output json")]
    List,
    /// What is known of an image
    #[command(after_help = "Example: torno image inspect python")]
    Inspect(Which),
    /// Remove an image and its names; not while a sandbox is made of it
    #[command(after_help = "Example: torno image remove python")]
    Remove(Which),
    /// Look at every file of every image, or of one: is it as it was unpacked?
    #[command(after_help = "Example: torno image verify")]
    Verify(Perhaps),
    /// Remove images that no name stands for, and what broken-off imports left
    #[command(after_help = "Example: torno image prune")]
    Prune,
}

/// What to take in.
#[derive(Debug, clap::Args)]
pub(crate) struct Import {
    /// A directory with `index.json`, or an archive
    path: PathBuf,
    /// What the image is called here
    #[arg(long, value_name = "NAME", value_parser = ImageName::parse)]
    name: ImageName,
    /// Which image, where there are several: its tag as it stands there
    #[arg(long, value_name = "TAG")]
    tag: Option<String>,
}

/// An image.
#[derive(Debug, clap::Args)]
pub(crate) struct Which {
    /// Its name, or its digest
    image: String,
}

/// An image, or all.
#[derive(Debug, clap::Args)]
pub(crate) struct Perhaps {
    /// Its name, or its digest
    image: Option<String>,
}

/// Runs it.
pub(crate) fn run(command: &Image, context: &Context) -> Outcome<u8> {
    let shelf = Shelf::new(context.paths.images());
    match command {
        Image::Pull(wanted) => pull::run(wanted, context),
        Image::Import(wanted) => {
            let path = context.directory.join(&wanted.path);
            let mut store = open(context)?;
            context.progress(&format!("reading {}", wanted.path.display()));
            let tag = wanted.tag.as_deref();
            let taken = if path.is_dir() {
                import::layout(&mut store, &path, tag)
            } else {
                import::archive(&mut store, &path, tag)
            };
            let image = taken.map_err(|error| not_taken(&path, &error))?;
            shelve(&mut store, &image, (&path, Some(&wanted.name)), context)
        }
        Image::Build(wanted) => build::run(wanted, context),
        Image::List => {
            shown::list(&shelf, context)?;
            Ok(0)
        }
        Image::Inspect(which) => {
            let about = shelf.about(&find(&shelf, &which.image)?);
            let about = about.map_err(|error| unavailable(&error))?;
            context.show(&about, &shown::about(&about))?;
            Ok(0)
        }
        Image::Remove(which) => {
            let mut store = open(context)?;
            let image = find(&shelf, &which.image)?;
            store.remove(&image).map_err(|error| failed(&error))?;
            let removed = serde_json::json!({ "removed": image });
            context.show(&removed, &format!("removed {image}\n"))?;
            Ok(0)
        }
        Image::Verify(which) => verify(&shelf, which.image.as_deref(), context),
        Image::Prune => {
            let pruned = open(context)?.prune().map_err(|error| failed(&error))?;
            shown::pruned(&pruned, context)?;
            Ok(0)
        }
    }
}

fn open(context: &Context) -> Outcome<Store> {
    Store::open(&context.paths.images(), Limits::default()).map_err(|error| failed(&error))
}

fn shelve(
    store: &mut Store,
    image: &ImageDigest,
    (path, name): (&Path, Option<&ImageName>),
    context: &Context,
) -> Outcome<u8> {
    let origin = Origin {
        source: path.display().to_string(),
        now: context.now,
    };
    let mut progress = |layer, layers| {
        context.progress(&format!("unpacking layer {layer} of {layers}"));
    };
    let shelved = store.shelve(image, name, &origin, &mut progress);
    let about = shelved.map_err(|error| failed(&error))?;
    let called = name.map_or_else(|| image.to_string(), ToString::to_string);
    let text = format!(
        "{}\nuse it with `image = \"{called}\"` in [sandbox]\n",
        line(&about)
    );
    context.show(&about, &text)?;
    Ok(0)
}

fn line(about: &About) -> String {
    let left_out = match about.left_out {
        0 => String::new(),
        count => format!(", {count} devices and FIFOs left out"),
    };
    format!(
        "{}: {} entries, {}{left_out}",
        about.digest,
        about.entries,
        shown::size(about.bytes)
    )
}

fn verify(shelf: &Shelf, which: Option<&str>, context: &Context) -> Outcome<u8> {
    let images = match which {
        Some(which) => vec![find(shelf, which)?],
        None => store::images(shelf).map_err(|error| failed(&error))?,
    };
    let mut changed = Vec::new();
    for (at, image) in images.iter().enumerate() {
        context.progress(&format!("image {} of {}", at + 1, images.len()));
        match store::verify(shelf, image).map_err(|error| failed(&error))? {
            Verdict::Same => {}
            Verdict::Changed => changed.push(image),
        }
    }
    let value = serde_json::json!({ "verified": images.len(), "changed": changed });
    if changed.is_empty() {
        context.show(
            &value,
            &format!("{} images are as they were unpacked\n", images.len()),
        )?;
        return Ok(0);
    }
    let lines: String = changed
        .iter()
        .map(|image| format!("changed: {image}\n"))
        .collect();
    let next = "next: remove it (`torno image remove`) and bring it again\n";
    context.show(&value, &format!("{lines}{next}"))?;
    Ok(FOUND_WANTING)
}

/// A name or a digest → the digest.
fn find(shelf: &Shelf, which: &str) -> Outcome<ImageDigest> {
    if which.contains(':') {
        let digest = ImageDigest::parse(which);
        return digest.map_err(|error| Stop::new("that is no image").because(&error));
    }
    let name = ImageName::parse(which);
    let name = name.map_err(|error| Stop::new("that is no image").because(&error))?;
    shelf.resolve(&name).map_err(|error| unavailable(&error))
}

fn unavailable(error: &(dyn std::error::Error + 'static)) -> Stop {
    Stop::new("the image can't be had")
        .because(error)
        .next("`torno image list` shows what is here")
}

fn not_taken(path: &Path, error: &ImportError) -> Stop {
    let next = match error {
        ImportError::Several(_) | ImportError::Manifest(_) => {
            "name the image with `--tag`, or bring one for this machine"
        }
        ImportError::Kind(_) => {
            "for a root directory itself use `torno image build --directory`; `docker save NAME` \
             writes an archive that can be taken in"
        }
        _ => "nothing of it was kept; bring the image again from a source that you trust",
    };
    Stop::new(format!("`{}` was not taken in", path.display()))
        .because(error)
        .next(next)
}

fn failed(error: &StoreError) -> Stop {
    let next = match error {
        StoreError::Busy(_) => "wait for the other `torno image`",
        StoreError::InUse(_) => {
            "`torno session list` shows the sessions; a sandbox made ahead goes ten minutes after \
             the last one, or with `torno kill --all`"
        }
        StoreError::Source(_) => "try again; what came whole is kept for that",
        StoreError::Full => "`torno image remove`, or `torno image prune`",
        StoreError::Unpack(_) | StoreError::Other { .. } | StoreError::Manifest(_) => {
            "nothing of it was kept; bring the image again from a source that you trust"
        }
        _ => "look at the disk and the rights of the directory",
    };
    Stop::new("the image was not stored or removed")
        .because(error)
        .next(next)
}
