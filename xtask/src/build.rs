// SPDX-License-Identifier: Apache-2.0
//! The binaries, side by side: the static guest first, then tornod and torno with its digest, then
//! the stage's programs.

mod elf;

use crate::packages::Graph;
use crate::setup::Tools;
use crate::shell;
use anyhow::{Context, Result, bail};
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};

/// Which cargo profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Profile {
    /// One profile for clippy, tests, e2e and the demo.
    Dev,
    /// Benchmarks only.
    Release,
}

impl Profile {
    /// From the command line's flag.
    pub(crate) fn new(release: bool) -> Self {
        if release { Self::Release } else { Self::Dev }
    }

    fn directory(self) -> &'static str {
        match self {
            Self::Dev => "debug",
            Self::Release => "release",
        }
    }

    /// The setting that leaves symbols out of what is linked.
    fn stripped(self) -> &'static str {
        match self {
            Self::Dev => "profile.dev.strip=\"symbols\"",
            Self::Release => "profile.release.strip=\"symbols\"",
        }
    }

    fn arguments(self) -> &'static [&'static str] {
        match self {
            Self::Dev => &[],
            Self::Release => &["--release"],
        }
    }
}

/// What was built.
#[derive(Debug)]
pub(crate) struct Built {
    /// Where torno, tornod, torno-guest and torno-demo lie.
    pub(crate) directory: PathBuf,
    /// The guest's SHA-256, hex.
    pub(crate) guest: String,
}

/// The variable through which tornod learns which guest is its own.
pub(crate) const GUEST_DIGEST: &str = "TORNO_GUEST_SHA256";

/// What goes side by side. The stage's programs are only there in versions that have them.
const SHIPPED: [&str; 7] = [
    "torno",
    "tornod",
    "torno-demo",
    "torno-campaign",
    "torno-bench",
    "torno-load",
    "torno-clock",
];

/// Builds everything.
///
/// The whole workspace is selected, examples too: with the features that this turns on, the tests
/// and everything else use what was built here, and nothing is compiled twice. What ships is copied
/// to a directory of its own, because cargo puts a guest that is not static into its output.
pub(crate) fn run(root: &Path, profile: Profile, tools: &Tools) -> Result<Built> {
    let target = Graph::load(root)?.target;
    let output = target.join(profile.directory());
    let directory = output.join("shipped");
    let guest = guest(root, profile, &target)?;
    let digest = data_encoding::HEXLOWER.encode(&Sha256::digest(&guest));
    shell::run(
        shell::cargo(root)
            .args(["build", "--locked", "--workspace", "--bins", "--examples"])
            .args(profile.arguments())
            .env(GUEST_DIGEST, &digest),
    )?;
    std::fs::create_dir_all(&directory).context("cannot make the directory of what ships")?;
    place(&directory.join("torno-guest"), &guest)?;
    for name in SHIPPED {
        if let Ok(bytes) = std::fs::read(output.join(name)) {
            place(&directory.join(name), &bytes)?;
        }
    }
    // Where tornod looks for runtimes before the system's directories.
    if let Some(runsc) = &tools.runsc {
        let runtimes = directory.join("runtimes");
        std::fs::create_dir_all(&runtimes).context("cannot make the directory of runtimes")?;
        let runsc = std::fs::read(runsc.join("runsc")).context("cannot read runsc")?;
        place(&runtimes.join("runsc"), &runsc)?;
    }
    if let Some(machine) = &tools.machine {
        link(machine, &directory.join("runtimes/machine"))?;
    }
    eprintln!(
        "   torno, tornod, torno-guest ({digest}) in {}",
        directory.display()
    );
    Ok(Built {
        directory,
        guest: digest,
    })
}

/// Builds the guest, and holds it to being static.
fn guest(root: &Path, profile: Profile, target: &Path) -> Result<Vec<u8>> {
    // The target is named, so that the flags don't reach build scripts and macros.
    let platform = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    shell::run(
        shell::cargo(root)
            .args([
                "build",
                "--locked",
                "-p",
                "torno-guest",
                "--target",
                &platform,
            ])
            .args(profile.arguments())
            // It is copied into each sandbox: without its symbols it is a seventh of the size.
            .args(["--config", profile.stripped()])
            .env("RUSTFLAGS", "-Ctarget-feature=+crt-static"),
    )?;
    let path = target
        .join(&platform)
        .join(profile.directory())
        .join("torno-guest");
    let bytes = std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let asks = elf::asks_of_the_system(&bytes)?;
    if asks.is_empty() {
        Ok(bytes)
    } else {
        bail!("torno-guest is not static: it has {}", asks.join(" and "))
    }
}

/// Points a link to a directory.
fn link(to: &Path, at: &Path) -> Result<()> {
    if std::fs::read_link(at).is_ok_and(|old| old == to) {
        return Ok(());
    }
    let fresh = at.with_extension("fresh");
    std::fs::create_dir_all(at.parent().unwrap_or(at))
        .and_then(|()| std::os::unix::fs::symlink(to, &fresh))
        .and_then(|()| std::fs::rename(&fresh, at))
        .with_context(|| format!("cannot link {}", at.display()))
}

/// Puts a file in place by rename, so that a running copy is never written to.
fn place(path: &Path, bytes: &[u8]) -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    if std::fs::read(path).is_ok_and(|old| old == bytes) {
        return Ok(());
    }
    let fresh = path.with_extension("fresh");
    std::fs::write(&fresh, bytes)
        .and_then(|()| std::fs::set_permissions(&fresh, std::fs::Permissions::from_mode(0o755)))
        .and_then(|()| std::fs::rename(&fresh, path))
        .with_context(|| format!("cannot write {}", path.display()))
}
