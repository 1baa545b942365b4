// SPDX-License-Identifier: Apache-2.0
//! Whether KVM runs machines here, level by level: found out by boots, when a level is named, once
//! in a launcher's life or until one runs. A boot that fails takes ten seconds, beside the
//! launcher's loop.

use super::journal::Entry;
use super::levels::Again;
use super::ranges::Range;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::mpsc::{self, TryRecvError};
use std::time::{Duration, Instant};
use torno_sandbox::{BootProbe, HostFacts, Level, MachineParts, VerifiedGuest};

/// What is known of each level.
pub(super) struct Kvm {
    /// As the daemon's settings say.
    is_wanted: bool,
    tried: BTreeMap<Level, Trial>,
    /// How many trials of a level brought nothing, one after the other.
    failed: BTreeMap<Level, u32>,
}

enum Trial {
    Coming(mpsc::Receiver<Outcome>, Instant),
    /// What was found, and when it is tried again where no machine ran.
    Done(Vec<String>, Option<Again>),
}

impl Trial {
    fn is_due(&self) -> bool {
        matches!(self, Self::Done(_, Some(again)) if again.is_due())
    }
}

/// What a trial brings: the parts with the kernel that it unpacked, and what it found.
type Outcome = (Option<MachineParts>, BootProbe);

impl Kvm {
    pub(super) fn new(is_wanted: bool) -> Self {
        Self {
            is_wanted,
            tried: BTreeMap::new(),
            failed: BTreeMap::new(),
        }
    }

    /// Puts into the facts what is known of a level, and finds it out; false while that is going
    /// on. Parts and image are there.
    pub(super) fn prepare(
        &mut self,
        level: Level,
        facts: &mut HostFacts,
        trial: impl FnOnce() -> Option<(VerifiedGuest, (Entry, Range))>,
    ) -> bool {
        let is_there = facts
            .machine
            .as_ref()
            .is_some_and(|parts| parts.kvm.is_there);
        if !self.is_wanted || !is_there {
            return true;
        }
        if self.tried.get(&level).is_some_and(Trial::is_due) {
            self.tried.remove(&level);
        }
        let known = self.tried.entry(level).or_insert_with(|| match trial() {
            Some((guest, own)) => begin(level, facts.clone(), guest, own),
            None => failed("nothing to try it with"),
        });
        let Trial::Coming(coming, begun) = known else {
            return true;
        };
        let took = begun.elapsed();
        let before = self.failed.entry(level).or_default();
        let mut again = Some(Again::after_repeated(took, *before));
        *before = before.saturating_add(1);
        let lines = match coming.try_recv() {
            Err(TryRecvError::Empty) => return false,
            Err(TryRecvError::Disconnected) => vec!["KVM: the trial died".to_owned()],
            Ok((tried, found)) => {
                take(level, facts, tried, &found);
                again = again.filter(|_| found.monitor.is_none());
                found.lines
            }
        };
        for line in &lines {
            tracing::info!("{}: {line}", level.name());
        }
        *known = Trial::Done(lines, again);
        true
    }

    /// What there is to say of a level.
    pub(super) fn lines(&self, level: Level, facts: &HostFacts) -> Vec<String> {
        let is_there = facts.machine.as_ref().map(|parts| parts.kvm.is_there);
        let one = |line: &str| vec![line.to_owned()];
        match (self.is_wanted, is_there, self.tried.get(&level)) {
            (_, None, _) => Vec::new(),
            (false, Some(_), _) => one("KVM: not used, by `kvm = false` in tornod.toml"),
            (true, Some(false), _) => one("KVM: no /dev/kvm, or not root of this host"),
            (true, Some(true), Some(Trial::Done(lines, _))) => lines.clone(),
            (true, Some(true), Some(Trial::Coming(..))) => one("KVM: a machine is being tried"),
            (true, Some(true), None) => {
                one("KVM: there; whether it runs a machine is tried when this level is named")
            }
        }
    }
}

/// From now on a session's machine is made as the one that was ready.
fn take(level: Level, facts: &mut HostFacts, tried: Option<MachineParts>, found: &BootProbe) {
    let Some(parts) = &mut facts.machine else {
        return;
    };
    if let Some(tried) = tried {
        parts.kvm.kernel = tried.kvm.kernel;
    }
    if let Some(monitor) = found.monitor {
        parts.kvm.proven.push((level, monitor));
    }
}

fn begin(
    level: Level,
    mut facts: HostFacts,
    guest: VerifiedGuest,
    (entry, range): (Entry, Range),
) -> Trial {
    let (done, coming) = mpsc::channel();
    let work = move || {
        let mut found = unpack(&mut facts);
        let probe = torno_sandbox::boot_probe(level, &facts, &guest, (entry.id(), range.uid_base));
        // Nobody may have the ids before.
        drop((entry, range));
        found.extend(probe.lines);
        let probe = BootProbe {
            lines: found,
            ..probe
        };
        // A launcher that has ended has no use for it.
        let _ = done.send((facts.machine, probe));
    };
    match std::thread::Builder::new().name("kvm".into()).spawn(work) {
        Ok(_) => Trial::Coming(coming, Instant::now()),
        Err(error) => failed(&error.to_string()),
    }
}

/// No trial was made.
fn failed(why: &str) -> Trial {
    let again = Again::after(Duration::ZERO);
    Trial::Done(vec![format!("KVM: {why}")], Some(again))
}

/// The kernel for those who don't read it packed. Where it can't be had they are left out.
fn unpack(facts: &mut HostFacts) -> Vec<String> {
    let Some(parts) = &mut facts.machine else {
        return Vec::new();
    };
    if parts.kvm.programs.is_empty() {
        return Vec::new();
    }
    let cache = parts.image.as_deref().and_then(Path::parent);
    let Some(cache) = cache else {
        return Vec::new();
    };
    match torno_sandbox::plain_kernel(&parts.kernel, cache) {
        Ok(kernel) => {
            parts.kvm.kernel = Some(kernel);
            Vec::new()
        }
        Err(error) => {
            parts.kvm.programs.clear();
            vec![format!("KVM: {:#}", anyhow::Error::from(error))]
        }
    }
}
