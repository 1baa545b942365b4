// SPDX-License-Identifier: Apache-2.0
//! Spec and facts → the plan of a machine that Firecracker or Cloud Hypervisor makes. Pure.

use super::{Monitor, Orders, cloud_hypervisor, firecracker, jail};
use crate::facts::HostFacts;
use crate::plan::{Plan, PlanError};
use crate::spec::SandboxSpec;
use crate::vm::command::{kernel, processors};
use crate::vm::parts::MachineParts;
use crate::vm::plan::disk;
use crate::vm::{initial, jail as qemu_jail};
use std::sync::Arc;
use torno_guest_protocol::{MachineEnd, MachineLink};

/// What a machine is made with, whoever makes it.
#[derive(Debug)]
pub(super) struct Machine {
    pub(super) processors: u64,
    pub(super) memory_mib: u64,
    pub(super) kernel_words: String,
}

/// LIMIT: the monitor itself; measured by its makers: 5 MB for Firecracker, below 30 for Cloud
/// Hypervisor. The rest is for pages of kernel and image that are read on the group's account.
const OVERHEAD_BYTES: u64 = 128 << 20;

/// Puts into the plan of a machine what differs where this monitor makes it.
pub(in crate::vm) fn plan(
    mut plan: Plan,
    monitor: Monitor,
    (spec, facts, parts): (&SandboxSpec, &HostFacts, &MachineParts),
    memory_mib: u64,
) -> Result<Plan, PlanError> {
    let program = parts.kvm.program(monitor);
    let program = program.ok_or(PlanError::MachineMissing)?;
    let disk = disk(spec, parts)?;
    let kernel_file = parts.kvm.kernel.as_deref();
    let kernel_file = kernel_file.ok_or(PlanError::DiskMissing)?;
    let (words, end) = match monitor {
        // It has no power to switch off, and ends when its guest restarts.
        Monitor::Firecracker => (firecracker::words(), MachineEnd::Restart),
        // It would restart its guest.
        Monitor::CloudHypervisor | Monitor::Qemu => {
            (cloud_hypervisor::words(), MachineEnd::PowerOff)
        }
    };
    let machine = Machine {
        processors: processors(spec),
        memory_mib,
        kernel_words: kernel(parts),
    };
    let calls = match monitor {
        Monitor::Firecracker => firecracker::calls(&machine),
        Monitor::CloudHypervisor | Monitor::Qemu => cloud_hypervisor::calls(&machine),
    };
    let link = MachineLink::Vsock {
        port: super::link::LINK_PORT,
    };
    let initial: Arc<[u8]> = initial::archive(spec, facts, parts, (link, end))?.into();
    if let Some(machine) = &mut plan.machine {
        machine.qemu = None;
        machine.initial = Arc::clone(&initial);
    }
    let mut all = vec![jail::PROGRAM.to_owned()];
    all.extend(words);
    plan.tree = jail::tree(facts, program, (kernel_file, disk), initial);
    let device = Some(jail::device());
    plan.config = qemu_jail::config((&all, &[]), plan.ids, plan.runtime.kind, device);
    plan.cgroup.memory_bytes = (memory_mib << 20) + OVERHEAD_BYTES;
    plan.monitor = Some(Orders {
        name: monitor.name(),
        calls,
    });
    Ok(plan)
}
