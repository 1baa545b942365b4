// SPDX-License-Identifier: Apache-2.0
//! What an unpacked image looks like, as one digest; and whether it still does.

use super::{StoreError, of_file};
use crate::digest;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, openat, readlinkat, statat};
use sha2::{Digest, Sha256};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use torno_control_api::images::{Held, Shelf};
use torno_policy::names::{ImageDigest, ImageName};

/// What a look at an image found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// As it was unpacked.
    Same,
    /// Changed since.
    Changed,
}

/// Every image that is on the shelf.
///
/// # Errors
/// [`StoreError::File`].
pub fn images(shelf: &Shelf) -> Result<Vec<ImageDigest>, StoreError> {
    let names = listed(&shelf.images())?;
    let digests = names
        .iter()
        .map(|hex| ImageDigest::parse(&format!("sha256:{hex}")));
    Ok(digests.filter_map(Result::ok).collect())
}

/// Every name, and what it stands for.
///
/// # Errors
/// [`StoreError`].
pub fn names(shelf: &Shelf) -> Result<Vec<(ImageName, ImageDigest)>, StoreError> {
    let names = listed(&shelf.names())?;
    let names = names.iter().filter_map(|name| ImageName::parse(name).ok());
    names
        .map(|name| Ok((name.clone(), shelf.resolve(&name)?)))
        .collect()
}

/// Names in a directory, in their order; none where there is no directory yet.
pub(super) fn listed(directory: &Path) -> Result<Vec<String>, StoreError> {
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(|error| of_file(directory, error))?,
    };
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|error| of_file(directory, error))?;
        names.extend(entry.file_name().into_string());
    }
    names.sort();
    Ok(names)
}

/// Looks at every path, right and byte of an image, and of its disk where machines have one.
///
/// # Errors
/// [`StoreError`] when it is not there, or can't be read.
pub fn verify(shelf: &Shelf, image: &ImageDigest) -> Result<Verdict, StoreError> {
    let held = shelf.hold(image)?;
    let manifest = shelf.image(image).join("manifest.json");
    let text = fs::read(&manifest).map_err(|error| of_file(&manifest, error))?;
    let is_same = digest::of(&text).as_ref() == Some(image)
        && tree_digest(&held.root)? == held.about.tree
        && is_its_disk_the_same(&held)?;
    Ok(if is_same {
        Verdict::Same
    } else {
        Verdict::Changed
    })
}

/// A disk is called by its digest.
fn is_its_disk_the_same(held: &Held) -> Result<bool, StoreError> {
    let Some(disk) = held.disk()? else {
        return Ok(true);
    };
    let mut all = Sha256::new();
    let file = File::open(&disk.path).map_err(|error| of_file(&disk.path, error))?;
    content(file, &mut all).map_err(|error| of_file(&disk.path, error))?;
    Ok(digest::of_hash(all) == Some(disk.digest))
}

/// Paths, kinds, rights, targets and contents of a tree, hashed in the order of their names.
pub(super) fn tree_digest(root: &Path) -> Result<ImageDigest, StoreError> {
    let mut all = Sha256::new();
    let directory = super::directory(root)?;
    let looked = below(&directory, b"", &mut all);
    looked.map_err(|error| of_file(root, error))?;
    digest::of_hash(all).ok_or(StoreError::Long("tree"))
}

const DIRECTORY: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// As deep as it was unpacked.
fn below(directory: &OwnedFd, at: &[u8], all: &mut Sha256) -> io::Result<()> {
    let mut names = Vec::new();
    for entry in Dir::read_from(directory)? {
        let name = entry?.file_name().to_bytes().to_vec();
        if name != b"." && name != b".." {
            names.push(name);
        }
    }
    names.sort();
    for bytes in names {
        let name = OsStr::from_bytes(&bytes);
        let path = [at, b"/", &bytes].concat();
        let found = statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
        let kind = FileType::from_raw_mode(found.st_mode);
        field(all, &path);
        all.update((found.st_mode & 0o7777).to_le_bytes());
        match kind {
            FileType::Directory => {
                all.update(b"d");
                let inner = openat(directory, name, DIRECTORY, Mode::empty())?;
                below(&inner, &path, all)?;
            }
            FileType::Symlink => {
                all.update(b"l");
                field(all, readlinkat(directory, name, Vec::new())?.as_bytes());
            }
            FileType::RegularFile => {
                all.update(b"f");
                let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let file = File::from(openat(directory, name, flags, Mode::empty())?);
                all.update(file.metadata()?.len().to_le_bytes());
                content(file, all)?;
            }
            _ => all.update(b"?"),
        }
    }
    Ok(())
}

/// With its length first, no two lists of fields look alike.
fn field(all: &mut Sha256, text: &[u8]) {
    all.update(text.len().to_le_bytes());
    all.update(text);
}

fn content(mut file: File, all: &mut Sha256) -> io::Result<()> {
    let mut buffer = vec![0; 64 << 10];
    loop {
        let length = file.read(&mut buffer)?;
        if length == 0 {
            return Ok(());
        }
        all.update(buffer.get(..length).unwrap_or_default());
    }
}
