// SPDX-License-Identifier: Apache-2.0
//! The image `host`: the host's `/usr` as an erofs file, without `/usr/local`, as the other levels
//! show it. It is made once for each state of `/usr` and kept under a name that says which.

use super::disk::{DiskError, DiskSource, make_disk};
use super::parts::MachineParts;
use data_encoding::HEXLOWER;
use rustix::fs::{FlockOperation, flock};
use sha2::{Digest, Sha256};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Why there is no image.
#[derive(Debug, Error)]
pub enum ImageError {
    /// A file of the cache.
    #[error("the image of /usr can't be kept in `{0}`")]
    Cache(PathBuf, #[source] io::Error),
    /// It was not made.
    #[error(transparent)]
    Disk(#[from] DiskError),
}

/// LIMIT: images that are kept besides the one in use; an image has the size of `/usr`.
const KEPT_MAX: usize = 1;
/// LIMIT: directories that are looked at; a Debian with everything installed has fifty thousand.
const DIRECTORIES_MAX: usize = 400_000;
/// LIMIT: a `/usr` of this size is none that a machine is made of.
const BYTES_MAX: u64 = 64 << 30;

/// The image of the host's `/usr` as it is now, made if it isn't there. `begin` is called before
/// one is made: that takes up to a minute.
///
/// # Errors
/// [`ImageError`].
pub fn host_image(
    parts: &MachineParts,
    cache: &Path,
    begin: impl FnOnce(),
) -> Result<PathBuf, ImageError> {
    let failed = |error| ImageError::Cache(cache.to_owned(), error);
    fs::create_dir_all(cache).map_err(failed)?;
    // Some of what it holds only root may read.
    fs::set_permissions(cache, fs::Permissions::from_mode(0o700)).map_err(failed)?;
    let cache = fs::canonicalize(cache).map_err(failed)?;
    let state = state_of(Path::new("/usr")).map_err(failed)?;
    let image = cache.join(format!("usr-{state}.erofs"));
    let _lock = take(&cache).map_err(failed)?;
    if image.is_file() {
        return Ok(image);
    }
    begin();
    let unfinished = cache.join(UNFINISHED);
    let source = DiskSource {
        directory: Path::new("/usr"),
        without: Some("local"),
        bytes_max: BYTES_MAX,
    };
    make_disk(parts, source, &unfinished)?;
    fs::rename(&unfinished, &image).map_err(failed)?;
    drop_old(&cache, &image).map_err(failed)?;
    Ok(image)
}

/// What is being made, under a name that begins so.
pub(super) const UNFINISHED: &str = "unfinished";

/// The cache is ours alone until the file is dropped. Another daemon may be at it: whoever comes
/// second finds what the first made. What is unfinished now, somebody died of.
pub(super) fn take(cache: &Path) -> io::Result<File> {
    let lock = File::create(cache.join("lock"))?;
    flock(&lock, FlockOperation::LockExclusive)?;
    for entry in fs::read_dir(cache)? {
        let entry = entry?;
        let name = entry.file_name();
        if name.as_encoded_bytes().starts_with(UNFINISHED.as_bytes()) {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(lock)
}

/// A name for the state of a tree that packages are installed to: every directory by its path and
/// the time of its last change. Package managers replace files by renaming, which changes the
/// directory; a file that is written in place by hand is not noticed until something else changes.
fn state_of(tree: &Path) -> io::Result<String> {
    let mut digest = Sha256::new();
    let mut waiting = vec![tree.to_owned()];
    let mut seen = 0_usize;
    while let Some(directory) = waiting.pop() {
        seen += 1;
        if seen > DIRECTORIES_MAX {
            return Err(io::Error::other("more directories than an image may have"));
        }
        let found = fs::metadata(&directory)?;
        digest.update(directory.as_os_str().as_encoded_bytes());
        digest.update([0]);
        digest.update(found.mtime().to_le_bytes());
        digest.update(found.mtime_nsec().to_le_bytes());
        let mut below = Vec::new();
        for entry in fs::read_dir(&directory)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() && entry.path() != tree.join("local") {
                below.push(entry.path());
            }
        }
        below.sort();
        waiting.append(&mut below);
    }
    let name = HEXLOWER.encode(&digest.finalize());
    Ok(name.chars().take(STATE_CHARACTERS).collect())
}

/// 128 bits tell states apart.
const STATE_CHARACTERS: usize = 32;

/// Removes the oldest images beyond [`KEPT_MAX`]; who still boots from one keeps it until its end.
fn drop_old(cache: &Path, current: &Path) -> io::Result<()> {
    let mut old = Vec::new();
    for entry in fs::read_dir(cache)? {
        let path = entry?.path();
        if path != current && path.extension().is_some_and(|end| end == "erofs") {
            old.push((fs::metadata(&path)?.modified()?, path));
        }
    }
    old.sort();
    for (_, path) in old.iter().take(old.len().saturating_sub(KEPT_MAX)) {
        fs::remove_file(path)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_of_a_tree_changes_with_what_is_installed_and_not_with_what_is_local() {
        let tree = tempfile::tempdir().unwrap();
        let path = |name: &str| tree.path().join(name);
        fs::create_dir_all(path("lib/deep")).unwrap();
        fs::create_dir_all(path("local/bin")).unwrap();
        fs::write(path("lib/deep/a"), "old").unwrap();
        let before = state_of(tree.path()).unwrap();
        assert_eq!(state_of(tree.path()).unwrap(), before);
        fs::write(path("local/bin/x"), "mine").unwrap();
        assert_eq!(state_of(tree.path()).unwrap(), before);
        // As a package manager replaces a file.
        fs::write(path("lib/deep/a.new"), "new").unwrap();
        fs::rename(path("lib/deep/a.new"), path("lib/deep/a")).unwrap();
        let after = state_of(tree.path()).unwrap();
        assert_ne!(after, before);
        fs::rename(path("lib/deep"), path("lib/other")).unwrap();
        assert_ne!(state_of(tree.path()).unwrap(), after);
    }

    #[test]
    fn what_somebody_died_of_is_gone_and_what_is_at_work_is_waited_for() {
        let cache = tempfile::tempdir().unwrap();
        for name in [UNFINISHED, "unfinished-kernel", "usr-1.erofs", "vmlinux-1"] {
            fs::write(cache.path().join(name), "x").unwrap();
        }
        let lock = take(cache.path()).unwrap();
        let mut left: Vec<_> = fs::read_dir(cache.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        left.sort();
        assert_eq!(left, ["lock", "usr-1.erofs", "vmlinux-1"]);
        let other = File::open(cache.path().join("lock")).unwrap();
        assert!(flock(&other, FlockOperation::NonBlockingLockExclusive).is_err());
        drop(lock);
        flock(&other, FlockOperation::NonBlockingLockExclusive).unwrap();
    }

    #[test]
    fn images_beyond_the_last_two_are_removed() {
        let cache = tempfile::tempdir().unwrap();
        let image = |number: u64| cache.path().join(format!("usr-{number}.erofs"));
        for number in 0..4 {
            let made = File::create(image(number)).unwrap();
            let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(number);
            made.set_modified(time).unwrap();
        }
        fs::write(cache.path().join("lock"), "").unwrap();
        drop_old(cache.path(), &image(3)).unwrap();
        let left: Vec<bool> = (0..4).map(|number| image(number).exists()).collect();
        assert_eq!(left, [false, false, true, true]);
        assert!(cache.path().join("lock").exists());
    }
}
