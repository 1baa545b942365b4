// SPDX-License-Identifier: Apache-2.0
//! QEMU's command line and the kernel's. Pure: the golden tests print both.

use super::jail::{DISK, INITIAL, KERNEL, MACHINE};
use super::machine::Way;
use super::parts::{Acceleration, MachineParts, QEMU};
use super::qmp;
use super::template::MEMORY;
use crate::spec::{Level, SandboxSpec};
use std::path::Path;

/// LIMIT: processors of one machine; each is a thread of QEMU's.
const PROCESSORS_MAX: u64 = 8;
/// LIMIT: translated code, in MiB. QEMU would take an eighth of the machine's memory and more.
const TRANSLATED_MIB: u32 = 128;

/// QEMU's words for one machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Words {
    machine: Vec<String>,
    boot: [String; 6],
    memory_mib: u64,
}

impl Words {
    /// All of them for one way of coming to life.
    pub(super) fn of(&self, way: Way) -> Vec<String> {
        let mut all = self.machine.clone();
        match way {
            Way::Boot => all.extend(self.boot.clone()),
            Way::Template => {
                all.extend(self.boot.clone());
                all.extend(kept_memory(self.memory_mib, "on"));
            }
            Way::Restored => {
                all.extend(["-incoming".to_owned(), "defer".to_owned()]);
                all.extend(kept_memory(self.memory_mib, "off"));
            }
        }
        all
    }

    /// The memory that the machine has.
    pub(super) fn memory_bytes(&self) -> u64 {
        self.memory_mib << 20
    }
}

/// The machine's memory in a file, shared with it or as it was, and the monitor by which the
/// machine is kept or restored.
fn kept_memory(memory_mib: u64, is_shared: &str) -> [String; 8] {
    [
        "-object".into(),
        format!(
            "memory-backend-file,id=memory,size={memory_mib}M,mem-path=/proc/self/fd/{MEMORY},\
             share={is_shared}"
        ),
        "-machine".into(),
        "memory-backend=memory".into(),
        "-chardev".into(),
        format!("socket,id=monitor,fd={}", qmp::DESCRIPTOR),
        "-mon".into(),
        "chardev=monitor,mode=control".into(),
    ]
}

/// QEMU's words, where QEMU makes the machine.
pub(super) fn qemu(spec: &SandboxSpec, parts: &MachineParts, memory_mib: u64) -> Words {
    let at = |path: &str| Path::new(MACHINE).join(path).display().to_string();
    let (kind, bus) = match spec.level {
        Level::Vm => ("q35,vmport=off,sata=off,smbus=off,hpet=on", "pci"),
        // Rank and file below are no machines; the plan has refused them.
        Level::Microvm | Level::Container | Level::Gvisor => {
            ("microvm,isa-serial=off,auto-kernel-cmdline=off", "device")
        }
    };
    let (accelerator, processor, processors) = match parts.acceleration {
        Acceleration::Kvm => ("kvm".to_owned(), "host", processors(spec)),
        // The base model has no instruction for random numbers, and the guest would wait for some.
        Acceleration::Emulation => (emulation(), "qemu64,+rdrand", EMULATED_PROCESSORS),
    };
    let words = [
        at(QEMU),
        "-L".into(),
        at("usr/share/qemu"),
        "-L".into(),
        at("usr/share/seabios"),
        "-nodefaults".into(),
        "-no-user-config".into(),
        "-no-reboot".into(),
        "-display".into(),
        "none".into(),
        "-monitor".into(),
        "none".into(),
        "-serial".into(),
        "none".into(),
        "-parallel".into(),
        "none".into(),
        "-machine".into(),
        kind.into(),
        "-accel".into(),
        accelerator,
        "-cpu".into(),
        processor.into(),
        "-smp".into(),
        processors.to_string(),
        "-m".into(),
        memory_mib.to_string(),
    ];
    let mut machine = words.to_vec();
    machine.extend(devices(bus));
    Words {
        machine,
        boot: boot(parts),
        memory_mib,
    }
}

/// With a thread for each processor, one may translate code that another one is just patching, and
/// keep what it read for good: a kernel that patches itself while it boots then traps for ever. In
/// one thread they take turns of a tenth of a second, and each waits for the other: so there is one
/// (decision 0064).
const EMULATED_PROCESSORS: u64 = 1;

/// What emulates it.
fn emulation() -> String {
    format!("tcg,tb-size={TRANSLATED_MIB},thread=single")
}

/// How many processors a machine has whose processors are the host's.
pub(super) fn processors(spec: &SandboxSpec) -> u64 {
    let whole = spec.limits.cpu_milli.div_ceil(1000);
    whole.clamp(1, PROCESSORS_MAX)
}

/// What the machine boots.
fn boot(parts: &MachineParts) -> [String; 6] {
    [
        "-kernel".into(),
        KERNEL.into(),
        "-initrd".into(),
        INITIAL.into(),
        "-append".into(),
        kernel(parts),
    ]
}

/// The disk, and the link.
fn devices(bus: &str) -> [String; 14] {
    [
        "-blockdev".into(),
        format!(
            "driver=file,node-name=erofs,filename={DISK},read-only=on,auto-read-only=off,\
             locking=off"
        ),
        "-blockdev".into(),
        "driver=raw,node-name=disk,file=erofs,read-only=on".into(),
        "-device".into(),
        format!("virtio-blk-{bus},drive=disk"),
        "-chardev".into(),
        // Descriptor 0 is the link.
        "socket,id=link,fd=0".into(),
        "-device".into(),
        format!("virtio-serial-{bus},max_ports=2"),
        "-device".into(),
        "virtserialport,chardev=link,nr=1,name=torno.link".into(),
        "-sandbox".into(),
        "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny".into(),
    ]
}

/// The kernel's words.
pub(super) fn kernel(parts: &MachineParts) -> String {
    let tsc = format!("tsc_early_khz={}", parts.tsc_khz);
    let mut words = vec![
        "quiet",
        "loglevel=0",
        "rdinit=/init",
        "panic=-1",
        "reboot=t",
        &tsc,
    ];
    words.extend(SMALL);
    if parts.acceleration == Acceleration::Emulation {
        words.extend(FAST_UNDER_EMULATION);
    }
    words.join(" ")
}

/// Saves time and gives up nothing.
const SMALL: [&str; 6] = [
    "random.trust_cpu=1",
    "8250.nr_uarts=0",
    "audit=0",
    "ima=off",
    "cryptomgr.notests",
    "nowatchdog",
];

/// Gives up defences of the guest's kernel that cost an emulated processor most of its time. Where
/// there is a boundary to defend they are forbidden.
const FAST_UNDER_EMULATION: [&str; 7] = [
    "norandmaps",
    "nokaslr",
    "mitigations=off",
    "nopti",
    "tsc=reliable",
    "no_timer_check",
    "apparmor=0",
];

/// The words that only an emulated kernel is told.
#[cfg(test)]
pub(super) fn fast(parts: &MachineParts) -> Vec<&'static str> {
    let said = kernel(parts);
    let is_said = |word: &&'static str| said.split(' ').any(|said| said == *word);
    FAST_UNDER_EMULATION.into_iter().filter(is_said).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vm::plan::tests::{parts, spec};

    #[test]
    fn what_speeds_emulation_up_is_never_said_to_a_kernel_under_kvm() {
        for level in [Level::Microvm, Level::Vm] {
            let mut parts = parts();
            let said = |text: &str, word: &str| text.split(' ').any(|said| said == word);
            let emulated = kernel(&parts);
            assert!(
                FAST_UNDER_EMULATION
                    .iter()
                    .all(|word| said(&emulated, word))
            );
            parts.acceleration = Acceleration::Kvm;
            let accelerated = kernel(&parts);
            assert!(
                !FAST_UNDER_EMULATION
                    .iter()
                    .any(|word| said(&accelerated, word))
            );
            let qemu = qemu(&spec(level), &parts, 512);
            for way in [Way::Boot, Way::Template, Way::Restored] {
                let qemu = qemu.of(way).join(" ");
                assert!(qemu.contains("-accel kvm") && !qemu.contains("tcg"));
            }
        }
    }
}
