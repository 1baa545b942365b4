// SPDX-License-Identifier: Apache-2.0
//! Directories, sockets and the operator's token, made before any role runs.

use crate::roles::uids;
use anyhow::{Context, bail, ensure};
use rustix::fs::{FlockOperation, Mode, OFlags};
use sha2::{Digest, Sha256};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use torno_control_api::channel;
use torno_control_api::paths::Paths;

/// Makes the directories, each 0700 and its role's own.
pub(super) fn make(paths: &Paths, root: bool) -> anyhow::Result<()> {
    let owned = |uid: u32| root.then_some(uid);
    directory(paths.runtime(), None)?;
    // Roles with a uid of their own pass through these two to their own directory.
    directory(paths.state(), None)?;
    if root {
        passable(paths)?;
    }
    directory(&paths.notary_state(), owned(uids::NOTARY))?;
    directory(&paths.record(), owned(uids::NOTARY))?;
    directory(&desk_state(paths), owned(uids::DESK))?;
    directory(&paths.sandboxes(), None)
}

/// Roles with a uid of their own must be able to pass through every directory above theirs. The
/// state directory, and a `TORNO_HOME` above it, are ours to open; nothing further up is.
fn passable(paths: &Paths) -> anyhow::Result<()> {
    let open = std::fs::Permissions::from_mode(0o711);
    std::fs::set_permissions(paths.state(), open.clone())?;
    let home = paths
        .state()
        .parent()
        .filter(|home| paths.runtime().parent() == Some(home));
    if let Some(home) = home {
        std::fs::set_permissions(home, open)?;
    }
    for above in paths.state().ancestors().skip(1) {
        let mode = std::fs::metadata(above)?.permissions().mode();
        ensure!(
            mode & 0o001 != 0,
            "the roles' own users can't pass through `{0}`; run `chmod o+x {0}`, or set TORNO_HOME \
             to a place that everybody can pass to",
            above.display()
        );
    }
    Ok(())
}

/// The desk's directory.
pub(super) fn desk_state(paths: &Paths) -> PathBuf {
    paths.state().join("desk")
}

/// The guest agent lies beside this binary.
pub(super) fn guest() -> PathBuf {
    let own = std::env::current_exe().unwrap_or_default();
    own.with_file_name("torno-guest")
}

fn directory(path: &Path, owner: Option<u32>) -> anyhow::Result<()> {
    let about = || format!("can't make `{}`", path.display());
    nobody_else_prepares(path, owner)?;
    std::fs::create_dir_all(path).with_context(about)?;
    // Once more: what was not there a moment ago may have been made by somebody else.
    nobody_else_prepares(path, owner)?;
    let meta = std::fs::symlink_metadata(path).with_context(about)?;
    let own = rustix::process::geteuid().as_raw();
    ensure!(meta.is_dir(), "`{}` is no directory", path.display());
    ensure!(
        meta.uid() == own || Some(meta.uid()) == owner,
        "`{}` belongs to uid {}; remove it or give it to uid {own}",
        path.display(),
        meta.uid()
    );
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o700)).with_context(about)?;
    if let Some(owner) = owner {
        std::os::unix::fs::chown(path, Some(owner), Some(owner)).with_context(about)?;
    }
    Ok(())
}

/// Refuses a place that somebody else than its owner could swap: whoever owns a directory above
/// it, or may write there, can put another directory, or a link, where ours is looked for.
/// ATTACK: 149
fn nobody_else_prepares(path: &Path, owner: Option<u32>) -> anyhow::Result<()> {
    let Some(parent) = path.ancestors().skip(1).find(|above| above.exists()) else {
        bail!("`{}` has no directory above it", path.display())
    };
    // By the way that is named, links included, and by the way that it really goes.
    let real = parent.canonicalize()?;
    for above in parent.ancestors().chain(real.ancestors()) {
        let meta = std::fs::symlink_metadata(above)?;
        let own = rustix::process::geteuid().as_raw();
        ensure!(
            [0, own].contains(&meta.uid()) || Some(meta.uid()) == owner,
            "`{}` is in the way to `{}` and belongs to uid {}, who could swap it; set TORNO_HOME \
             to a place of your own",
            above.display(),
            path.display(),
            meta.uid()
        );
        let mode = meta.mode();
        // Root's group is root; a link has no rights of its own.
        let others = mode & 0o002 != 0 || (mode & 0o020 != 0 && meta.gid() != 0);
        ensure!(
            meta.is_symlink() || !others || mode & STICKY != 0,
            "others may write to `{0}`, and so swap `{1}`; run `chmod go-w {0}`, or set TORNO_HOME \
             to a place of your own",
            above.display(),
            path.display()
        );
    }
    Ok(())
}

/// In such a directory everybody removes and renames only what is their own (inode(7)).
const STICKY: u32 = 0o1000;

/// One daemon for one state directory: an exclusive lock, held until the process ends.
pub(super) fn lock(paths: &Paths) -> anyhow::Result<OwnedFd> {
    let path = paths.runtime().join("tornod.lock");
    let flags = OFlags::CREATE | OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let lock = rustix::fs::open(&path, flags, Mode::from_raw_mode(0o600))
        .with_context(|| format!("can't open `{}`", path.display()))?;
    rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive)
        .with_context(|| format!("another tornod runs with `{}`", path.display()))?;
    Ok(lock)
}

/// A listening socket; what an earlier daemon left there is removed (the lock says it is dead).
pub(super) fn listen(path: &Path) -> anyhow::Result<OwnedFd> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(error).with_context(|| format!("can't replace `{}`", path.display()));
        }
        Ok(()) | Err(_) => {}
    }
    channel::listen(path).with_context(|| format!("can't listen on `{}`", path.display()))
}

/// Writes a fresh operator's token, 0600, and returns its digest.
pub(super) fn operator_token(paths: &Paths) -> anyhow::Result<[u8; 32]> {
    let mut random = [0_u8; 32];
    getrandom::fill(&mut random).context("no random bytes")?;
    let token = data_encoding::BASE64URL_NOPAD.encode(&random);
    let path = paths.operator_token();
    let about = || format!("can't write `{}`", path.display());
    let fresh = path.with_extension("new");
    let flags =
        OFlags::CREATE | OFlags::WRONLY | OFlags::TRUNC | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let file = rustix::fs::open(&fresh, flags, Mode::from_raw_mode(0o600)).with_context(about)?;
    std::io::Write::write_all(&mut std::fs::File::from(file), token.as_bytes())
        .with_context(about)?;
    std::fs::rename(&fresh, &path).with_context(about)?;
    Ok(Sha256::digest(token.as_bytes()).into())
}
