// SPDX-License-Identifier: Apache-2.0
//! The directories of `also` that a start names, beside those that its caller could open. The
//! launcher reaches every directory, its callers don't: what is shown is what was handed over.

use super::Failed;
use crate::orders::SandboxOrder;
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, fstat, openat2};
use std::os::fd::OwnedFd;
use std::path::Path;

/// What came with an order: each listed directory.
pub(super) fn check(order: &SandboxOrder, given: Vec<OwnedFd>) -> Result<(), Failed> {
    let mut given = given.into_iter();
    for (path, _) in &order.also {
        if !given.next().is_some_and(|handed| is_at(path, &handed)) {
            return Err(Failed {
                code: "also_mismatch".to_owned(),
                message: format!(
                    "`{}` of `also` is not the directory that was handed over",
                    path.display()
                ),
                hint:
                    "leave it in its place while the session starts; run the torno and tornod of \
                       one release"
                        .to_owned(),
            });
        }
    }
    match given.next() {
        None => Ok(()),
        Some(_) => Err(Failed::internal("descriptors that nobody asked for")),
    }
}

/// Whether this is the directory with that path, which leads through no link.
fn is_at(path: &Path, handed: &OwnedFd) -> bool {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let there = openat2(CWD, path, flags, Mode::empty(), resolve).and_then(fstat);
    match (there, fstat(handed)) {
        (Ok(there), Ok(handed)) => (there.st_dev, there.st_ino) == (handed.st_dev, handed.st_ino),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    // ATTACK: 176
    #[test]
    fn what_was_handed_over_is_what_lies_there_and_by_no_link() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().canonicalize().unwrap();
        for name in ["listed", "other"] {
            std::fs::create_dir(dir.join(name)).unwrap();
        }
        std::os::unix::fs::symlink("listed", dir.join("link")).unwrap();
        let handed = OwnedFd::from(File::open(dir.join("listed")).unwrap());
        assert!(is_at(&dir.join("listed"), &handed));
        for name in ["other", "link", "gone", "listed/../other"] {
            assert!(!is_at(&dir.join(name), &handed), "{name}");
        }
        std::fs::rename(dir.join("other"), dir.join("listed")).unwrap();
        assert!(!is_at(&dir.join("listed"), &handed));
    }
}
