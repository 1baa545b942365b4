// SPDX-License-Identifier: Apache-2.0
//! Monitors: the programs that make machines. QEMU is told everything on its command line and can
//! emulate; Firecracker and Cloud Hypervisor need KVM, and are told what to make by calls to an
//! interface of theirs once they run.
//!
//! ```text
//!   launcher ── crun ── monitor (own ids, no network, /dev/kvm) ── kernel ── agent ── workload
//!      │ calls ────────▶ run/api.sock                                         │
//!      └─ listens at ─── run/link.sock_52 ◀── the monitor ◀── vsock, port 52 ─╯
//! ```
//!
//! The calls end with the one that starts the machine: nobody speaks to a monitor that has a guest.

mod call;
mod cloud_hypervisor;
mod firecracker;
mod http;
mod jail;
mod link;
mod order;
mod plan;
mod walls;

pub use call::CallError;
pub(super) use jail::device;
pub use link::LinkError;
pub use order::MonitorError;
pub(super) use order::START_WAIT;
pub(crate) use order::{Orders, make};
pub(super) use plan::plan;
pub(super) use walls::walls;

use crate::facts::Paths;
use crate::spec::Level;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

/// A program that makes machines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Monitor {
    /// Firecracker.
    Firecracker,
    /// Cloud Hypervisor.
    CloudHypervisor,
    /// QEMU.
    Qemu,
}

impl Monitor {
    /// Its name, for people.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Firecracker => "Firecracker",
            Self::CloudHypervisor => "Cloud Hypervisor",
            Self::Qemu => "QEMU",
        }
    }

    /// Who is tried under KVM for a level, the smallest first. A full machine is QEMU's alone.
    #[must_use]
    pub(super) fn order(level: Level) -> &'static [Self] {
        match level {
            Level::Microvm => &[Self::Firecracker, Self::CloudHypervisor, Self::Qemu],
            Level::Vm => &[Self::Qemu],
            Level::Container | Level::Gvisor => &[],
        }
    }

    /// The program's file name, and the oldest version whose machines Debian's kernel can use.
    fn program(self) -> Option<(&'static str, [u32; 2])> {
        match self {
            // Announces its devices by ACPI since then; that kernel reads them from there alone.
            Self::Firecracker => Some(("firecracker", [1, 8])),
            // A choice: the interfaces of older ones were not looked at.
            Self::CloudHypervisor => Some(("cloud-hypervisor", [48, 0])),
            Self::Qemu => None,
        }
    }
}

/// A monitor on this host, besides QEMU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MonitorProgram {
    /// Which.
    pub monitor: Monitor,
    /// Its file.
    pub path: PathBuf,
    /// What it says of itself, the first line.
    pub version: String,
    /// Whether it needs the host's libraries.
    pub is_dynamic: bool,
}

/// LIMIT: a version's line.
const VERSION_CHARACTERS_MAX: usize = 200;

impl MonitorProgram {
    /// Finds it; one that is too old for what it would be told is none.
    fn find(paths: &Paths, monitor: Monitor) -> Option<Self> {
        let (name, oldest) = monitor.program()?;
        let path = fs::canonicalize(paths.find(name)?).ok()?;
        let output = Command::new(&path)
            .arg("--version")
            .env_clear()
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .output()
            .ok()?;
        let text = String::from_utf8_lossy(&output.stdout);
        let line = text.lines().next()?;
        let version: String = line.chars().take(VERSION_CHARACTERS_MAX).collect();
        (number(&version)? >= oldest).then(|| Self {
            monitor,
            is_dynamic: has_interpreter(&path),
            path,
            version,
        })
    }
}

/// The first two numbers of a version: `Firecracker v1.14.1`, `cloud-hypervisor v48.0.0`.
fn number(version: &str) -> Option<[u32; 2]> {
    let words = version.split_whitespace();
    let mut numbers = words.filter_map(|word| word.strip_prefix('v')?.split_once('.'));
    let (major, rest) = numbers.next()?;
    let minor: String = rest.chars().take_while(char::is_ascii_digit).collect();
    Some([major.parse().ok()?, minor.parse().ok()?])
}

/// What KVM is known to be good for here. A start says so, and nothing else: some hosts have a
/// /dev/kvm behind which a kernel's own code is interpreted, and processors with the right flags
/// have a hypervisor below them that keeps them from use.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Kvm {
    /// The device is there and the launcher may make another node of it.
    pub is_there: bool,
    /// Monitors besides QEMU.
    pub programs: Vec<MonitorProgram>,
    /// The kernel as those monitors read it.
    pub kernel: Option<PathBuf>,
    /// What the kernel needs for a link by vsock, in order.
    pub link_modules: Vec<(&'static str, Arc<[u8]>)>,
    /// Which monitor has booted a machine of which level.
    pub proven: Vec<(Level, Monitor)>,
}

impl Kvm {
    /// Looks for device and programs.
    #[must_use]
    pub(super) fn find(paths: &Paths) -> Self {
        let monitors = [Monitor::Firecracker, Monitor::CloudHypervisor];
        let programs = monitors
            .iter()
            .filter_map(|monitor| MonitorProgram::find(paths, *monitor));
        Self {
            is_there: Path::new(DEVICE).exists(),
            programs: programs.collect(),
            ..Self::default()
        }
    }

    /// Who makes machines of that level by KVM.
    #[must_use]
    pub fn monitor(&self, level: Level) -> Option<Monitor> {
        let found = self.proven.iter().find(|(proven, _)| *proven == level);
        found.map(|(_, monitor)| *monitor)
    }

    /// The program of a monitor.
    pub(super) fn program(&self, monitor: Monitor) -> Option<&MonitorProgram> {
        self.programs
            .iter()
            .find(|program| program.monitor == monitor)
    }
}

/// KVM's device (Linux, `Documentation/admin-guide/devices.txt`).
pub(super) const DEVICE: &str = "/dev/kvm";

/// Whether an ELF program names an interpreter (elf(5), `PT_INTERP`): then it needs libraries of
/// the host. What can't be read is taken for one that does, and shows at its start.
pub(super) fn has_interpreter(program: &Path) -> bool {
    let mut head = Vec::new();
    let file = fs::File::open(program);
    let read = file.and_then(|file| file.take(HEAD_BYTES).read_to_end(&mut head));
    if read.is_err() {
        return true;
    }
    let number = |at: usize, bytes: usize| -> Option<usize> {
        let field = head.get(at..at.checked_add(bytes)?)?;
        field.iter().rev().try_fold(0_usize, |sum, byte| {
            sum.checked_mul(256)?.checked_add(usize::from(*byte))
        })
    };
    let headers = || {
        let (offset, size, count) = (number(32, 8)?, number(54, 2)?, number(56, 2)?);
        let kinds = (0..count).map(|at| number(offset + at * size, 4));
        Some(kinds.collect::<Option<Vec<_>>>()?.contains(&INTERPRETER))
    };
    headers().unwrap_or(true)
}

const INTERPRETER: usize = 3;
/// LIMIT: where linkers put the program headers.
const HEAD_BYTES: u64 = 4096;

#[cfg(test)]
mod tests;
