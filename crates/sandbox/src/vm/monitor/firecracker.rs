// SPDX-License-Identifier: Apache-2.0
//! What Firecracker is told, call by call. Its interface is the one of its `firecracker.yaml`
//! (version 1.17.0-dev). Its own jailer is not used: it
//! would be a second way to make a root, a group and ids beside the one that every sandbox has, and
//! it takes a program that starts as root of the host.

use super::call::Call;
use super::http::Method;
use super::jail::{API, LINK};
use super::plan::Machine;
use crate::vm::jail::{DISK, INITIAL, KERNEL};
use serde_json::{Value, json};

/// The program's words after its name. What it logs and counts goes nowhere, and its filters of
/// system calls are its default ones.
pub(super) fn words() -> Vec<String> {
    ["--api-sock", API, "--id", "machine"]
        .map(str::to_owned)
        .to_vec()
}

/// The calls, in order; the last one starts the machine, and nothing can be changed after it.
pub(super) fn calls(machine: &Machine) -> Vec<Call> {
    let put = |name, path, body: Value| Call {
        name,
        method: Method::Put,
        path,
        body: Some(body),
        status: 204,
    };
    vec![
        put(
            "size",
            "/machine-config",
            json!({ "vcpu_count": machine.processors, "mem_size_mib": machine.memory_mib }),
        ),
        put(
            "boot source",
            "/boot-source",
            json!({
                "kernel_image_path": KERNEL,
                "initrd_path": INITIAL,
                "boot_args": machine.kernel_words,
            }),
        ),
        put(
            "disk",
            "/drives/disk",
            json!({
                "drive_id": "disk",
                "path_on_host": DISK,
                "is_root_device": false,
                "is_read_only": true,
            }),
        ),
        put(
            "link",
            "/vsock",
            json!({ "guest_cid": GUEST, "uds_path": LINK }),
        ),
        put(
            "start",
            "/actions",
            json!({ "action_type": "InstanceStart" }),
        ),
    ]
}

/// The first address that a guest may have (vsock(7)). Each machine has a device of its own, so
/// that all may have the same.
pub(super) const GUEST: u32 = 3;
