// SPDX-License-Identifier: Apache-2.0
//! What a plan says of its machine, and the three ways in which one comes to life. All three are
//! the same machine to QEMU, or none could be restored from another. Pure.
//!
//! ```text
//!   boot ────────────────────────────▶ nobody's ──renewed──▶ a session's
//!   template ──boot──▶ nobody's, and stopped for good
//!                         │ memory, state
//!   restored ◀────────────┘  (copy on write) ──▶ nobody's ──renewed──▶ a session's
//! ```

use super::command::Words;
use super::renewal::SessionFiles;
use super::{jail, monitor};
use crate::plan::{Plan, TreeStep, relative};
use crate::runtime::RuntimeKind;
use crate::spec::IdMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How a machine comes to life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// From its kernel, for one session.
    Boot,
    /// From its kernel, for no session: what it is once it has booted is kept.
    Template,
    /// From a template.
    Restored,
}

/// The machine of a plan.
#[derive(Debug, Clone)]
pub(crate) struct Machine {
    pub(super) way: Way,
    /// Where QEMU makes it; other monitors' machines are booted alone.
    pub(super) qemu: Option<Qemu>,
    /// The archive that it boots, or that its template has booted.
    pub(super) initial: Arc<[u8]>,
    /// What it is given when it becomes a session's; nothing of it is there before.
    pub(super) files: SessionFiles,
}

/// QEMU, as one machine has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Qemu {
    pub(super) words: Words,
    /// Its program on the host, and what it says of itself. What one version wrote, another one may
    /// read wrongly.
    pub(super) program: PathBuf,
    pub(super) version: String,
    /// It has KVM's device.
    pub(super) is_accelerated: bool,
}

impl Qemu {
    /// The configuration of what holds it.
    pub(super) fn config(&self, way: Way, ids: IdMap, kind: RuntimeKind) -> String {
        let device = self.is_accelerated.then(monitor::device);
        let words = self.words.of(way);
        jail::config((&words, &jail::environment()), ids, kind, device)
    }
}

impl Machine {
    /// Whether two differ in nothing but what their sessions bring.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        self.way == other.way && self.boots_like(other)
    }

    /// Whether two are the same once they have booted.
    pub(super) fn boots_like(&self, other: &Self) -> bool {
        // Without `..`: what a machine gains is compared here, or said not to matter.
        let Self {
            way: _,
            qemu,
            initial,
            files: _,
        } = other;
        *qemu == self.qemu && *initial == self.initial
    }

    /// Files of the host that a machine is made from, besides those that the plan binds.
    pub(crate) fn host(&self) -> Option<&Path> {
        Some(&self.qemu.as_ref()?.program)
    }
}

impl Plan {
    /// Whether what this plan makes is a machine that can be kept, and restored sooner than it
    /// boots.
    #[must_use]
    pub fn can_be_kept(&self) -> bool {
        let machine = self.machine.as_ref();
        machine.is_some_and(|machine| machine.qemu.is_some())
    }

    /// Whether its machine comes from a template.
    pub(crate) fn is_restored(&self) -> bool {
        let machine = self.machine.as_ref();
        machine.is_some_and(|machine| machine.way == Way::Restored)
    }

    /// The plan by which a template of its machine is made.
    pub(super) fn template(self) -> Self {
        self.by(Way::Template)
    }

    /// The plan by which its machine is restored: QEMU sees nothing of what it would boot from.
    pub(crate) fn restored(self) -> Self {
        let mut plan = self.by(Way::Restored);
        let [kernel, initial] = [jail::KERNEL, jail::INITIAL].map(|path| relative(Path::new(path)));
        plan.tree.retain(|step| match step {
            TreeStep::Bind { inside, .. } => *inside != kernel,
            TreeStep::File(path, _) => *path != initial,
            _ => true,
        });
        plan
    }

    fn by(mut self, way: Way) -> Self {
        if let Some(machine) = &mut self.machine {
            machine.way = way;
            if let Some(qemu) = &machine.qemu {
                self.config = qemu.config(way, self.ids, self.runtime.kind);
            }
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::{Level, SandboxSpec};
    use crate::vm::plan::tests::{facts, spec};

    fn planned(change: impl FnOnce(&mut SandboxSpec)) -> Plan {
        let mut spec = spec(Level::Microvm);
        change(&mut spec);
        crate::plan(&spec, &facts()).unwrap()
    }

    fn words(plan: &Plan) -> Vec<String> {
        let config: serde_json::Value = serde_json::from_str(&plan.config).unwrap();
        let words = config["process"]["args"].as_array().unwrap();
        words
            .iter()
            .map(|word| word.as_str().unwrap().to_owned())
            .collect()
    }

    #[test]
    fn the_three_ways_are_one_machine_and_only_a_template_shares_its_memory() {
        let boot = planned(|_| {});
        let (template, restored) = (boot.clone().template(), boot.clone().restored());
        for other in [&template, &restored] {
            let (these, those) = (words(&boot), words(other));
            let devices = |words: &[String]| {
                let at = |word: &&String| ["-device", "-cpu", "-smp", "-m"].contains(&&***word);
                let pairs = words.windows(2).filter(|pair| at(&&pair[0]));
                pairs.map(<[String]>::to_vec).collect::<Vec<_>>()
            };
            assert_eq!(devices(&these), devices(&those));
        }
        let shares = |plan: &Plan| words(plan).iter().any(|word| word.contains("share=on"));
        assert!(shares(&template) && !shares(&restored) && !shares(&boot));
        assert!(words(&restored).contains(&"-incoming".to_owned()));
    }

    #[test]
    fn what_is_restored_sees_nothing_of_what_its_template_booted_from() {
        let restored = planned(|_| {}).restored();
        let said = format!("{:?}", restored.tree);
        assert!(!said.contains("boot/kernel") && !said.contains("boot/initial"));
        assert!(said.contains("boot/disk.erofs"));
        assert!(!words(&restored).iter().any(|word| word == "-kernel"));
    }

    #[test]
    fn only_what_sessions_bring_may_differ_between_a_machine_and_its_template() {
        let is_like = |change: fn(&mut SandboxSpec)| {
            let (one, other) = (planned(|_| {}), planned(change));
            let (one, other) = (one.machine.unwrap(), other.machine.unwrap());
            one.is_like(&other)
        };
        assert!(is_like(|spec| spec.ca_pem = "OTHER\n".into()));
        assert!(is_like(|spec| spec.git_hosts.clear()));
        assert!(is_like(|spec| spec.home.clear()));
        assert!(is_like(|spec| spec.env.clear()));
        assert!(!is_like(|spec| spec.limits.memory_bytes += 1 << 20));
        // One processor is emulated, whatever the group of the sandbox may use.
        assert!(is_like(|spec| spec.limits.cpu_milli += 1000));
        assert!(!is_like(|spec| spec.limits.pids += 1));
        assert!(!is_like(|spec| spec.limits.disk_bytes += 3 << 20));
    }
}
