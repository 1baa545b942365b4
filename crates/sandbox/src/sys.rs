// SPDX-License-Identifier: Apache-2.0
//! The only `unsafe` of this crate: leaving namespaces, starting a program inside cgroups,
//! `mount_setattr` and a user namespace to hold, none of which has a safe binding.

mod birth;

pub(crate) use birth::{Birth, Entrances};

use rustix::process::{Pid, Signal, WaitOptions};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

/// Closes every descriptor but 0, 1 and 2: for the first lines of a `main`, before it opens any.
///
/// # Errors
/// When the kernel has no close_range(2) (before 5.9).
pub fn close_inherited() -> io::Result<()> {
    // SAFETY: close_range takes no pointer. Its danger is a descriptor that some value of this
    // process owns; the caller is a `main` that has made none yet.
    let status = unsafe { libc::close_range(3, libc::c_uint::MAX, 0) };
    if status == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// The version of the kernel's landlock (landlock_create_ruleset(2)); 0 where it is absent or off.
pub(crate) fn landlock_version() -> u32 {
    /// `LANDLOCK_CREATE_RULESET_VERSION`, for which libc has no name.
    const VERSION: libc::c_long = 1;
    let none: libc::c_long = 0;
    // SAFETY: with this flag the call takes a null pointer and the size 0, and makes nothing.
    let version = unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, none, none, VERSION) };
    u32::try_from(version).unwrap_or(0)
}

/// The frequency of the processor's time stamp counter, measured against the kernel's clock; 0
/// where there is none.
pub(crate) fn tsc_khz() -> u64 {
    #[cfg(target_arch = "x86_64")]
    {
        let now = || {
            let clock = std::time::Instant::now();
            // SAFETY: rdtsc needs no more than a processor that has it, as every x86_64 does; no
            // kernel here forbids it to programs (prctl(2), PR_SET_TSC).
            (clock, unsafe { std::arch::x86_64::_rdtsc() })
        };
        let (began, from) = now();
        std::thread::sleep(TSC_TIME);
        let (ended, to) = now();
        let micros = (ended - began).as_micros().max(1);
        let ticks = u128::from(to.wrapping_sub(from));
        u64::try_from(ticks * 1000 / micros).unwrap_or_default()
    }
    #[cfg(not(target_arch = "x86_64"))]
    0
}

/// Long enough that an interruption between the two readings is lost in it.
#[cfg(target_arch = "x86_64")]
const TSC_TIME: std::time::Duration = std::time::Duration::from_millis(20);

/// Attributes of a mount (`MOUNT_ATTR_*`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MountAttributes {
    pub(crate) read_only: bool,
}

/// Gives the calling thread a mount namespace of its own.
pub(crate) fn leave_mount_namespace() -> io::Result<()> {
    unshare(libc::CLONE_NEWNS)
}

/// Gives the calling thread an empty network namespace.
pub(crate) fn leave_network_namespace() -> io::Result<()> {
    unshare(libc::CLONE_NEWNET)
}

fn unshare(flags: libc::c_int) -> io::Result<()> {
    // SAFETY: unshare takes no pointer. Its one precondition in a threaded process is that other
    // threads don't rely on the caller's namespaces; the callers are threads made for this purpose
    // that end with it, or a process with one thread, and neither CLONE_FILES nor CLONE_VM is
    // passed.
    let status = unsafe { libc::unshare(flags) };
    if status == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Sets attributes of the detached mount that `tree` names: nosuid and nodev always.
pub(crate) fn set_mount_attributes(
    tree: BorrowedFd<'_>,
    wanted: MountAttributes,
) -> io::Result<()> {
    let mut set = libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV;
    if wanted.read_only {
        set |= libc::MOUNT_ATTR_RDONLY;
    }
    let attributes = libc::mount_attr {
        attr_set: set,
        attr_clr: 0,
        propagation: 0,
        userns_fd: 0,
    };
    set_attributes(tree, attributes)
}

fn set_attributes(tree: BorrowedFd<'_>, attributes: libc::mount_attr) -> io::Result<()> {
    // SAFETY: mount_setattr reads `size` bytes at the attribute pointer and a NUL-terminated path;
    // both live across the call, and the size is that of the structure passed.
    let status = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            tree.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH,
            std::ptr::from_ref(&attributes),
            size_of::<libc::mount_attr>(),
        )
    };
    if status == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// A user namespace, held by its descriptor alone; `map` gives ids to the child that made it.
pub(crate) fn user_namespace(map: impl FnOnce(Pid) -> io::Result<()>) -> io::Result<OwnedFd> {
    let (ready, tell) = io::pipe()?;
    let tell_fd = tell.as_raw_fd();
    // SAFETY: fork in a threaded process leaves a child that may only make async-signal-safe calls:
    // it makes unshare, write, pause and _exit, with values copied before, and never returns.
    let child = unsafe {
        match libc::fork() {
            0 => {
                if libc::unshare(libc::CLONE_NEWUSER) == 0
                    && libc::write(tell_fd, c"r".as_ptr().cast(), 1) == 1
                {
                    libc::pause();
                }
                libc::_exit(1)
            }
            child => child,
        }
    };
    let pid = Pid::from_raw(child)
        .filter(|_| child > 0)
        .ok_or_else(io::Error::last_os_error)?;
    drop(tell);
    let made = hold_namespace(ready, pid, map);
    let _ = rustix::process::kill_process(pid, Signal::KILL);
    let _ = rustix::process::waitpid(Some(pid), WaitOptions::empty());
    made
}

fn hold_namespace(
    mut ready: io::PipeReader,
    child: Pid,
    map: impl FnOnce(Pid) -> io::Result<()>,
) -> io::Result<OwnedFd> {
    ready.read_exact(&mut [0]).map_err(|_| {
        let refused = "the kernel refuses user namespaces";
        io::Error::new(io::ErrorKind::PermissionDenied, refused)
    })?;
    map(child)?;
    let namespace = format!("/proc/{}/ns/user", child.as_raw_nonzero());
    Ok(File::open(namespace)?.into())
}
