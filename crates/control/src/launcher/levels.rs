// SPDX-License-Identifier: Apache-2.0
//! Isolation levels: what works here, and what the guest agent is told at each.

mod again;

use super::sandboxes::Failed;
use crate::orders::ProbeResult;
use torno_policy::grant::Isolation;
use torno_sandbox::{HostFacts, INSIDE_UID, Level, SandboxId};

pub(super) use again::Again;

/// Every level, weakest first.
pub(super) const ALL: [Isolation; 4] = [
    Isolation::Container,
    Isolation::Gvisor,
    Isolation::Microvm,
    Isolation::Vm,
];

/// A level whose image is being made, or which is being tried on KVM.
pub(super) fn coming(isolation: Isolation) -> ProbeResult {
    ProbeResult {
        coming: true,
        ..missing(isolation, "its parts are being made or tried")
    }
}

/// A level that does not work, and why.
pub(super) fn missing(isolation: Isolation, why: &str) -> ProbeResult {
    ProbeResult {
        isolation,
        works: false,
        emulated: false,
        coming: false,
        lines: vec![why.to_owned()],
        absent: Vec::new(),
        fix: None,
    }
}

/// The boot probe of one level.
pub(super) fn probe(
    isolation: Isolation,
    facts: &HostFacts,
    named: (&SandboxId, u32),
) -> ProbeResult {
    let Ok(level) = of(isolation) else {
        return missing(isolation, "no level of its own");
    };
    match torno_sandbox::probe(level, facts, named) {
        Ok(guarantees) => {
            let of = |stands: bool| {
                let walls = guarantees
                    .walls
                    .iter()
                    .filter(move |wall| wall.stands == stands);
                walls.map(|wall| format!("{}: {}", wall.name, wall.how))
            };
            let absent = of(false).collect();
            let mut lines = vec![
                format!("boundary: {}", guarantees.boundary),
                format!("network stack: {}", guarantees.network_stack),
                format!("runtime: {}", guarantees.runtime),
            ];
            lines.extend(of(true));
            lines.extend(guarantees.warnings.iter().cloned());
            ProbeResult {
                isolation,
                works: true,
                emulated: guarantees.emulated,
                coming: false,
                lines,
                absent,
                fix: None,
            }
        }
        Err(found) => ProbeResult {
            fix: Some(found.fix.clone()),
            ..missing(isolation, &found.to_string())
        },
    }
}

/// The level of an order.
pub(super) fn of(isolation: Isolation) -> Result<Level, Failed> {
    match isolation {
        Isolation::Container => Ok(Level::Container),
        Isolation::Gvisor => Ok(Level::Gvisor),
        Isolation::Microvm => Ok(Level::Microvm),
        Isolation::Vm => Ok(Level::Vm),
        Isolation::Strongest => Err(Failed::internal("the desk has not chosen a level")),
    }
}

/// What the guest agent is told: whom to run programs as, and which walls it must raise. gVisor has
/// no landlock; its own boundary stands there instead.
pub(super) fn guest_arguments(has_workspace: bool, isolation: Isolation) -> Vec<String> {
    let id = INSIDE_UID.to_string();
    let place = if has_workspace {
        "/workspace"
    } else {
        "/home/agent"
    };
    let words = [
        "init",
        "--workload-uid",
        &id,
        "--workload-gid",
        &id,
        "--workspace",
        place,
    ];
    let mut words: Vec<String> = words.into_iter().map(str::to_owned).collect();
    if matches!(
        isolation,
        Isolation::Container | Isolation::Microvm | Isolation::Vm
    ) {
        words.push("--require-landlock".to_owned());
    }
    words
}
