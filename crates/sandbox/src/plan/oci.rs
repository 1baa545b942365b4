// SPDX-License-Identifier: Apache-2.0
//! The OCI configuration: one for crun, runc and runsc. The root directory comes complete with its
//! host mounts; the runtime adds /proc, /dev and what lives in memory.

use super::{etc, has_seccomp};
use crate::facts::HostFacts;
use crate::runtime::{ROOT, RuntimeKind};
use crate::seccomp;
use crate::spec::{GUEST_PATH, INSIDE_UID, IdMap, SandboxSpec, Workspace};
use serde_json::{Value, json};

/// The agent's home inside.
pub(crate) const HOME: &str = "/home/agent";

/// The configuration's text.
pub(super) fn config(
    spec: &SandboxSpec,
    facts: &HostFacts,
    ids: IdMap,
    kind: RuntimeKind,
) -> String {
    let mut linux = linux(ids);
    if has_seccomp(kind)
        && let Some(linux) = linux.as_object_mut()
    {
        linux.insert("seccomp".to_owned(), seccomp::profile());
    }
    let config = json!({
        "ociVersion": "1.0.2",
        "process": process(spec, facts),
        // Read-only by its host mount at every level; runsc would apply this to the workspace as
        // well.
        "root": { "path": ROOT, "readonly": kind != RuntimeKind::Runsc },
        "hostname": "sandbox",
        "mounts": mounts(spec, kind),
        "linux": linux,
    });
    config.to_string()
}

/// Namespaces and what /proc shows in them.
pub(crate) fn linux(ids: IdMap) -> Value {
    let mappings: Vec<Value> = ids
        .pieces()
        .into_iter()
        .map(|(inside, outside, size)| {
            json!({ "containerID": inside, "hostID": outside, "size": size })
        })
        .collect();
    let namespaces: Vec<Value> = ["pid", "mount", "ipc", "uts", "cgroup", "user"]
        .map(|kind| json!({ "type": kind }))
        .to_vec();
    json!({
        "namespaces": namespaces,
        "uidMappings": mappings,
        "gidMappings": mappings,
        "maskedPaths": MASKED,
        "readonlyPaths": READ_ONLY,
        "rootfsPropagation": "rprivate",
    })
}

fn process(spec: &SandboxSpec, facts: &HostFacts) -> Value {
    let arguments: Vec<&str> = [GUEST_PATH]
        .into_iter()
        .chain(spec.guest_arguments.iter().map(String::as_str))
        .collect();
    let none: [&str; 0] = [];
    json!({
        "terminal": false,
        "user": { "uid": INSIDE_UID, "gid": INSIDE_UID, "umask": 0o022 },
        "args": arguments,
        "env": base_environment().map(assigned).collect::<Vec<_>>(),
        // Each command says its own. A user-space kernel keeps what it once saw of a directory, and
        // the workspace may be filled after the boot.
        "cwd": "/",
        "noNewPrivileges": true,
        "oomScoreAdj": OOM_SCORE,
        "capabilities": {
            "bounding": none, "effective": none, "inheritable": none, "permitted": none,
            "ambient": none,
        },
        "rlimits": [
            { "type": "RLIMIT_CORE", "hard": 0, "soft": 0 },
            { "type": "RLIMIT_MEMLOCK", "hard": MEMLOCK_BYTES, "soft": MEMLOCK_BYTES },
            { "type": "RLIMIT_NOFILE", "hard": facts.open_files_max, "soft": facts.open_files_max },
        ],
    })
}

/// Sandboxes die first when the host runs out of memory.
pub(crate) const OOM_SCORE: i32 = 500;
/// LIMIT: what libraries lock for their own keys; pinned pages can't be reclaimed.
const MEMLOCK_BYTES: u64 = 64 << 10;

/// The base variables and the trust kit: all that the first process gets.
fn base_environment() -> impl Iterator<Item = (&'static str, &'static str)> {
    [
        ("PATH", "/usr/bin:/usr/sbin:/bin:/sbin"),
        ("HOME", HOME),
        ("USER", "agent"),
        ("LOGNAME", "agent"),
        ("SHELL", "/bin/sh"),
        ("LANG", "C.UTF-8"),
        ("TERM", "xterm-256color"),
    ]
    .into_iter()
    .chain(etc::trust_environment())
}

fn assigned((name, value): (&str, &str)) -> String {
    format!("{name}={value}")
}

/// What an image can't say otherwise: who the workload is, and whom its tools trust.
fn is_kept(name: &str) -> bool {
    let mut trust = etc::trust_environment().into_iter();
    matches!(name, "HOME" | "USER" | "LOGNAME" | "TERM") || trust.any(|(kept, _)| kept == name)
}

/// What every command starts from: the base variables, the trust kit, the image's, then the
/// session's own; a later one of the same name wins.
#[must_use]
pub fn environment(spec: &SandboxSpec) -> Vec<(String, String)> {
    let mut variables: Vec<(String, String)> = base_environment()
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    let of_image = spec.image.iter().flat_map(|image| &image.env);
    let of_image = of_image.filter(|(name, _)| !is_kept(name));
    for (name, value) in of_image.chain(&spec.env) {
        variables.retain(|(known, _)| known != name);
        variables.push((name.clone(), value.clone()));
    }
    variables
}

/// What lives in memory shares the disk limit: home and /tmp have a third each, an empty workspace
/// the last one.
pub(crate) fn places(spec: &SandboxSpec, kind: RuntimeKind) -> Vec<Value> {
    let third = spec.limits.disk_bytes / 3;
    let mut mounts = vec![
        mount("/proc", "proc", &["nosuid", "noexec", "nodev"]),
        mount(
            "/dev",
            "tmpfs",
            &["nosuid", "strictatime", "mode=755", "size=64k"],
        ),
        mount(
            "/dev/pts",
            "devpts",
            &[
                "nosuid",
                "noexec",
                "newinstance",
                "ptmxmode=0666",
                "mode=0620",
            ],
        ),
        memory("/dev/shm", third.min(SHM_BYTES_MAX), "mode=1777", kind),
        memory("/tmp", third, "mode=1777", kind),
        memory("/run", third.min(RUN_BYTES_MAX), OWN, kind),
    ];
    mounts.push(memory(HOME, third, OWN, kind));
    if spec.workspace == Workspace::None {
        mounts.push(memory("/workspace", third, OWN, kind));
    }
    mounts
}

/// The places, without a home that the launcher makes.
fn mounts(spec: &SandboxSpec, kind: RuntimeKind) -> Vec<Value> {
    let mut places = places(spec, kind);
    if home_is_staged(spec) {
        places.retain(|place| place.get("destination") != Some(&json!(HOME)));
    }
    places
}

/// A directory listed below home must be mounted after home, and a file of it made there: then the
/// launcher makes both.
pub(super) fn home_is_staged(spec: &SandboxSpec) -> bool {
    !spec.home.is_empty() || spec.also.iter().any(|also| also.inside.starts_with(HOME))
}

const OWN: &str = "mode=0755,uid=1000,gid=1000";
/// LIMIT: shared memory of browsers and test runners; counted in the memory limit too.
const SHM_BYTES_MAX: u64 = 256 << 20;
/// LIMIT: sockets and pid files.
const RUN_BYTES_MAX: u64 = 16 << 20;
/// LIMIT: one file a 16 KiB of size: an inode costs 1 KiB of kernel memory.
pub(super) const BYTES_PER_INODE: u64 = 16 << 10;

fn memory(path: &str, bytes: u64, mode: &str, kind: RuntimeKind) -> Value {
    let mut options = vec![
        "nosuid".to_owned(),
        "nodev".to_owned(),
        format!("size={bytes}"),
    ];
    options.extend(mode.split(',').map(str::to_owned));
    if kind != RuntimeKind::Runsc {
        options.push(format!("nr_inodes={}", (bytes / BYTES_PER_INODE).max(64)));
    }
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    mount(path, "tmpfs", &options)
}

pub(crate) fn mount(path: &str, kind: &str, options: &[&str]) -> Value {
    json!({ "destination": path, "type": kind, "source": kind, "options": options })
}

/// Host-wide state that /proc shows.
const MASKED: [&str; 16] = [
    "/proc/acpi",
    "/proc/asound",
    "/proc/cmdline",
    "/proc/interrupts",
    "/proc/kallsyms",
    "/proc/kcore",
    "/proc/keys",
    "/proc/key-users",
    "/proc/kmsg",
    "/proc/latency_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/sys/devices/virtual/powercap",
    "/sys/firmware",
];
const READ_ONLY: [&str; 5] = [
    "/proc/bus",
    "/proc/fs",
    "/proc/irq",
    "/proc/sys",
    "/proc/sysrq-trigger",
];
