// SPDX-License-Identifier: Apache-2.0
//! Directories, sockets and the operator's token, made before any role runs.

use crate::roles::uids;
use anyhow::{Context, ensure};
use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use sha2::{Digest, Sha256};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use torno_control_api::channel;
use torno_control_api::paths::Paths;
use torno_control_api::places::make_directory;

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
    directory(&paths.sandboxes(), None)?;
    directory(&paths.checkpoints(), None)?;
    directory(&paths.images(), None)
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
    make_directory(path, owner)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o700)).with_context(about)?;
    if let Some(owner) = owner {
        std::os::unix::fs::chown(path, Some(owner), Some(owner)).with_context(about)?;
    }
    Ok(())
}

/// One daemon for one state directory: an exclusive lock, held until the process ends. The file
/// says the daemon's pid, for who wants to end it.
pub(super) fn lock(paths: &Paths) -> anyhow::Result<OwnedFd> {
    let path = paths.runtime().join("tornod.lock");
    let flags = OFlags::CREATE | OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let lock = rustix::fs::open(&path, flags, Mode::from_raw_mode(0o600))
        .with_context(|| format!("can't open `{}`", path.display()))?;
    rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive)
        .with_context(|| format!("another tornod runs with `{}`", path.display()))?;
    let pid = format!("{}\n", std::process::id());
    rustix::fs::ftruncate(&lock, 0)
        .and_then(|()| rustix::io::pwrite(&lock, pid.as_bytes(), 0))
        .with_context(|| format!("can't write `{}`", path.display()))?;
    Ok(lock)
}

/// LIMIT: a launcher that lost its supervisor first ends what it was doing (the start of a machine
/// is the longest), and then every sandbox.
const EARLIER_ROLES_WAIT: Duration = Duration::from_secs(60);
const EARLIER_ROLES_POLL: Duration = Duration::from_millis(20);

/// Waits until no role of an earlier daemon is alive: its launcher may be removing what ours would
/// remove, its notary writing what ours would read. Each standing role holds a share of this lock.
pub(super) async fn outlive_earlier_roles(paths: &Paths) -> anyhow::Result<()> {
    let end = tokio::time::Instant::now() + EARLIER_ROLES_WAIT;
    let lock = open_roles_lock(paths)?;
    loop {
        match rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(()),
            Err(Errno::WOULDBLOCK) => ensure!(
                tokio::time::Instant::now() < end,
                "processes of an earlier tornod are still clearing up `{}`; start again when `pgrep \
                 tornod-` names none of them",
                paths.state().display()
            ),
            Err(error) => return Err(error).context("the roles' lock"),
        }
        tokio::time::sleep(EARLIER_ROLES_POLL).await;
    }
}

/// What a standing role holds for as long as it is alive.
pub(super) fn roles_lock_share(paths: &Paths) -> anyhow::Result<OwnedFd> {
    let share = open_roles_lock(paths)?;
    rustix::fs::flock(&share, FlockOperation::NonBlockingLockShared).context("the roles' lock")?;
    Ok(share)
}

/// One of its own each time: who has a share can let go of no other. Nothing is written to it.
fn open_roles_lock(paths: &Paths) -> anyhow::Result<OwnedFd> {
    let path = paths.state().join("roles.lock");
    let flags = OFlags::CREATE | OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    rustix::fs::open(&path, flags, Mode::from_raw_mode(0o600))
        .with_context(|| format!("can't open `{}`", path.display()))
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
