// SPDX-License-Identifier: Apache-2.0
//! The system calls that a `container` sandbox may make: an allow-list for the native ABI alone.
//! What is absent answers EPERM; what libraries probe for and fall back from answers ENOSYS; calls
//! of the 32-bit and x32 ABIs kill the caller.

use serde_json::{Value, json};

const EPERM: u32 = 1;
const ENOSYS: u32 = 38;
/// CLONE_NEW{NS,CGROUP,UTS,IPC,USER,PID,NET} as the kernel reads them from clone's flags.
const CLONE_NAMESPACES: u64 = 0x7E02_0000;
/// Terminal injection: TIOCSTI and TIOCLINUX.
const TERMINAL_INJECTION: [u32; 2] = [0x5412, 0x541C];
const PERSONALITIES: [u64; 5] = [0, 8, 0x20000, 0x20008, 0xFFFF_FFFF];
/// Families that a program may open: unix, and of IPv4 and IPv6 what is below. Packet, vsock, ALG,
/// XDP and the rest are not among them; of netlink only the route protocol is, which libc asks for
/// interfaces.
const UNIX: u64 = 1;
const INTERNET_FAMILIES: [u64; 2] = [2, 10];
/// Streams and datagrams by type and protocol: TCP and UDP, named or not. SCTP, DCCP, MPTCP,
/// UDP-Lite and ping are bodies of kernel code of their own, loaded for whoever asks first.
const INTERNET_PROTOCOLS: [(u64, u64); 4] = [(1, 0), (1, 6), (2, 0), (2, 17)];
/// The type without its flags (SOCK_NONBLOCK, SOCK_CLOEXEC).
const SOCKET_TYPE: u64 = 0xF;
const NETLINK: u64 = 16;
const NETLINK_ROUTE: u64 = 0;

/// The profile for the OCI configuration.
#[must_use]
pub(crate) fn profile() -> Value {
    let mut rules = vec![
        json!({ "names": ALLOWED, "action": "SCMP_ACT_ALLOW" }),
        json!({ "names": ABSENT, "action": "SCMP_ACT_ERRNO", "errnoRet": ENOSYS }),
        rule("clone", &json!([masked(0, CLONE_NAMESPACES, 0)])),
    ];
    rules.extend(PERSONALITIES.map(|value| rule("personality", &json!([equal(0, value)]))));
    // A pair is a socket like any other, and asks the same modules for it.
    for name in ["socket", "socketpair"] {
        rules.push(rule(name, &json!([equal(0, UNIX)])));
    }
    for family in INTERNET_FAMILIES {
        rules.extend(INTERNET_PROTOCOLS.map(|(kind, protocol)| {
            let words = [
                equal(0, family),
                masked(1, SOCKET_TYPE, kind),
                equal(2, protocol),
            ];
            rule("socket", &json!(words))
        }));
    }
    rules.push(rule(
        "socket",
        &json!([equal(0, NETLINK), equal(2, NETLINK_ROUTE)]),
    ));
    rules.extend(
        ioctl_complement().map(|(mask, value)| rule("ioctl", &json!([masked(1, mask, value)]))),
    );
    json!({
        "defaultAction": "SCMP_ACT_ERRNO",
        "defaultErrnoRet": EPERM,
        "architectures": [native()],
        "syscalls": rules,
    })
}

fn native() -> &'static str {
    if cfg!(target_arch = "aarch64") {
        "SCMP_ARCH_AARCH64"
    } else {
        "SCMP_ARCH_X86_64"
    }
}

fn rule(name: &str, arguments: &Value) -> Value {
    json!({ "names": [name], "action": "SCMP_ACT_ALLOW", "args": arguments })
}

fn equal(index: u32, value: u64) -> Value {
    json!({ "index": index, "value": value, "op": "SCMP_CMP_EQ" })
}

fn masked(index: u32, mask: u64, value: u64) -> Value {
    json!({ "index": index, "value": mask, "valueTwo": value, "op": "SCMP_CMP_MASKED_EQ" })
}

/// Bits of a request that are compared. The upper ones hold direction and size, which these two old
/// requests don't have; the kernel ignores all above 32.
const REQUEST_BITS: u32 = 16;

/// Every request whose low bits are neither of [`TERMINAL_INJECTION`], as masked equalities: the
/// kernel
/// truncates the request to 32 bits, so "not equal" on 64 bits would let high bits through. The two
/// differ in some bits (the mixed ones) and agree in the others: a request is neither if it differs
/// in one agreeing bit, or has another combination of the mixed ones.
fn ioctl_complement() -> impl Iterator<Item = (u64, u64)> {
    let [sti, linux] = TERMINAL_INJECTION;
    let mixed = sti ^ linux;
    let by_bit = (0..REQUEST_BITS)
        .map(|bit| 1_u32 << bit)
        .filter(move |bit| mixed & bit == 0)
        .map(move |bit| (u64::from(bit), u64::from(!sti & bit)));
    let mut combinations = vec![];
    let mut subset = mixed;
    loop {
        if subset != sti & mixed && subset != linux & mixed {
            combinations.push((u64::from(mixed), u64::from(subset)));
        }
        if subset == 0 {
            break;
        }
        subset = (subset - 1) & mixed;
    }
    by_bit.chain(combinations)
}

/// Answered with ENOSYS, so that libraries take their fallback: clone3's flags lie in memory
/// where a
/// filter can't see them; io_uring would pass the filter by; openat2 and the like are in
/// [`ALLOWED`].
const ABSENT: &[&str] = &[
    "clone3",
    "io_uring_enter",
    "io_uring_register",
    "io_uring_setup",
];

/// Allowed whatever the arguments.
#[rustfmt::skip]
const ALLOWED: &[&str] = &[
    "accept", "accept4", "access", "alarm", "arch_prctl", "bind", "brk", "capget", "capset",
    "chdir", "chmod", "chown", "clock_getres", "clock_gettime", "clock_nanosleep", "close",
    "close_range", "connect", "copy_file_range", "creat", "dup", "dup2", "dup3", "epoll_create",
    "epoll_create1", "epoll_ctl", "epoll_pwait", "epoll_pwait2", "epoll_wait", "eventfd",
    "eventfd2", "execve", "execveat", "exit", "exit_group", "faccessat", "faccessat2", "fadvise64",
    "fallocate", "fchdir", "fchmod", "fchmodat", "fchown", "fchownat", "fcntl", "fdatasync",
    "fgetxattr", "flistxattr", "flock", "fork", "fremovexattr", "fsetxattr", "fstat", "fstatfs",
    "fsync", "ftruncate", "futex", "futex_waitv", "futimesat", "get_robust_list", "getcpu",
    "getcwd", "getdents", "getdents64", "getegid", "geteuid", "getgid", "getgroups", "getitimer",
    "getpeername", "getpgid", "getpgrp", "getpid", "getppid", "getpriority", "getrandom",
    "getresgid", "getresuid", "getrlimit", "getrusage", "getsid", "getsockname", "getsockopt",
    "gettid", "gettimeofday", "getuid", "getxattr", "inotify_add_watch", "inotify_init",
    "inotify_init1", "inotify_rm_watch", "io_cancel", "io_destroy", "io_getevents",
    "io_pgetevents", "io_setup", "io_submit", "ioprio_get", "ioprio_set", "kill",
    "landlock_add_rule", "landlock_create_ruleset", "landlock_restrict_self", "lchown",
    "lgetxattr", "link", "linkat", "listen", "listxattr", "llistxattr", "lremovexattr", "lseek",
    "lsetxattr", "lstat", "madvise", "membarrier", "memfd_create", "mincore", "mkdir", "mkdirat",
    "mknod", "mknodat", "mlock", "mlock2", "mlockall", "mmap", "mprotect", "mq_getsetattr",
    "mq_notify", "mq_open", "mq_timedreceive", "mq_timedsend", "mq_unlink", "mremap", "msgctl",
    "msgget", "msgrcv", "msgsnd", "msync", "munlock", "munlockall", "munmap", "nanosleep",
    "newfstatat", "open", "openat", "openat2", "pause", "pidfd_open", "pidfd_send_signal", "pipe",
    "pipe2", "pkey_alloc", "pkey_free", "pkey_mprotect", "poll", "ppoll", "prctl", "pread64",
    "preadv", "preadv2", "prlimit64", "process_vm_readv", "process_vm_writev", "pselect6",
    "ptrace", "pwrite64", "pwritev", "pwritev2", "read", "readahead", "readlink", "readlinkat",
    "readv", "recvfrom", "recvmmsg", "recvmsg", "removexattr", "rename", "renameat", "renameat2",
    "restart_syscall", "rmdir", "rseq", "rt_sigaction", "rt_sigpending", "rt_sigprocmask",
    "rt_sigqueueinfo", "rt_sigreturn", "rt_sigsuspend", "rt_sigtimedwait", "rt_tgsigqueueinfo",
    "sched_get_priority_max", "sched_get_priority_min", "sched_getaffinity", "sched_getattr",
    "sched_getparam", "sched_getscheduler", "sched_rr_get_interval", "sched_setaffinity",
    "sched_setattr", "sched_setparam", "sched_setscheduler", "sched_yield", "seccomp", "select",
    "semctl", "semget", "semop", "semtimedop", "sendfile", "sendmmsg", "sendmsg", "sendto",
    "set_robust_list", "set_tid_address", "setfsgid", "setfsuid", "setgid", "setgroups",
    "setitimer", "setpgid", "setpriority", "setregid", "setresgid", "setresuid", "setreuid",
    "setrlimit", "setsid", "setsockopt", "setuid", "setxattr", "shmat", "shmctl", "shmdt",
    "shmget", "shutdown", "sigaltstack", "signalfd", "signalfd4", "splice", "stat",
    "statfs", "statx", "symlink", "symlinkat", "sync", "sync_file_range", "syncfs", "sysinfo",
    "tee", "tgkill", "time", "timer_create", "timer_delete", "timer_getoverrun", "timer_gettime",
    "timer_settime", "timerfd_create", "timerfd_gettime", "timerfd_settime", "times", "tkill",
    "truncate", "umask", "uname", "unlink", "unlinkat", "utime", "utimensat", "utimes", "vfork",
    "vmsplice", "wait4", "waitid", "write", "writev",
];

#[cfg(test)]
mod tests;
