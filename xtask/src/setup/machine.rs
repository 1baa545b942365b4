// SPDX-License-Identifier: Apache-2.0
//! The parts of a virtual machine: QEMU, Debian's kernel for machines, a maker of erofs images.
//! Fetched from the machine's own sources and unpacked, not installed: QEMU's package and newer
//! QEMU tools exclude each other.

use crate::debian;
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};

const PACKAGES: [&str; 3] = ["qemu-system-x86", "linux-image-cloud-amd64", "erofs-utils"];

/// The directory of the parts, laid out like `/`; none where they are installed, or of another
/// architecture.
pub(super) fn find(root: &Path) -> Option<PathBuf> {
    let directory = directory(root);
    is_whole(&directory).then_some(directory)
}

/// Fetches and unpacks what isn't installed.
pub(super) fn unpack(root: &Path) -> Result<Option<PathBuf>> {
    if cfg!(not(target_arch = "x86_64")) || is_whole(Path::new("/")) {
        return Ok(None);
    }
    let directory = directory(root);
    debian::unpack(&PACKAGES, &directory.join("archives"), &directory)?;
    std::fs::remove_dir_all(directory.join("archives")).context("cannot remove the archives")?;
    if is_whole(&directory) {
        Ok(Some(directory))
    } else {
        bail!("{} lacks QEMU or a kernel", directory.display())
    }
}

fn directory(root: &Path) -> PathBuf {
    root.join("target/tools/machine")
}

fn is_whole(root: &Path) -> bool {
    let kernels = std::fs::read_dir(root.join("boot"))
        .into_iter()
        .flatten()
        .flatten();
    let is_kernel = |name: &str| name.starts_with("vmlinuz-") && name.ends_with("-cloud-amd64");
    let mut names = kernels.filter_map(|entry| entry.file_name().into_string().ok());
    root.join("usr/bin/qemu-system-x86_64").is_file() && names.any(|name| is_kernel(&name))
}
