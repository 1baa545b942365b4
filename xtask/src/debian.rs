// SPDX-License-Identifier: Apache-2.0
//! Debian packages without installing them: fetched from the machine's own sources, checked by apt,
//! unpacked below `target/`. No service of theirs starts, and nothing is added to the system.

use crate::shell;
use anyhow::{Context, Result};
use std::path::Path;

/// Fetches packages, and what is missing of their libraries, and unpacks them into `root`.
pub(crate) fn unpack(packages: &[&str], archives: &Path, root: &Path) -> Result<()> {
    std::fs::create_dir_all(archives.join("partial")).context("no directory of archives")?;
    shell::run(
        shell::program("apt-get")
            .args(["install", "-y", "-q", "--no-install-recommends"])
            .args(["--no-upgrade", "--download-only", "-o"])
            .arg(format!("Dir::Cache::archives={}/", archives.display()))
            .args(packages),
    )?;
    for entry in std::fs::read_dir(archives).context("cannot list the archives")? {
        let path = entry.context("cannot list the archives")?.path();
        if path.extension().is_some_and(|extension| extension == "deb") {
            shell::run(shell::program("dpkg").arg("-x").arg(&path).arg(root))?;
        }
    }
    Ok(())
}

/// The address of the main Debian archive, as this machine's sources have it.
pub(crate) fn archive() -> Result<String> {
    let sources = sources()?;
    let archive = main_archive(&sources);
    let archive = archive.context("this machine's apt sources name no Debian archive")?;
    Ok(archive.to_owned())
}

fn sources() -> Result<String> {
    let mut text = std::fs::read_to_string("/etc/apt/sources.list").unwrap_or_default();
    let parts = std::fs::read_dir("/etc/apt/sources.list.d");
    for entry in parts.into_iter().flatten() {
        let path = entry.context("cannot list the apt sources")?.path();
        if path
            .extension()
            .is_some_and(|e| e == "sources" || e == "list")
        {
            text.push('\n');
            text.push_str(&std::fs::read_to_string(path).unwrap_or_default());
        }
    }
    Ok(text)
}

/// In sources of either format.
fn main_archive(sources: &str) -> Option<&str> {
    let is_main = |uri: &&str| uri.trim_end_matches('/').ends_with("/debian");
    sources.lines().find_map(|line| {
        let mut words = line.split_whitespace();
        match words.next() {
            Some("URIs:") => words.find(is_main),
            Some("deb") => words.find(is_main),
            _ => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_archive_is_found_in_both_formats() {
        let new = "Types: deb\n# URIs: x\nURIs: http://mirror.test/debian\nSuites: bookworm\n";
        assert_eq!(main_archive(new), Some("http://mirror.test/debian"));
        let old = "deb [arch=amd64] http://mirror.test/debian/ bookworm main\n";
        assert_eq!(main_archive(old), Some("http://mirror.test/debian/"));
        let security = "deb http://mirror.test/debian-security bookworm-security main\n";
        assert_eq!(main_archive(security), None);
    }
}
