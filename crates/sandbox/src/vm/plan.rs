// SPDX-License-Identifier: Apache-2.0
//! Spec and facts → the plan of a machine: of QEMU's sandbox, and of what it boots. Pure.

use super::machine::{Machine, Qemu, Way};
use super::monitor::{self, Monitor};
use super::parts::{Acceleration, MachineParts, QEMU};
use super::renewal::SessionFiles;
use super::{command, initial, jail};
use crate::cgroup::CgroupValues;
use crate::facts::HostFacts;
use crate::plan::rules::WorkspaceRules;
use crate::plan::{CPU_PERIOD_US, Network, Plan, PlanError, check, ids, image, runtime_for};
use crate::rights::Rights;
use crate::spec::{Level, SandboxSpec, Workspace};
use std::path::Path;
use std::sync::Arc;
use torno_guest_protocol::{MachineEnd, MachineLink};

/// LIMIT: a kernel, its init and `/usr`'s tables leave nothing of less.
const MEMORY_BYTES_MIN: u64 = 128 << 20;
/// What the kernel of a machine takes before the workload has anything.
const KERNEL_BYTES: u64 = 64 << 20;
/// LIMIT: QEMU itself, with its translated code where it emulates; measured: 215 MB after a boot.
const OVERHEAD_BYTES: u64 = 384 << 20;
/// LIMIT: a thread for each processor, the main loop, and workers for the disk.
const THREADS_MAX: u64 = 128;

/// Makes the plan.
pub(crate) fn plan(spec: &SandboxSpec, facts: &HostFacts) -> Result<Plan, PlanError> {
    let rights: Rights = facts.rights.clone()?;
    let parts = facts.machine.as_ref().ok_or(PlanError::MachineMissing)?;
    let parts = &parts.at(spec.level);
    let disk = disk(spec, parts)?;
    let runtime = runtime_for(Level::Container, facts)?;
    check(spec)?;
    image::check(spec)?;
    if spec.limits.memory_bytes < MEMORY_BYTES_MIN {
        return Err(PlanError::Limit("memory"));
    }
    // A copy is carried in over the link, and its rules with it.
    WorkspaceRules::parse(&spec.files)?;
    let ids = ids(spec, rights)?;
    let memory_mib = (spec.limits.memory_bytes + KERNEL_BYTES) >> 20;
    let words = command::qemu(spec, parts, memory_mib);
    let ends = (MachineLink::Port, MachineEnd::PowerOff);
    let initial: Arc<[u8]> = initial::archive(spec, facts, parts, ends)?.into();
    let qemu = Qemu {
        words,
        program: parts.root.join(QEMU),
        version: parts.version.clone(),
        is_accelerated: parts.acceleration == Acceleration::Kvm,
    };
    let plan = Plan {
        id: spec.id.clone(),
        level: spec.level,
        tree: jail::tree(facts, parts, disk, Arc::clone(&initial)),
        config: qemu.config(Way::Boot, ids, runtime.kind),
        cgroup: CgroupValues {
            memory_bytes: (memory_mib << 20) + OVERHEAD_BYTES,
            pids: THREADS_MAX,
            cpu_quota_us: spec.limits.cpu_milli * CPU_PERIOD_US / 1000,
            cpu_period_us: CPU_PERIOD_US,
        },
        // The machine's own, which nothing of the host is mounted on.
        workspace: Workspace::None,
        rules: WorkspaceRules::default(),
        ids,
        network: Network::Machine,
        keeper: facts.keeper.clone(),
        cgroups: facts.cgroups.clone(),
        runtime,
        monitor: None,
        machine: Some(Machine {
            way: Way::Boot,
            qemu: Some(qemu),
            initial,
            files: SessionFiles::of(spec, facts)?,
        }),
    };
    match parts.kvm.monitor(spec.level) {
        None | Some(Monitor::Qemu) => Ok(plan),
        Some(other) => monitor::plan(plan, other, (spec, facts, parts), memory_mib),
    }
}

/// The file that holds what the sandbox is made of.
pub(super) fn disk<'a>(
    spec: &'a SandboxSpec,
    parts: &'a MachineParts,
) -> Result<&'a Path, PlanError> {
    let disk = match &spec.image {
        Some(image) => image.disk.as_deref(),
        None => parts.image.as_deref(),
    };
    disk.ok_or(PlanError::DiskMissing)
}

#[cfg(test)]
pub(crate) mod tests;
