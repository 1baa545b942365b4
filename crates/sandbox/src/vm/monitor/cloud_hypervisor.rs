// SPDX-License-Identifier: Apache-2.0
//! What Cloud Hypervisor is told, call by call. Its interface is the one of its
//! `cloud-hypervisor.yaml` (version 0.3.0 of the interface).

use super::call::Call;
use super::firecracker::GUEST;
use super::http::Method;
use super::jail::{API, LINK};
use super::plan::Machine;
use crate::vm::jail::{DISK, INITIAL, KERNEL};
use serde_json::{Value, json};

/// The program's words after its name.
pub(super) fn words() -> Vec<String> {
    ["--api-socket", API, "--seccomp", "true"]
        .map(str::to_owned)
        .to_vec()
}

/// The calls, in order: the machine as a whole, then its start.
pub(super) fn calls(machine: &Machine) -> Vec<Call> {
    let put = |name, path, body: Option<Value>| Call {
        name,
        method: Method::Put,
        path,
        body,
        status: 204,
    };
    let config = json!({
        "cpus": { "boot_vcpus": machine.processors, "max_vcpus": machine.processors },
        "memory": { "size": machine.memory_mib << 20 },
        "payload": {
            "kernel": KERNEL,
            "initramfs": INITIAL,
            "cmdline": machine.kernel_words,
        },
        "disks": [{ "path": DISK, "readonly": true }],
        "vsock": { "cid": GUEST, "socket": LINK },
        // Both are on unless they are named, and write to the standard output.
        "serial": { "mode": "Off" },
        "console": { "mode": "Off" },
    });
    vec![
        Call {
            name: "ping",
            method: Method::Get,
            path: "/api/v1/vmm.ping",
            body: None,
            status: 200,
        },
        put("machine", "/api/v1/vm.create", Some(config)),
        put("start", "/api/v1/vm.boot", None),
    ]
}
