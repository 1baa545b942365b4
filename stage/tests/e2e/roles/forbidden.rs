// SPDX-License-Identifier: Apache-2.0
//! System calls that roles must not have, and the few roles that may. Written from DESIGN's table
//! of roles, not from the product's lists. Numbers of x86-64; arguments that do nothing where the
//! call is not refused: a descriptor that is none, a path that is none, flags that are invalid.

use super::trying::Call;
use serde_json::{Value, json};

/// A call, and the roles that may make it.
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) call: Call,
    pub(crate) may: &'static [&'static str],
}

const NONE: &str = "/nonexistent/x";
const AT_CWD: i64 = -100;
const NOBODY: i64 = 1 << 22;

/// Sockets and the way to other processes' descriptors.
pub(crate) fn network() -> Vec<Row> {
    let dialer = &["dialer"][..];
    vec![
        made("socket inet", 41, json!([2, 1, 0]), dialer),
        made("socket inet6", 41, json!([10, 1, 0]), dialer),
        made("socket unix", 41, json!([1, 1, 0]), &[]),
        made("socket raw", 41, json!([2, 3, 1]), &[]),
        row("socketpair", 53, json!([1, 1, 0, 0]), &["desk"]),
        row("connect", 42, json!([-1, null, 16]), dialer),
        row("bind", 49, json!([-1, null, 16]), dialer),
        row("listen", 50, json!([-1, 1]), &[]),
        row("accept", 43, json!([-1, 0, 0]), &[]),
        row("sendmsg", 46, json!([-1, null, 0]), &["dialer", "desk"]),
        row("sendmmsg", 307, json!([-1, null, 1, 0]), dialer),
        row("recvmmsg", 299, json!([-1, null, 1, 0, 0]), dialer),
        row("io_uring_setup", 425, json!([0, null]), &[]),
    ]
}

/// Files, where seccomp and not landlock is the wall.
pub(crate) fn files() -> Vec<Row> {
    let readers = &["notary", "dialer", "desk", "porter"][..];
    let writers = &["notary", "desk", "porter"][..];
    vec![
        row("open", 2, json!([NONE, 0]), readers),
        row("openat", 257, json!([AT_CWD, NONE, 0]), readers),
        row("openat2", 437, json!([AT_CWD, NONE, null, 24]), readers),
        row("stat", 4, json!([NONE, null]), readers),
        row("readlinkat", 267, json!([AT_CWD, NONE, null, 8]), readers),
        row("pread64", 17, json!([-1, null, 1, 0]), readers),
        row("unlinkat", 263, json!([AT_CWD, NONE, 0]), writers),
        row("mkdirat", 258, json!([AT_CWD, NONE, 0]), writers),
        row(
            "linkat",
            265,
            json!([AT_CWD, NONE, AT_CWD, NONE, 0]),
            writers,
        ),
        row("pwrite64", 18, json!([-1, null, 1, 0]), writers),
        row("ftruncate", 77, json!([-1, 0]), writers),
        row("creat", 85, json!([NONE, 0]), &[]),
        row("truncate", 76, json!([NONE, 0]), &[]),
        row("mknodat", 259, json!([AT_CWD, NONE, 4096, 0]), &[]),
        row("chdir", 80, json!([NONE]), &[]),
        row("fchdir", 81, json!([-1]), &[]),
        row(
            "name_to_handle_at",
            303,
            json!([-1, NONE, null, null, 0]),
            &[],
        ),
        row("sendfile", 40, json!([-1, -1, 0, 1]), &[]),
        row("splice", 275, json!([-1, 0, -1, 0, 1, 0]), &[]),
        made("memfd_create", 319, json!(["x", 0]), &["desk"]),
        row("pipe2", 293, json!([0, 0]), &["desk"]),
        row("pipe", 22, json!([0]), &[]),
        made("inotify_init1", 294, json!([0]), &[]),
    ]
}

/// Programs, other processes, privileges, namespaces, the kernel.
pub(crate) fn processes() -> Vec<Row> {
    let threads = &["notary", "dialer"][..];
    let thread_without_memory = json!([0x1_0000, 0, 0, 0, 0]);
    vec![
        row("execve", 59, json!([NONE, 0, 0]), &[]),
        row("execveat", 322, json!([AT_CWD, NONE, 0, 0, 0]), &[]),
        row("clone", 56, thread_without_memory, threads),
        row("clone3", 435, json!([0, 0]), threads),
        row("ptrace", 101, json!([16, 0, 0, 0]), &[]),
        row("process_vm_readv", 310, json!([NOBODY, 0, 0, 0, 0, 0]), &[]),
        row(
            "process_vm_writev",
            311,
            json!([NOBODY, 0, 0, 0, 0, 0]),
            &[],
        ),
        row("kcmp", 312, json!([NOBODY, NOBODY, 0, 0, 0]), &[]),
        row("pidfd_open", 434, json!([0, 0]), &[]),
        row("pidfd_getfd", 438, json!([-1, 0, 0]), &[]),
        row("pidfd_send_signal", 424, json!([-1, 0, 0, 0]), &[]),
        row("kill", 62, json!([NOBODY, 0]), &[]),
        row("tkill", 200, json!([-1, 0]), &[]),
        row("wait4", 61, json!([-1, 0, 1, 0]), &[]),
        row("setuid", 105, json!([-1]), &[]),
        row("setgid", 106, json!([-1]), &[]),
        row("setresuid", 117, json!([-1, -1, -1]), &[]),
        row("capset", 126, json!([0, 0]), &[]),
        row("personality", 135, json!([-1]), &[]),
        row("prlimit64", 302, json!([0, 7, 0, 0]), &[]),
        row(
            "prctl",
            157,
            json!([3]),
            &["notary", "dialer", "desk", "porter"],
        ),
        row("unshare", 272, json!([1]), &[]),
        row("setns", 308, json!([-1, 0]), &[]),
        row("chroot", 161, json!([NONE]), &[]),
        row("mount", 165, json!([0, 0, 0, 0, 0]), &[]),
        row("fsopen", 430, json!([0, -1]), &[]),
        row("open_tree", 428, json!([-1, NONE, -1]), &[]),
        row("landlock_create_ruleset", 444, json!([0, 0, 1]), &[]),
        row("seccomp", 317, json!([99, 0, 0]), &[]),
        row("add_key", 248, json!([0, 0, 0, 0, 0]), &[]),
        row("keyctl", 250, json!([99, 0, 0, 0, 0]), &[]),
        row("bpf", 321, json!([0, 0, 0]), &[]),
        row("perf_event_open", 298, json!([0, 0, 0, 0, 0]), &[]),
        row("userfaultfd", 323, json!([-1]), &[]),
        row("shmget", 29, json!([0, 0, 0]), &[]),
        row("mq_open", 240, json!([0, 0, 0, 0]), &[]),
        // Last: where they are not refused there is a child.
        row("fork", 57, json!([]), &[]),
        row("vfork", 58, json!([]), &[]),
    ]
}

fn row(name: &'static str, number: u32, arguments: Value, may: &'static [&'static str]) -> Row {
    Row {
        name,
        call: Call::new(number, arguments),
        may,
    }
}

/// A row whose call makes a descriptor.
fn made(name: &'static str, number: u32, arguments: Value, may: &'static [&'static str]) -> Row {
    let row = row(name, number, arguments, may);
    Row {
        call: row.call.closing(),
        ..row
    }
}
