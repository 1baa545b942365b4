// SPDX-License-Identifier: Apache-2.0
//! Peak memory of a program with all its processes: proportional set size, so that a page which
//! several processes share counts once, sampled while the load runs.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Often enough to see a body that is held whole, and seldom enough not to be seen itself.
const SAMPLE_EVERY: Duration = Duration::from_millis(250);
/// The load generator runs below tornod, and is not part of it.
const NOT_COUNTED: &str = "torno-load";

/// Watches the trees of some processes.
#[derive(Debug)]
pub struct Watch {
    stop: Arc<AtomicBool>,
    peak_kib: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    /// Starts; `roots` are counted with all their descendants.
    #[must_use]
    pub fn start(roots: Vec<u32>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let peak_kib = Arc::new(AtomicU64::new(0));
        let (stopped, peak) = (stop.clone(), peak_kib.clone());
        let thread = std::thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                peak.fetch_max(now_kib(&roots), Ordering::Relaxed);
                std::thread::sleep(SAMPLE_EVERY);
            }
        });
        Self {
            stop,
            peak_kib,
            thread: Some(thread),
        }
    }

    /// Ends; the peak in MiB.
    #[must_use]
    pub fn peak_mib(mut self) -> f64 {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A sampler that panicked has taken its samples.
            let _ended = thread.join();
        }
        let kib = self.peak_kib.load(Ordering::Relaxed);
        u32::try_from(kib).map_or(f64::MAX, f64::from) / 1024.0
    }
}

/// What they hold now.
fn now_kib(roots: &[u32]) -> u64 {
    let tree = tree(roots);
    let counted = tree.iter().filter(|pid| name(**pid) != NOT_COUNTED);
    counted.filter_map(|pid| proportional_kib(*pid)).sum()
}

/// The processes and their descendants.
fn tree(roots: &[u32]) -> BTreeSet<u32> {
    let mut pairs = Vec::new();
    if let Ok(entries) = std::fs::read_dir("/proc") {
        let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        pairs.extend(pids.filter_map(|pid: u32| Some((pid, parent(pid)?))));
    }
    let mut tree: BTreeSet<u32> = roots.iter().copied().collect();
    loop {
        let more: Vec<u32> = pairs
            .iter()
            .filter(|(pid, parent)| tree.contains(parent) && !tree.contains(pid))
            .map(|(pid, _)| *pid)
            .collect();
        if more.is_empty() {
            return tree;
        }
        tree.extend(more);
    }
}

fn status_line(pid: u32, file: &str, field: &str) -> Option<String> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/{file}")).ok()?;
    let value = text.lines().find_map(|line| line.strip_prefix(field))?;
    Some(value.trim().to_owned())
}

fn parent(pid: u32) -> Option<u32> {
    status_line(pid, "status", "PPid:")?.parse().ok()
}

fn name(pid: u32) -> String {
    status_line(pid, "status", "Name:").unwrap_or_default()
}

fn proportional_kib(pid: u32) -> Option<u64> {
    let text = status_line(pid, "smaps_rollup", "Pss:")?;
    text.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_tree_has_us_and_some_memory() {
        let own = std::process::id();
        assert!(tree(&[own]).contains(&own));
        let watch = Watch::start(vec![own]);
        std::thread::sleep(SAMPLE_EVERY / 2);
        assert!(watch.peak_mib() > 0.1);
    }
}
