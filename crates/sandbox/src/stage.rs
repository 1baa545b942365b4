// SPDX-License-Identifier: Apache-2.0
//! The staging mount namespace: built by one thread, seen by nobody else, gone with the sandbox. In
//! it /run is a tmpfs that holds the root directory, the bundle and the runtime's state, so a
//! sandbox leaves no mount and no file on the host.

mod device;
mod door;
mod inspect;
mod workspace;

pub(crate) use device::KVM_NODE;
pub(crate) use door::Doors;
pub(crate) use workspace::give_to;

use crate::cgroup::CgroupHost;
use crate::plan::{Plan, TreeStep};
use crate::runtime::{BUNDLE, ROOT, RuntimeKind, STATE};
use crate::sys::{self, MountAttributes};
use rustix::fs::{AtFlags, CWD, FileType, Gid, Mode, OFlags, ResolveFlags, Uid};
use rustix::mount::{
    MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags, mount,
    mount_change, move_mount, open_tree, unmount,
};
use std::ffi::CString;
use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

/// LIMIT: root directory, bundle and runtime state in memory: the trust bundle, the agent and a
/// few kB.
const STAGE_OPTIONS: &str = "mode=0755,size=160m,nr_inodes=4096";
const RUN: &str = "/run";

/// Detached copies of the mounts that a sandbox gets, taken while the host's namespace is still
/// ours.
#[derive(Debug)]
pub(crate) struct Sources {
    binds: Vec<OwnedFd>,
    workspace: Option<OwnedFd>,
}

impl Sources {
    /// Takes them: never through a symbolic link, never with what is mounted below.
    pub(crate) fn take(plan: &Plan, workspace: Option<BorrowedFd<'_>>) -> io::Result<Self> {
        let mut binds = Vec::new();
        for step in &plan.tree {
            if let TreeStep::Bind { host, .. } = step {
                let flags = OFlags::PATH | OFlags::CLOEXEC | OFlags::NOFOLLOW;
                let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
                let found = rustix::fs::openat2(CWD, host, flags, Mode::empty(), resolve)
                    .map_err(|error| named(host, error))?;
                let tree = detach(found.as_fd(), true).map_err(|error| named(host, error))?;
                binds.push(tree);
            }
        }
        let workspace = workspace.map(|fd| detach(fd, false)).transpose()?;
        Ok(Self { binds, workspace })
    }
}

/// A detached copy of one mount, nosuid and nodev.
fn detach(of: BorrowedFd<'_>, read_only: bool) -> io::Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_EMPTY_PATH;
    let tree = open_tree(of, "", flags)?;
    sys::set_mount_attributes(tree.as_fd(), MountAttributes { read_only })?;
    Ok(tree)
}

fn attach(tree: &OwnedFd, at: &Path) -> io::Result<()> {
    move_mount(tree, "", CWD, at, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)?;
    Ok(())
}

fn attach_at(tree: &OwnedFd, at: BorrowedFd<'_>) -> io::Result<()> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    move_mount(tree, "", at, "", flags)?;
    Ok(())
}

/// Leaves the host's mounts behind: private copies, /run new, and on a hybrid host no v2 hierarchy:
/// crun would refuse it, runc would move the sandbox to a place of its own in it. For crun it is
/// covered, which costs a tenth of taking it away. Gives the root directory as it lies below the
/// mount that [`close`] closes.
pub(crate) fn enter(kind: RuntimeKind, cgroups: &CgroupHost) -> io::Result<OwnedFd> {
    sys::leave_mount_namespace()?;
    mount_change(
        "/",
        MountPropagationFlags::PRIVATE | MountPropagationFlags::REC,
    )?;
    match (kind, &cgroups.hybrid_mount) {
        // In an ordinary user's namespace the host's mounts are locked, but can be covered.
        (RuntimeKind::Runc, Some(v2)) if unmount(v2, UnmountFlags::DETACH).is_ok() => {}
        (RuntimeKind::Crun | RuntimeKind::Runc, Some(v2)) => {
            mount_memory(v2, "mode=0555,size=4k,nr_inodes=2")?;
        }
        (RuntimeKind::Runsc, _) | (_, None) => {}
    }
    mount_memory(Path::new(RUN), STAGE_OPTIONS)?;
    for path in [ROOT, BUNDLE, STATE, EMPTY_DIRECTORY] {
        directory(Path::new(path))?;
    }
    file(Path::new(EMPTY_FILE), &[], 0o444)?;
    // A mount of its own, which `close` makes read-only for the host's kernel: a user-space kernel
    // is told that its root is writable, or it would take the workspace for read-only too.
    let root = open_path(Path::new(ROOT))?;
    attach(&detach(root.as_fd(), false)?, Path::new(ROOT))?;
    Ok(root)
}

/// Makes the finished root directory read-only; what is mounted on it keeps its own rules. With it
/// no writer of the guest's program is left either, so that it can be executed.
pub(crate) fn close() -> io::Result<()> {
    make_read_only(open_path(Path::new(ROOT))?.as_fd())
}

/// LIMIT: a file that was just written is still open in a child that another thread has forked and
/// that has not executed yet; that takes milliseconds.
const WRITERS_WAIT: Duration = Duration::from_secs(2);

fn make_read_only(mount: BorrowedFd<'_>) -> io::Result<()> {
    let deadline = Instant::now() + WRITERS_WAIT;
    loop {
        match sys::set_mount_attributes(mount, MountAttributes { read_only: true }) {
            Err(error)
                if error.raw_os_error() == Some(libc::EBUSY) && Instant::now() < deadline =>
            {
                thread::sleep(Duration::from_millis(1));
            }
            outcome => return outcome,
        }
    }
}

fn mount_memory(at: &Path, options: &str) -> io::Result<()> {
    let options = CString::new(options)?;
    mount(
        "tmpfs",
        at,
        "tmpfs",
        MountFlags::NOSUID | MountFlags::NODEV,
        options.as_c_str(),
    )?;
    Ok(())
}

const EMPTY_DIRECTORY: &str = "/run/empty";
const EMPTY_FILE: &str = "/run/empty-file";

/// Builds the root directory.
pub(crate) fn build(plan: &Plan, sources: Sources) -> io::Result<()> {
    let root = Path::new(ROOT);
    let owner = plan.ids.agent();
    let mut binds = sources.binds.into_iter();
    let mut workspace = sources.workspace;
    let mut home: Option<PathBuf> = None;
    for step in &plan.tree {
        match step {
            TreeStep::Directory(path) => {
                directory(&root.join(path)).map_err(|error| named(path, error))?;
                if home.as_ref().is_some_and(|home| path.starts_with(home)) {
                    own(&root.join(path), owner)?;
                }
            }
            TreeStep::File(path, content) => file(&root.join(path), content, 0o644)?,
            TreeStep::HomeFile(path, content) => {
                file(&root.join(path), content, 0o600)?;
                own(&root.join(path), owner)?;
            }
            TreeStep::Program(path, content) => file(&root.join(path), content, 0o755)?,
            TreeStep::Link(path, target) => symlink(target, root.join(path))?,
            TreeStep::Bind { inside, .. } => {
                let tree = binds.next().ok_or(io::ErrorKind::InvalidInput)?;
                bind(&tree, &root.join(inside)).map_err(|error| named(inside, error))?;
            }
            TreeStep::Cover(path) => cover(&root.join(path))?,
            TreeStep::Home(path, bytes, files) => {
                let options =
                    format!("mode=0755,size={bytes},nr_inodes={files},uid={owner},gid={owner}");
                mount_memory(&root.join(path), &options)?;
                home = Some(path.clone());
            }
            TreeStep::Workspace(path) => {
                let tree = workspace.take().ok_or(io::ErrorKind::InvalidInput)?;
                attach(&tree, &root.join(path))?;
            }
            TreeStep::Kvm => device::make_kvm(owner)?,
        }
    }
    Ok(())
}

/// Applies the file rules to the attached workspace.
pub(crate) fn apply_rules(plan: &Plan) -> io::Result<()> {
    workspace::apply_rules(&Path::new(ROOT).join("workspace"), plan)
}

/// Writes the bundle's configuration.
pub(crate) fn write_configuration(plan: &Plan) -> io::Result<()> {
    file(
        &Path::new(BUNDLE).join("config.json"),
        plan.config.as_bytes(),
        0o600,
    )
}

fn bind(tree: &OwnedFd, at: &Path) -> io::Result<()> {
    let kind = FileType::from_raw_mode(rustix::fs::fstat(tree)?.st_mode);
    match kind {
        FileType::Directory => directory(at)?,
        FileType::RegularFile => file(at, &[], 0o644)?,
        _ => return Err(io::Error::other("neither a file nor a directory")),
    }
    attach(tree, at)
}

/// An empty read-only directory on top.
fn cover(at: &Path) -> io::Result<()> {
    let empty = open_path(Path::new(EMPTY_DIRECTORY))?;
    attach(&detach(empty.as_fd(), true)?, at)
}

fn open_path(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    Ok(rustix::fs::openat(CWD, path, flags, Mode::empty())?)
}

/// A directory, 0755 whatever the umask; there already is no error.
fn directory(path: &Path) -> io::Result<()> {
    match fs::create_dir(path) {
        Ok(()) => fs::set_permissions(path, fs::Permissions::from_mode(0o755)),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}

fn file(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    let write = || {
        fs::write(path, content)?;
        fs::set_permissions(path, fs::Permissions::from_mode(mode))
    };
    write().map_err(|error| named(path, error))
}

fn own(path: &Path, id: u32) -> io::Result<()> {
    let (uid, gid) = (Uid::from_raw(id), Gid::from_raw(id));
    rustix::fs::chownat(CWD, path, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)?;
    Ok(())
}

fn named(path: &Path, error: impl Into<io::Error>) -> io::Error {
    let error = error.into();
    io::Error::new(error.kind(), format!("`{}`: {error}", path.display()))
}
