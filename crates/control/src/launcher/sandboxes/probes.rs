// SPDX-License-Identifier: Apache-2.0
//! What works on this machine, level by level.

use super::super::levels::{self, Again};
use super::{Failed, Sandboxes};
use crate::orders::{LauncherReply, ProbeResult};
use std::time::Instant;
use torno_policy::grant::{Image, Isolation};
use torno_sandbox::Level;

impl Sandboxes {
    /// Boot probes, each made once in this life or until it works, and what waits at each level.
    pub(in super::super) fn probe(&mut self, only: Option<Isolation>) -> Vec<ProbeResult> {
        let wanted = levels::ALL
            .into_iter()
            .filter(|level| only.is_none_or(|only| *level == only));
        wanted
            .map(|level| {
                let mut probe = self.probe_level(level, only.is_some());
                match self.spares.count(level) {
                    0 => {}
                    count => probe.lines.push(format!("made ahead: {count}")),
                }
                if let Some(machine) = machine_of(level) {
                    probe.lines.extend(self.kvm.lines(machine, &self.facts));
                }
                match self.templates.count(level) {
                    0 => {}
                    count => probe.lines.push(format!("templates: {count}")),
                }
                probe
            })
            .collect()
    }

    /// What a document's image stands for, and whether a sandbox of that level can be made of it
    /// now: a machine's disk may have to be made first.
    pub(in super::super) fn find_image(
        &mut self,
        image: &Image,
        isolation: Isolation,
    ) -> Result<LauncherReply, Failed> {
        let digest = self.images.find(image)?;
        let is_there = match &self.facts.machine {
            Some(parts) if isolation.is_machine() => self.images.has_disk(&digest, parts)?,
            // Without its parts no machine is made, and the plan says so.
            Some(_) | None => true,
        };
        Ok(LauncherReply::Image { digest, is_there })
    }

    /// A machine's image is made when its level is the one that is named.
    fn probe_level(&mut self, level: Isolation, is_named: bool) -> ProbeResult {
        let machine = machine_of(level);
        let is_machine = machine.is_some();
        // Whoever may start no sandbox is told that, and not of an image.
        if is_machine && (!is_named || self.facts.rights.is_err()) {
            self.machines.find(&mut self.facts);
        } else if is_machine && !self.machines.prepare(&mut self.facts) {
            return levels::coming(level);
        }
        if let Some(failure) = self.machines.failure().filter(|_| is_machine) {
            return levels::missing(level, failure);
        }
        if let Some(machine) = machine.filter(|_| is_named)
            && !self.try_kvm(machine, level)
        {
            return levels::coming(level);
        }
        let known = self.probes.iter().find(|(known, _)| *known == level);
        if let Some((_, found)) = known.filter(|(_, found)| found.counts()) {
            return found.result.clone();
        }
        self.probes.retain(|(known, _)| *known != level);
        let found = Probed::make(|| match self.journal.enter() {
            Ok(entry) => {
                let named = (entry.id(), self.ranges.of_probes());
                levels::probe(level, &self.facts, named)
            }
            Err(error) => levels::missing(level, &format!("{error:#}")),
        });
        let result = found.result.clone();
        self.probes.push((level, found));
        result
    }

    /// Finds out whether KVM runs machines of that level; false while a machine is being tried.
    fn try_kvm(&mut self, machine: Level, level: Isolation) -> bool {
        let (guest, ranges, journal) = (&self.guest, &mut self.ranges, &self.journal);
        let trial = || {
            let (guest, entry) = (guest.clone().ok()?, journal.enter().ok()?);
            Some((guest, (entry, ranges.take().ok()?)))
        };
        let before = self.facts.machine.as_ref().map(|parts| parts.kvm.clone());
        let is_known = self.kvm.prepare(machine, &mut self.facts, trial);
        let after = self.facts.machine.as_ref().map(|parts| &parts.kvm);
        if before.as_ref() != after {
            // What was said before knew nothing of it.
            self.probes.retain(|(known, _)| *known != level);
        }
        is_known
    }
}

/// What a boot probe found, and when a "no" is looked at again.
pub(super) struct Probed {
    result: ProbeResult,
    again: Option<Again>,
}

impl Probed {
    fn make(probe: impl FnOnce() -> ProbeResult) -> Self {
        let begun = Instant::now();
        let result = probe();
        let again = (!result.works).then(|| Again::after(begun.elapsed()));
        Self { result, again }
    }

    fn counts(&self) -> bool {
        !self.again.is_some_and(Again::is_due)
    }
}

/// The level of a machine.
fn machine_of(isolation: Isolation) -> Option<Level> {
    let level = levels::of(isolation).ok()?;
    matches!(level, Level::Microvm | Level::Vm).then_some(level)
}
