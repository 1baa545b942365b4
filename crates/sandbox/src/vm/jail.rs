// SPDX-License-Identifier: Apache-2.0
//! What holds QEMU: a sandbox of level `container` of its own. A read-only root with the host's
//! libraries and what it boots from, no place to write, ids of nobody else, no capability, an empty
//! network, the allow-list of system calls under its own filter.

use super::parts::{Acceleration, MachineParts};
use crate::facts::HostFacts;
use crate::plan::{TreeStep, has_seccomp, oci, relative, system};
use crate::runtime::{ROOT, RuntimeKind};
use crate::seccomp;
use crate::spec::{INSIDE_UID, IdMap};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where QEMU finds its own files.
pub(super) const MACHINE: &str = "/machine";
pub(super) const KERNEL: &str = "/boot/kernel";
pub(super) const INITIAL: &str = "/boot/initial";
pub(super) const DISK: &str = "/boot/disk.erofs";

/// Its root directory.
pub(super) fn tree(
    facts: &HostFacts,
    parts: &MachineParts,
    disk: &Path,
    initial: Arc<[u8]>,
) -> Vec<TreeStep> {
    let directories = ["usr", "etc", "proc", "dev", "machine", "boot"];
    let mut steps: Vec<TreeStep> = directories
        .iter()
        .map(|path| TreeStep::Directory(path.into()))
        .collect();
    steps.extend(system(facts));
    let bind = |host: &Path, inside: &str| TreeStep::Bind {
        host: host.to_owned(),
        inside: relative(Path::new(inside)),
    };
    steps.extend(libraries_list(facts));
    steps.push(bind(&parts.root, MACHINE));
    steps.push(bind(&parts.kernel, KERNEL));
    steps.push(bind(disk, DISK));
    steps.push(TreeStep::File(relative(Path::new(INITIAL)), initial));
    if parts.acceleration == Acceleration::Kvm {
        steps.push(TreeStep::Kvm);
    }
    steps
}

/// Where the loader finds the host's libraries.
pub(super) fn libraries_list(facts: &HostFacts) -> impl Iterator<Item = TreeStep> {
    let names = facts.etc.iter().filter(|name| name.starts_with("ld.so"));
    names.map(|name| {
        let path = PathBuf::from("/etc").join(name);
        TreeStep::Bind {
            inside: relative(&path),
            host: path,
        }
    })
}

/// The variables by which QEMU finds its own files.
pub(super) fn environment() -> Vec<String> {
    let machine = Path::new(MACHINE);
    let modules = machine.join("usr/lib/x86_64-linux-gnu/qemu");
    vec![
        format!("LD_LIBRARY_PATH={}", MachineParts::libraries(machine)),
        format!("QEMU_MODULE_DIR={}", modules.display()),
    ]
}

/// The configuration of what makes a machine: its words and variables, and the one device that it
/// may have.
pub(super) fn config(
    (words, environment): (&[String], &[String]),
    ids: IdMap,
    kind: RuntimeKind,
    device: Option<Value>,
) -> String {
    let none: [&str; 0] = [];
    let mut mounts: Vec<Value> = vec![
        oci::mount("/proc", "proc", &["nosuid", "noexec", "nodev"]),
        oci::mount("/dev", "tmpfs", &["nosuid", "mode=755", "size=64k"]),
    ];
    mounts.extend(device);
    let mut linux = oci::linux(ids);
    if let (true, Some(linux)) = (has_seccomp(kind), linux.as_object_mut()) {
        linux.insert("seccomp".to_owned(), seccomp::profile());
    }
    let config = json!({
        "ociVersion": "1.0.2",
        "process": {
            "terminal": false,
            "user": { "uid": INSIDE_UID, "gid": INSIDE_UID, "umask": 0o077 },
            "args": words,
            "env": environment,
            "cwd": "/",
            "noNewPrivileges": true,
            "oomScoreAdj": oci::OOM_SCORE,
            "capabilities": {
                "bounding": none, "effective": none, "inheritable": none, "permitted": none,
                "ambient": none,
            },
            "rlimits": [
                { "type": "RLIMIT_CORE", "hard": 0, "soft": 0 },
                { "type": "RLIMIT_MEMLOCK", "hard": 0, "soft": 0 },
                { "type": "RLIMIT_NOFILE", "hard": FILES_MAX, "soft": FILES_MAX },
            ],
        },
        "root": { "path": ROOT, "readonly": true },
        "hostname": "machine",
        "mounts": mounts,
        "linux": linux,
    });
    config.to_string()
}

/// LIMIT: the link, kernel, image, and its own wakers and timers; a running machine holds thirty.
const FILES_MAX: u32 = 128;
