// SPDX-License-Identifier: Apache-2.0
//! What works on this machine, level by level.

use super::super::levels;
use super::Sandboxes;
use crate::orders::ProbeResult;
use torno_policy::grant::Isolation;

impl Sandboxes {
    /// Boot probes, each made once in this life, and what waits at each level now.
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
                probe
            })
            .collect()
    }

    /// A machine's image is made when its level is the one that is named.
    fn probe_level(&mut self, level: Isolation, is_named: bool) -> ProbeResult {
        let is_machine = level.is_machine();
        // Whoever may start no sandbox is told that, and not of an image.
        if is_machine && (!is_named || self.facts.rights.is_err()) {
            self.machines.find(&mut self.facts);
        } else if is_machine && !self.machines.prepare(&mut self.facts) {
            return levels::coming(level);
        }
        if let Some(failure) = self.machines.failure().filter(|_| is_machine) {
            return levels::missing(level, failure);
        }
        if let Some(found) = self.probes.iter().find(|found| found.isolation == level) {
            return found.clone();
        }
        let found = levels::probe(level, &self.facts, self.ranges.of_probes());
        self.probes.push(found.clone());
        found
    }
}
