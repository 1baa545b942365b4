// SPDX-License-Identifier: Apache-2.0
//! What the levels with a kernel of their own promise.

use super::monitor::{self, Monitor};
use super::parts::MachineParts;
use crate::guarantees::{Guarantees, Wall};
use crate::spec::Level;

/// The promises of a machine that is made of these parts.
pub(crate) fn guarantees(level: Level, parts: &MachineParts) -> Guarantees {
    let maker = parts.kvm.monitor(level);
    let emulated = maker.is_none();
    let program = maker.and_then(|monitor| parts.kvm.program(monitor));
    Guarantees {
        level,
        emulated,
        boundary: match maker {
            None => "none claimed: emulation is for development and tests",
            Some(Monitor::Qemu) => {
                "the processor's virtualisation, and QEMU in a sandbox of its own"
            }
            Some(Monitor::Firecracker) => {
                "the processor's virtualisation, and Firecracker in a sandbox of its own"
            }
            Some(Monitor::CloudHypervisor) => {
                "the processor's virtualisation, and Cloud Hypervisor in a sandbox of its own"
            }
        },
        network_stack: "the machine's own; its connections are carried over the link",
        runtime: program
            .map_or(&parts.version, |program| &program.version)
            .clone(),
        walls: match program {
            Some(_) => monitor::walls(),
            None => walls(emulated),
        },
        warnings: Vec::new(),
    }
}

fn walls(emulated: bool) -> Vec<Wall> {
    let wall = |name, stands, how| Wall { name, stands, how };
    vec![
        wall(
            "uid_range",
            true,
            "QEMU has a host uid range of its own, mapped by a user namespace",
        ),
        wall(
            "no_capabilities",
            true,
            "QEMU's five capability sets are empty; uid 1000 inside and out",
        ),
        wall("no_new_privs", true, "for QEMU and for each program inside"),
        wall(
            "seccomp",
            true,
            "QEMU's own filter behind an allow-list; programs inside have none",
        ),
        wall(
            "landlock",
            true,
            "raised inside by the agent on each program it runs",
        ),
        wall(
            "read_only_system",
            true,
            "programs lie on a read-only disk, the root directory is a read-only mount inside",
        ),
        wall(
            "sealed_network",
            true,
            "QEMU has no network at all; what the machine sends arrives at the gate or nowhere",
        ),
        wall(
            "limits",
            true,
            "memory, threads and CPU of QEMU by cgroups of the host",
        ),
        wall("inodes", true, "files in memory are counted inside"),
        wall(
            "workspace_quota",
            true,
            "the workspace lies in the machine's memory",
        ),
        if emulated {
            wall(
                "own_kernel",
                false,
                "the machine's own, but an emulated processor runs it",
            )
        } else {
            wall(
                "own_kernel",
                true,
                "system calls end in the machine's kernel",
            )
        },
    ]
}
