// SPDX-License-Identifier: Apache-2.0
//! `torno image pull`: from a registry, as the person, with the person's own docker login where
//! there is one. The login is read for this one pull and kept nowhere.

use super::{failed, open, shelve};
use crate::context::Context;
use crate::stop::{Outcome, Stop};
use std::fs::File;
use std::io::Read;
use std::path::PathBuf;
use torno_image::registry::{self, Credential, Http, PullError, Reference, Trust, credential_for};
use torno_policy::names::ImageName;

/// LIMIT: a login for each registry that a person ever used.
const CONFIGURATION_BYTES_MAX: u64 = 1 << 20;

/// What to fetch.
#[derive(Debug, clap::Args)]
pub(crate) struct Pull {
    /// `REGISTRY/REPOSITORY:TAG` or `REGISTRY/REPOSITORY@sha256:…`
    #[arg(value_parser = Reference::parse)]
    reference: Reference,
    /// What the image is called here
    #[arg(long, value_name = "NAME", value_parser = ImageName::parse)]
    name: ImageName,
    /// Trust these certificates (PEM) instead of the system's
    #[arg(long, value_name = "FILE")]
    ca_file: Option<PathBuf>,
    /// Use no login, also where docker's configuration has one
    #[arg(long)]
    anonymous: bool,
}

/// Runs it.
pub(super) fn run(wanted: &Pull, context: &Context) -> Outcome<u8> {
    let trust = match &wanted.ca_file {
        Some(file) => Trust::File(context.directory.join(file)),
        None => Trust::System,
    };
    let http =
        Http::new(&trust).map_err(|error| Stop::new("nobody can be trusted").because(&error))?;
    let mut store = open(context)?;
    let login = login(wanted, context);
    let mut progress = |step: &str| context.progress(step);
    let pulled = registry::pull(&mut store, &http, &wanted.reference, login, &mut progress);
    let image = pulled.map_err(|error| not_pulled(&wanted.reference, &error))?;
    let source = PathBuf::from(wanted.reference.to_string());
    shelve(&mut store, &image, (&source, Some(&wanted.name)), context)
}

/// A configuration that can't be read is none: then it goes without a login.
fn login(wanted: &Pull, context: &Context) -> Option<Credential> {
    let home = context.home.as_ref().filter(|_| !wanted.anonymous)?;
    let file = File::open(home.join(".docker/config.json")).ok()?;
    let mut text = zeroize::Zeroizing::new(Vec::new());
    let read = file.take(CONFIGURATION_BYTES_MAX).read_to_end(&mut text);
    read.ok()
        .and_then(|_| credential_for(&wanted.reference, &text))
}

fn not_pulled(reference: &Reference, error: &PullError) -> Stop {
    if let PullError::Store(error) = error {
        return failed(error);
    }
    let next = match error {
        PullError::Status {
            status: 401 | 403, ..
        }
        | PullError::Challenge(_) => {
            "log in with `docker login`, or look at the name: registries say that of what is not \
             there too"
        }
        PullError::Status { status: 404, .. } => "look at the repository and the tag",
        PullError::Manifest(_) => "name an image for this machine, by its digest",
        PullError::Http(_) => {
            "look at the name and the network; layers that came whole are kept for the next try"
        }
        _ => "nothing of it was kept; ask whoever runs the registry",
    };
    Stop::new(format!("`{reference}` was not pulled"))
        .because(error)
        .next(next)
}
