// SPDX-License-Identifier: Apache-2.0
//! `torno image build`: of a directory, or of Debian's packages by their names.

use super::{failed, not_taken, open, shelve};
use crate::context::{Context, note};
use crate::stop::{Outcome, Stop};
use std::path::PathBuf;
use torno_image::debian::{
    self, DebianError, Mirror, PACKAGES_MAX, PackageName, Source, SourceError, Suite, Wanted,
};
use torno_image::import;
use torno_policy::names::ImageName;

/// What to build.
#[derive(Debug, clap::Args)]
pub(crate) struct Build {
    /// Laid out like `/`: `usr`, `etc`, `bin`
    #[arg(
        long,
        value_name = "DIR",
        required_unless_present = "debian",
        conflicts_with = "debian"
    )]
    directory: Option<PathBuf>,
    /// Packages of Debian, besides those that are essential; needs `mmdebstrap`
    #[arg(long, value_name = "PACKAGE,…", value_delimiter = ',')]
    debian: Vec<PackageName>,
    /// What the image is called here; one of Debian's packages has its digest too
    #[arg(
        long,
        value_name = "NAME",
        value_parser = ImageName::parse,
        required_unless_present = "debian"
    )]
    name: Option<ImageName>,
    /// Debian's suite, instead of this machine's own
    #[arg(long, value_name = "SUITE", requires = "debian")]
    suite: Option<Suite>,
    /// Where packages come from, instead of this machine's own sources; may be given again
    #[arg(long, value_name = "URL", requires = "debian")]
    mirror: Vec<Mirror>,
}

/// Runs it.
pub(super) fn run(wanted: &Build, context: &Context) -> Outcome<u8> {
    match &wanted.directory {
        Some(directory) => of_directory(directory, wanted, context),
        None => of_debian(wanted, context),
    }
}

fn of_directory(directory: &std::path::Path, wanted: &Build, context: &Context) -> Outcome<u8> {
    let path = context.directory.join(directory);
    let mut store = open(context)?;
    context.progress(&format!("packing {}", directory.display()));
    let packed = import::directory(&mut store, &path);
    let (image, packed) = packed.map_err(|error| not_taken(&path, &error))?;
    if packed.left_out > 0 {
        let left_out = packed.left_out;
        note(&format!(
            "torno: {left_out} sockets, FIFOs and devices were left out\n"
        ));
    }
    shelve(&mut store, &image, (&path, wanted.name.as_ref()), context)
}

fn of_debian(wanted: &Build, context: &Context) -> Outcome<u8> {
    if wanted.debian.len() > PACKAGES_MAX {
        return Err(Stop::new(format!("more than {PACKAGES_MAX} packages"))
            .next("name those that you use; what they need comes by itself"));
    }
    let (suite, sources) = sources(wanted).map_err(|error| no_sources(&error))?;
    let mut store = open(context)?;
    let built = Wanted {
        packages: &wanted.debian,
        suite: &suite,
        sources: &sources,
    };
    let mut progress = |step: &str| context.progress(step);
    let built = debian::build(&mut store, built, &mut progress);
    let image = built.map_err(|error| not_built(&error))?;
    let packages: Vec<&str> = wanted.debian.iter().map(PackageName::as_str).collect();
    let source = PathBuf::from(format!("debian {suite}: {}", packages.join(",")));
    shelve(&mut store, &image, (&source, wanted.name.as_ref()), context)
}

/// What was named, and the machine's own for what was not.
fn sources(wanted: &Build) -> Result<(Suite, Vec<Source>), SourceError> {
    let suite = match &wanted.suite {
        Some(suite) => suite.clone(),
        None => debian::own_suite()?,
    };
    let sources = if wanted.mirror.is_empty() {
        debian::own_sources(&suite, debian::checks_age())?
    } else {
        let mirrors = wanted.mirror.iter().cloned();
        let sources = mirrors.map(|mirror| Source::of(mirror, suite.clone()));
        sources.collect::<Result<_, SourceError>>()?
    };
    Ok((suite, sources))
}

fn no_sources(error: &SourceError) -> Stop {
    Stop::new("there is nowhere to take packages from")
        .because(error)
        .next("name a suite and a mirror: `--suite SUITE --mirror URL`")
}

fn not_built(error: &DebianError) -> Stop {
    let next = match error {
        DebianError::Import(import::ImportError::Store(error)) => return failed(error),
        DebianError::Missing => crate::command::doctor::MMDEBSTRAP_FIX,
        DebianError::Failed { .. } => {
            "look at the names of the packages (`apt-cache search`), at the mirror and, without \
             root, at your lines in /etc/subuid and /etc/subgid"
        }
        _ => "nothing of it was kept; try again",
    };
    Stop::new("the image was not built")
        .because(error)
        .next(next)
}
