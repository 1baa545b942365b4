// SPDX-License-Identifier: Apache-2.0
//! The walls around a machine that KVM runs and Firecracker or Cloud Hypervisor makes, under the
//! names that every level has.

use crate::guarantees::Wall;

/// The walls; every one stands.
pub(in crate::vm) fn walls() -> Vec<Wall> {
    let wall = |name, how| Wall {
        name,
        stands: true,
        how,
    };
    vec![
        wall(
            "uid_range",
            "the monitor has a host uid range of its own, mapped by a user namespace",
        ),
        wall(
            "no_capabilities",
            "the monitor's five capability sets are empty; uid 1000 inside and out",
        ),
        wall(
            "no_new_privs",
            "for the monitor and for each program inside",
        ),
        wall(
            "seccomp",
            "the monitor's own filters behind an allow-list; programs inside have none",
        ),
        wall(
            "landlock",
            "raised inside by the agent on each program it runs",
        ),
        wall(
            "read_only_system",
            "programs lie on a read-only disk, the root directory is a read-only mount inside",
        ),
        wall(
            "sealed_network",
            "the monitor has no network at all; what the machine sends arrives at the gate or \
             nowhere",
        ),
        wall(
            "limits",
            "memory, threads and CPU of the monitor by cgroups of the host",
        ),
        wall("inodes", "files in memory are counted inside"),
        wall(
            "workspace_quota",
            "the workspace lies in the machine's memory",
        ),
        wall("own_kernel", "system calls end in the machine's kernel"),
    ]
}
