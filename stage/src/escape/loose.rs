// SPDX-License-Identifier: Apache-2.0
//! A container with its walls off, by the raw runtime: root's, in no user namespace, with every
//! capability and every system call, nothing masked, and with the gifts that careless set-ups hand
//! in. An escape that gets nowhere even here proves nothing.

use crate::escape::bait::Bait;
use crate::unwalled::PYTHON;
use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::path::Path;
use std::process::{Command, Stdio};

/// What a set-up hands in and should not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gift {
    /// The host's process namespace.
    Processes,
    /// The host's network.
    Network,
    /// The host's shared memory.
    Memory,
    /// The host's devices.
    Devices,
    /// A socket of the host where Docker's lies.
    Socket,
    /// A directory of the host, in the search path too.
    Directory,
    /// A service account's token where Kubernetes lays it.
    Token,
}

/// Every capability of Linux 6, in the order of their numbers.
const CAPABILITIES: [&str; 41] = [
    "CHOWN",
    "DAC_OVERRIDE",
    "DAC_READ_SEARCH",
    "FOWNER",
    "FSETID",
    "KILL",
    "SETGID",
    "SETUID",
    "SETPCAP",
    "LINUX_IMMUTABLE",
    "NET_BIND_SERVICE",
    "NET_BROADCAST",
    "NET_ADMIN",
    "NET_RAW",
    "IPC_LOCK",
    "IPC_OWNER",
    "SYS_MODULE",
    "SYS_RAWIO",
    "SYS_CHROOT",
    "SYS_PTRACE",
    "SYS_PACCT",
    "SYS_ADMIN",
    "SYS_BOOT",
    "SYS_NICE",
    "SYS_RESOURCE",
    "SYS_TIME",
    "SYS_TTY_CONFIG",
    "MKNOD",
    "LEASE",
    "AUDIT_WRITE",
    "AUDIT_CONTROL",
    "SETFCAP",
    "MAC_OVERRIDE",
    "MAC_ADMIN",
    "SYSLOG",
    "WAKE_ALARM",
    "BLOCK_SUSPEND",
    "AUDIT_READ",
    "PERFMON",
    "BPF",
    "CHECKPOINT_RESTORE",
];

/// crun has no list of groups to put it into, and takes none from a host that has both kinds. Not
/// every host has mounted what its kernel traces.
const START: &str = "mount -t tmpfs none /sys/fs/cgroup/unified 2>/dev/null
[ -e /sys/kernel/tracing/available_events ] ||
    mount -t tracefs none /sys/kernel/tracing 2>/dev/null
exec crun --cgroup-manager=disabled --root \"$1/state\" run --bundle \"$1\" \"$2\"";

/// Runs a script in such a container; what it wrote.
///
/// # Errors
/// When the runtime can't be started.
pub fn run(script: &str, gifts: &[Gift], bait: &Bait) -> Result<Vec<u8>> {
    let bundle = tempfile::Builder::new()
        .prefix("torno-loose-")
        .tempdir()
        .context("no temporary directory")?;
    let root = bundle.path().join("rootfs");
    for name in [
        "usr", "proc", "dev", "sys", "tmp", "etc", "run", "var", "mnt",
    ] {
        std::fs::create_dir_all(root.join(name)).context("no directory")?;
    }
    for name in ["bin", "sbin", "lib", "lib64"] {
        std::os::unix::fs::symlink(format!("usr/{name}"), root.join(name)).context("no link")?;
    }
    let text = config(script, gifts, bait).to_string();
    std::fs::write(bundle.path().join("config.json"), text).context("no configuration")?;
    let name = bundle.path().file_name().unwrap_or_default();
    let output = Command::new("unshare")
        .args([
            "--mount",
            "--propagation",
            "private",
            "--",
            "sh",
            "-c",
            START,
            "sh",
        ])
        .arg(bundle.path())
        .arg(name)
        .stdin(Stdio::null())
        .output()
        .context("cannot start unshare")?;
    Ok([output.stdout, output.stderr].concat())
}

fn config(script: &str, gifts: &[Gift], bait: &Bait) -> Value {
    let has = |gift| gifts.contains(&gift);
    let capabilities = own_capabilities();
    let shared = [
        ("pid", Gift::Processes),
        ("network", Gift::Network),
        ("ipc", Gift::Memory),
    ];
    let namespaces: Vec<Value> = ["mount", "uts"]
        .into_iter()
        .chain(
            shared
                .iter()
                .filter(|(_, gift)| !has(*gift))
                .map(|(kind, _)| *kind),
        )
        .map(|kind| json!({ "type": kind }))
        .collect();
    json!({
        "ociVersion": "1.0.2",
        "process": {
            "terminal": false,
            "user": { "uid": 0, "gid": 0 },
            "args": [PYTHON, "-c", script],
            "env": ["PATH=/usr/local/bin:/usr/bin:/usr/sbin"],
            "cwd": "/",
            "capabilities": {
                "bounding": capabilities, "effective": capabilities, "permitted": capabilities,
                "inheritable": capabilities, "ambient": capabilities,
            },
        },
        "root": { "path": "rootfs" },
        "hostname": "loose",
        "mounts": mounts(gifts, bait),
        "linux": { "namespaces": namespaces },
    })
}

/// Those that this process could give away: a machine of a provider lacks one or the other.
fn own_capabilities() -> Vec<String> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let held = status
        .lines()
        .find_map(|line| line.strip_prefix("CapPrm:"))
        .and_then(|held| u64::from_str_radix(held.trim(), 16).ok())
        .unwrap_or_default();
    let numbered = CAPABILITIES.iter().enumerate();
    numbered
        .filter(|(number, _)| held >> number & 1 == 1)
        .map(|(_, name)| format!("CAP_{name}"))
        .collect()
}

fn mounts(gifts: &[Gift], bait: &Bait) -> Vec<Value> {
    let bind = |from: &Path, to: &str, mode: &str| {
        let options = ["rbind", mode];
        json!({ "destination": to, "type": "bind", "source": from, "options": options })
    };
    let memory = |to: &str| json!({ "destination": to, "type": "tmpfs", "source": "tmpfs" });
    let mut all = vec![
        json!({ "destination": "/proc", "type": "proc", "source": "proc" }),
        bind(Path::new("/sys"), "/sys", "rw"),
        bind(Path::new("/usr"), "/usr", "ro"),
        memory("/tmp"),
    ];
    let terminals = json!({ "destination": "/dev/pts", "type": "devpts", "source": "devpts" });
    if gifts.contains(&Gift::Devices) {
        all.push(bind(Path::new("/dev"), "/dev", "rw"));
    } else {
        all.extend([memory("/dev"), terminals]);
    }
    for gift in gifts {
        match gift {
            Gift::Memory => all.push(bind(Path::new("/dev/shm"), "/dev/shm", "rw")),
            Gift::Socket => all.push(bind(&bait.socket(), "/run/docker.sock", "rw")),
            Gift::Directory => all.push(bind(bait.directory(), "/usr/local/bin", "rw")),
            Gift::Token => {
                let to = "/run/secrets/kubernetes.io/serviceaccount/token";
                all.push(bind(&bait.token(), to, "ro"));
            }
            Gift::Processes | Gift::Network | Gift::Devices => {}
        }
    }
    all
}
