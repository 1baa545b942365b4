// SPDX-License-Identifier: Apache-2.0
//! gVisor's runtime. Debian 12's is of 2022 and too old; Debian 13's package is one static binary.
//! It is taken by an apt of its own: this machine's archive address and installed keyring, lists
//! and cache below `target/`, signature checked by apt, unpacked and not installed.

use crate::{debian, shell};
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};

/// The release that has a usable package.
const SUITE: &str = "trixie";
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";
/// gVisor's versions are dates; the platform that needs no KVM came with this year's.
const YEAR_MIN: u32 = 2024;

/// The directory of a usable runsc: unpacked before, or on PATH.
pub(super) fn find(root: &Path) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::iter::once(unpacked(root))
        .chain(std::env::split_paths(&path))
        .find(|directory| usable(&directory.join("runsc")))
}

/// Downloads and unpacks Debian's newer package.
pub(super) fn unpack(root: &Path) -> Result<PathBuf> {
    let archive = debian::archive()?;
    let apt = root.join("target/tools/apt");
    for directory in ["lists/partial", "archives/partial", "empty.d"] {
        std::fs::create_dir_all(apt.join(directory)).context("cannot make target/tools/apt")?;
    }
    std::fs::write(apt.join("status"), "").context("cannot write target/tools/apt")?;
    let line = format!("deb [signed-by={KEYRING}] {archive} {SUITE} main\n");
    std::fs::write(apt.join("sources.list"), line).context("cannot write target/tools/apt")?;
    shell::run(own_apt(&apt).args(["-q", "update"]))?;
    shell::run(
        own_apt(&apt)
            .args(["-q", "download", "runsc"])
            .current_dir(&apt),
    )?;
    let package = std::fs::read_dir(&apt)
        .context("cannot list target/tools/apt")?
        .filter_map(|entry| entry.ok().map(|e| e.path()))
        .find(|path| path.extension().is_some_and(|e| e == "deb"))
        .context("apt downloaded no package")?;
    let place = root.join("target/tools/runsc");
    shell::run(shell::program("dpkg").arg("-x").arg(package).arg(&place))?;
    let directory = unpacked(root);
    if usable(&directory.join("runsc")) {
        Ok(directory)
    } else {
        bail!("the unpacked {}/runsc does not start", directory.display())
    }
}

fn unpacked(root: &Path) -> PathBuf {
    root.join("target/tools/runsc/usr/bin")
}

/// An apt with lists, cache and state of its own. The machine's `apt.conf.d` stays in force: it may
/// hold a proxy.
fn own_apt(apt: &Path) -> std::process::Command {
    let at = |key: &str, name: &str| format!("{key}={}", apt.join(name).display());
    let options = [
        at("Dir::Etc::SourceList", "sources.list"),
        at("Dir::Etc::SourceParts", "empty.d"),
        at("Dir::State::Lists", "lists"),
        at("Dir::State::Status", "status"),
        at("Dir::Cache", ""),
        at("Dir::Cache::Archives", "archives"),
        "APT::Sandbox::User=root".to_owned(),
        "Acquire::Languages=none".to_owned(),
        "Acquire::IndexTargets::deb::Contents-deb::DefaultEnabled=false".to_owned(),
        "APT::Get::AllowUnauthenticated=false".to_owned(),
        "Acquire::AllowInsecureRepositories=false".to_owned(),
    ];
    let mut command = shell::program("apt-get");
    for option in options {
        command.arg("-o").arg(option);
    }
    command
}

fn usable(runsc: &Path) -> bool {
    if !runsc.is_file() {
        return false;
    }
    let version = shell::output(shell::program(runsc).arg("--version")).unwrap_or_default();
    year(&version).is_some_and(|year| year >= YEAR_MIN)
}

/// The year in `runsc version 0.0~20240729.0` or `release-20240729.0`.
fn year(version: &str) -> Option<u32> {
    let first = version.lines().next()?;
    let date = first
        .split(|c: char| !c.is_ascii_digit())
        .find(|digits| digits.len() == 8)?;
    date.get(..4)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_year_decides() {
        assert_eq!(year("runsc version 0.0~20221219.0\nspec: 1.0"), Some(2022));
        assert_eq!(year("runsc version release-20240729.0-0-gabc"), Some(2024));
        assert_eq!(year("nothing"), None);
    }
}
