// SPDX-License-Identifier: Apache-2.0
//! The system calls of each role, spelled out: an allow-list, so a call the kernel gains tomorrow
//! is refused. The gate's is the one that matters most: it can make no socket and open no file.

use crate::roles::Role;

/// What an event loop, an allocator and a clock need.
const BASE: &[i64] = &[
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_close,
    libc::SYS_lseek,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_sendto,
    libc::SYS_shutdown,
    libc::SYS_getsockopt,
    libc::SYS_setsockopt,
    libc::SYS_getsockname,
    libc::SYS_getpeername,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_ppoll,
    libc::SYS_fcntl,
    libc::SYS_ioctl,
    libc::SYS_dup,
    libc::SYS_dup3,
    libc::SYS_fstat,
    libc::SYS_mmap,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_mprotect,
    libc::SYS_madvise,
    libc::SYS_brk,
    libc::SYS_futex,
    libc::SYS_sched_yield,
    libc::SYS_sched_getaffinity,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_nanosleep,
    libc::SYS_getrandom,
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_tgkill,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    libc::SYS_restart_syscall,
    libc::SYS_rseq,
    libc::SYS_set_robust_list,
    libc::SYS_exit,
    libc::SYS_exit_group,
];

/// The older spellings that only some architectures have.
#[cfg(target_arch = "x86_64")]
const BASE_OLD: &[i64] = &[libc::SYS_epoll_wait, libc::SYS_poll, libc::SYS_dup2];
#[cfg(not(target_arch = "x86_64"))]
const BASE_OLD: &[i64] = &[];

/// Handing descriptors to another role. Gate, notary and porter never do, so a gate that was taken
/// over can't put a socket of its choice into another role's table.
const HAND_OVER: &[i64] = &[libc::SYS_sendmsg];

/// Connections that somebody makes to a socket which was handed over.
const ACCEPT: &[i64] = &[libc::SYS_accept4];

/// Threads of this process.
const THREADS: &[i64] = &[libc::SYS_clone3, libc::SYS_clone];

/// Reading files: landlock says which.
const READ_FILES: &[i64] = &[
    libc::SYS_openat,
    libc::SYS_openat2,
    libc::SYS_newfstatat,
    libc::SYS_statx,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_getdents64,
    libc::SYS_readlinkat,
    libc::SYS_pread64,
    libc::SYS_preadv,
    libc::SYS_statfs,
    libc::SYS_fstatfs,
    libc::SYS_getcwd,
    libc::SYS_fadvise64,
    libc::SYS_uname,
    libc::SYS_sysinfo,
    libc::SYS_getuid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getegid,
    libc::SYS_prctl,
];

/// The older spellings that only some architectures have.
#[cfg(target_arch = "x86_64")]
const READ_FILES_OLD: &[i64] = &[
    libc::SYS_open,
    libc::SYS_stat,
    libc::SYS_lstat,
    libc::SYS_access,
    libc::SYS_readlink,
];
#[cfg(not(target_arch = "x86_64"))]
const READ_FILES_OLD: &[i64] = &[];

/// Changing them.
const CHANGE_FILES: &[i64] = &[
    libc::SYS_pwrite64,
    libc::SYS_pwritev,
    libc::SYS_fsync,
    libc::SYS_fdatasync,
    libc::SYS_sync_file_range,
    libc::SYS_ftruncate,
    libc::SYS_fallocate,
    libc::SYS_flock,
    libc::SYS_fchmod,
    libc::SYS_fchown,
    libc::SYS_fchmodat,
    libc::SYS_mkdirat,
    libc::SYS_unlinkat,
    libc::SYS_renameat,
    libc::SYS_renameat2,
    libc::SYS_linkat,
    libc::SYS_symlinkat,
    libc::SYS_utimensat,
    libc::SYS_copy_file_range,
    libc::SYS_umask,
];

/// The older spellings that only some architectures have.
#[cfg(target_arch = "x86_64")]
const CHANGE_FILES_OLD: &[i64] = &[
    libc::SYS_mkdir,
    libc::SYS_rmdir,
    libc::SYS_unlink,
    libc::SYS_rename,
    libc::SYS_chmod,
];
#[cfg(not(target_arch = "x86_64"))]
const CHANGE_FILES_OLD: &[i64] = &[];

/// Files of the role's own directories.
const FILES: [&[i64]; 4] = [READ_FILES, READ_FILES_OLD, CHANGE_FILES, CHANGE_FILES_OLD];

/// A checkpoint is on the disk before anybody is told that it is kept.
const WRITE_THROUGH: &[i64] = &[libc::SYS_syncfs];

/// Memory that never reaches a disk.
const LOCKED_MEMORY: &[i64] = &[libc::SYS_mlock, libc::SYS_munlock, libc::SYS_memfd_secret];

/// Making connections.
const CONNECT: &[i64] = &[
    libc::SYS_socket,
    libc::SYS_connect,
    libc::SYS_bind,
    libc::SYS_sendmmsg,
    libc::SYS_recvmmsg,
    libc::SYS_eventfd2,
];

/// Pairs of sockets for the streams of commands, and pipes for diffs.
const PAIRS: &[i64] = &[
    libc::SYS_socketpair,
    libc::SYS_pipe2,
    libc::SYS_memfd_create,
];

/// The families of sockets that a role may make, where it may make any. Not `AF_UNIX`: by a name in
/// the file system that would reach other daemons' sockets, our own among them.
pub(super) const FAMILIES: &[i32] = &[libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];

/// The list of a role.
pub(super) fn of(role: Role) -> Vec<i64> {
    let (parts, files): (&[&[i64]], &[&[i64]]) = match role {
        Role::Gate => (&[BASE, BASE_OLD, ACCEPT], &[]),
        Role::Notary => (&[BASE, BASE_OLD, ACCEPT, THREADS, LOCKED_MEMORY], &FILES),
        Role::Dialer => (
            &[BASE, BASE_OLD, HAND_OVER, THREADS, CONNECT],
            &[READ_FILES, READ_FILES_OLD],
        ),
        Role::Desk => (&[BASE, BASE_OLD, HAND_OVER, ACCEPT, PAIRS], &FILES),
        Role::Porter => (&[BASE, BASE_OLD, WRITE_THROUGH], &FILES),
        // Not confined this way: see the module above.
        Role::Launcher => (&[], &[]),
    };
    let parts = parts.iter().chain(files);
    let mut all: Vec<i64> = parts.flat_map(|part| part.iter().copied()).collect();
    all.sort_unstable();
    all.dedup();
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gate_makes_no_socket_opens_no_file_and_starts_no_program() {
        let gate = of(Role::Gate);
        for refused in [
            libc::SYS_socket,
            libc::SYS_socketpair,
            libc::SYS_sendmsg,
            libc::SYS_connect,
            libc::SYS_bind,
            libc::SYS_listen,
            libc::SYS_openat,
            libc::SYS_openat2,
            libc::SYS_execve,
            libc::SYS_execveat,
            libc::SYS_clone,
            libc::SYS_clone3,
            libc::SYS_ptrace,
            libc::SYS_io_uring_setup,
            libc::SYS_process_vm_readv,
            libc::SYS_pidfd_getfd,
        ] {
            assert!(!gate.contains(&refused), "{refused}");
        }
    }

    #[test]
    fn only_the_dialer_connects_and_nobody_here_starts_programs() {
        for role in [Role::Gate, Role::Notary, Role::Desk, Role::Porter] {
            assert!(!of(role).contains(&libc::SYS_connect), "{role}");
            assert!(!of(role).contains(&libc::SYS_socket), "{role}");
        }
        assert!(of(Role::Dialer).contains(&libc::SYS_connect));
        for role in [
            Role::Gate,
            Role::Notary,
            Role::Desk,
            Role::Porter,
            Role::Dialer,
        ] {
            assert!(!of(role).contains(&libc::SYS_execve), "{role}");
            assert!(!of(role).contains(&libc::SYS_io_uring_setup), "{role}");
        }
    }
}
