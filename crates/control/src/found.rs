// SPDX-License-Identifier: Apache-2.0
//! A file or directory as it was found. What is removed later is that very one, as it was then:
//! another one that has its name meanwhile, or one that somebody works on, stays.

use anyhow::Context;
use std::fmt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// What lay somewhere. There is no way to its path but to look again.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Found {
    path: PathBuf,
    which: Which,
}

/// Which one it is, however it is called, and when it was changed last. A control group has no such
/// time, and a number that no other one gets; files get each other's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Which {
    device: u64,
    inode: u64,
    changed: Option<(i64, i64)>,
}

impl Which {
    /// Not through a link.
    fn at(path: &Path, is_group: bool) -> std::io::Result<Self> {
        let metadata = path.symlink_metadata()?;
        let changed = (metadata.ctime(), metadata.ctime_nsec());
        Ok(Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            changed: (!is_group).then_some(changed),
        })
    }
}

impl Found {
    /// What lies there now; nothing where nothing does.
    pub(crate) fn at(path: PathBuf) -> anyhow::Result<Option<Self>> {
        Self::of(path, false)
    }

    /// The same of a control group.
    pub(crate) fn group(path: PathBuf) -> anyhow::Result<Option<Self>> {
        Self::of(path, true)
    }

    fn of(path: PathBuf, is_group: bool) -> anyhow::Result<Option<Self>> {
        match Which::at(&path, is_group) {
            Ok(which) => Ok(Some(Self { path, which })),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).with_context(|| format!("`{}`", path.display())),
        }
    }

    /// Its path, if the same lies there still, unchanged.
    pub(crate) fn still(self) -> anyhow::Result<PathBuf> {
        let is_group = self.which.changed.is_none();
        let now = Which::at(&self.path, is_group).context("it is not there any more")?;
        anyhow::ensure!(
            now == self.which,
            "it is not what was found: made again or changed since; look again with `torno gc`"
        );
        Ok(self.path)
    }
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.path.display().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn only_the_very_thing_that_was_found_is_given_again() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let found = |name: &str| Found::at(at(name)).unwrap().unwrap();
        assert_eq!(Found::at(at("none")).unwrap(), None);
        for name in ["same", "again", "changed", "gone", "link"] {
            fs::write(at(name), "x").unwrap();
        }
        fs::create_dir(at("directory")).unwrap();
        let [same, again, changed, gone, link, directory] =
            ["same", "again", "changed", "gone", "link", "directory"].map(found);
        // The kernel's clock of files moves by a few milliseconds.
        std::thread::sleep(std::time::Duration::from_millis(20));
        fs::write(at("new"), "x").unwrap();
        fs::rename(at("new"), at("again")).unwrap();
        fs::write(at("changed"), "y").unwrap();
        fs::remove_file(at("gone")).unwrap();
        fs::remove_file(at("link")).unwrap();
        std::os::unix::fs::symlink("same", at("link")).unwrap();
        fs::remove_dir(at("directory")).unwrap();
        fs::create_dir(at("directory")).unwrap();
        assert_eq!(same.to_string(), at("same").display().to_string());
        assert_eq!(same.still().unwrap(), at("same"));
        for other in [again, changed, link, directory] {
            let place = other.to_string();
            let error = other.still().unwrap_err().to_string();
            assert!(error.contains("not what was found"), "{place}: {error}");
        }
        assert!(gone.still().unwrap_err().to_string().contains("not there"));
    }
}
