// SPDX-License-Identifier: Apache-2.0
//! What holds Firecracker or Cloud Hypervisor: a sandbox of level `container` of its own, like
//! QEMU's, with a root that has the program, what it boots, one directory in memory for its two
//! sockets, and KVM's device. It has no library of the host unless the program needs them.

use super::{DEVICE, MonitorProgram};
use crate::facts::HostFacts;
use crate::plan::{TreeStep, relative, system};
use crate::vm::jail::{DISK, INITIAL, KERNEL, libraries_list};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The program inside.
pub(super) const PROGRAM: &str = "/monitor";
/// The one directory that it may write to: its sockets, and nothing else fits.
const HOME: &str = "run";
/// The socket of its interface, by its name there and as it is told.
pub(super) const API_NAME: &str = "api.sock";
pub(super) const API: &str = "/run/api.sock";
/// The name from which those of its guest's ports are made.
pub(super) const LINK_NAME: &str = "link.sock";
pub(super) const LINK: &str = "/run/link.sock";
/// LIMIT: a page for each of two directories' worth of names; sockets take none.
const HOME_BYTES: u64 = 16 << 10;
/// LIMIT: the directory, two sockets of the monitor's, one of ours, and a lock file.
const HOME_FILES: u64 = 8;

/// Its root directory.
pub(super) fn tree(
    facts: &HostFacts,
    program: &MonitorProgram,
    (kernel, disk): (&Path, &Path),
    initial: Arc<[u8]>,
) -> Vec<TreeStep> {
    let directories = ["etc", "proc", "dev", "boot", HOME];
    let mut steps: Vec<TreeStep> = directories
        .iter()
        .map(|path| TreeStep::Directory(path.into()))
        .collect();
    if program.is_dynamic {
        steps.push(TreeStep::Directory("usr".into()));
        steps.extend(system(facts));
        steps.extend(libraries_list(facts));
    }
    let bind = |host: &Path, inside: &str| TreeStep::Bind {
        host: host.to_owned(),
        inside: relative(Path::new(inside)),
    };
    steps.push(bind(&program.path, PROGRAM));
    steps.push(bind(kernel, KERNEL));
    steps.push(bind(disk, DISK));
    steps.push(TreeStep::File(relative(Path::new(INITIAL)), initial));
    steps.push(TreeStep::Home(PathBuf::from(HOME), HOME_BYTES, HOME_FILES));
    steps.push(TreeStep::Kvm);
    steps
}

/// Where the runtime finds the node that the stage makes, and where it goes: below the `/dev` that
/// the runtime makes, so that it can't come with the root.
pub(in crate::vm) fn device() -> serde_json::Value {
    serde_json::json!({
        "destination": DEVICE,
        "type": "bind",
        "source": crate::stage::KVM_NODE,
        "options": ["bind"],
    })
}
