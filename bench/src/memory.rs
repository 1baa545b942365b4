// SPDX-License-Identifier: Apache-2.0
//! What a program costs with all its processes while a load runs: its peak of memory, as
//! proportional set size, so that a page which several processes share counts once; and its CPU
//! time, as the scheduler counts it for each thread (proc(5), `schedstat`).

use std::collections::{BTreeMap, BTreeSet};
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
    thread: Option<JoinHandle<CpuTime>>,
}

/// What it cost.
#[derive(Debug, Clone, Copy, Default)]
pub struct Cost {
    /// MiB at the peak.
    pub peak_mib: f64,
    /// Seconds of CPU time, of all threads together.
    pub cpu_seconds: f64,
}

impl Watch {
    /// Starts; `roots` are counted with all their descendants.
    #[must_use]
    pub fn start(roots: Vec<u32>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let peak_kib = Arc::new(AtomicU64::new(0));
        let (stopped, peak) = (stop.clone(), peak_kib.clone());
        let thread = std::thread::spawn(move || {
            let mut cpu = CpuTime::default();
            cpu.begin(&counted(&roots));
            while !stopped.load(Ordering::Relaxed) {
                let counted = counted(&roots);
                peak.fetch_max(now_kib(&counted), Ordering::Relaxed);
                cpu.sample(&counted);
                std::thread::sleep(SAMPLE_EVERY);
            }
            cpu.sample(&counted(&roots));
            cpu
        });
        Self {
            stop,
            peak_kib,
            thread: Some(thread),
        }
    }

    /// Ends.
    #[must_use]
    pub fn end(mut self) -> Cost {
        self.stop.store(true, Ordering::Relaxed);
        // A sampler that panicked has taken its samples of memory, and none of time.
        let cpu = self.thread.take().and_then(|thread| thread.join().ok());
        let kib = self.peak_kib.load(Ordering::Relaxed);
        Cost {
            peak_mib: u32::try_from(kib).map_or(f64::MAX, f64::from) / 1024.0,
            cpu_seconds: cpu.unwrap_or_default().seconds(),
        }
    }
}

/// CPU time of threads, by thread. A thread that ended between two samples keeps its last one.
#[derive(Debug, Default)]
struct CpuTime {
    before: BTreeMap<u32, u64>,
    latest: BTreeMap<u32, u64>,
}

impl CpuTime {
    fn begin(&mut self, pids: &BTreeSet<u32>) {
        self.before = threads(pids);
    }

    fn sample(&mut self, pids: &BTreeSet<u32>) {
        self.latest.extend(threads(pids));
    }

    fn seconds(&self) -> f64 {
        let spent = |(thread, now): (&u32, &u64)| {
            let before = self.before.get(thread).copied().unwrap_or_default();
            Duration::from_nanos(now.saturating_sub(before))
        };
        self.latest
            .iter()
            .map(spent)
            .sum::<Duration>()
            .as_secs_f64()
    }
}

/// Nanoseconds that each thread of these processes ran so far.
fn threads(pids: &BTreeSet<u32>) -> BTreeMap<u32, u64> {
    let mut all = BTreeMap::new();
    for pid in pids {
        let Ok(tasks) = std::fs::read_dir(format!("/proc/{pid}/task")) else {
            continue;
        };
        let tids = tasks.filter_map(|task| task.ok()?.file_name().to_str()?.parse().ok());
        all.extend(tids.filter_map(|tid: u32| {
            let text = std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/schedstat"));
            let ran = text.ok()?.split_whitespace().next()?.parse().ok()?;
            Some((tid, ran))
        }));
    }
    all
}

/// The processes and their descendants, but for the load itself.
pub(crate) fn counted(roots: &[u32]) -> BTreeSet<u32> {
    let mut tree = tree(roots);
    tree.retain(|pid| name(*pid) != NOT_COUNTED);
    tree
}

/// What they hold now.
fn now_kib(counted: &BTreeSet<u32>) -> u64 {
    counted
        .iter()
        .filter_map(|pid| proportional_kib(*pid))
        .sum()
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

/// The descendants of a process that have this name.
#[must_use]
pub fn descendants_named(root: u32, wanted: &str) -> Vec<u32> {
    let tree = tree(&[root]).into_iter();
    tree.filter(|pid| name(*pid) == wanted || title(*pid).starts_with(wanted))
        .collect()
}

/// The first word of the command line: roles name themselves there.
fn title(pid: u32) -> String {
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let first = line.split(|byte| *byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(first).into_owned()
}

/// Bytes that a process shares with nobody.
#[must_use]
pub fn private_bytes(pid: u32) -> u64 {
    let kib = |field| {
        let text = status_line(pid, "smaps_rollup", field)?;
        text.split_whitespace().next()?.parse::<u64>().ok()
    };
    let parts = ["Private_Clean:", "Private_Dirty:"].map(|field| kib(field).unwrap_or_default());
    parts.iter().sum::<u64>() * 1024
}

/// Bytes of a process, of what it shares its part.
pub(crate) fn proportional_bytes(pid: u32) -> u64 {
    proportional_kib(pid).unwrap_or_default() * 1024
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
        let begin = std::time::Instant::now();
        while begin.elapsed() < Duration::from_millis(20) {}
        let cost = watch.end();
        assert!(cost.peak_mib > 0.1);
        assert!(cost.cpu_seconds >= 0.01, "{cost:?}");
    }
}
