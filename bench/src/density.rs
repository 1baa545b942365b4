// SPDX-License-Identifier: Apache-2.0
//! How many sessions a machine holds, and what each costs: at each level sessions are started, each
//! with a sandbox that waits for a command, until memory is spent. What is counted is everything
//! below tornod: gates, keepers, agents, runtimes, kernels, and what each role gained.

use crate::memory::{counted, private_bytes, proportional_bytes};
use crate::rows::Figure;
use anyhow::{Context, Result, ensure};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};
use torno_stage::daemon::Daemon;

/// Memory is spent when less than this is available: the rest is the machine's own.
const LEFT_BYTES: u64 = 2 << 30;
/// LIMIT: sessions of one level; a host has some thousand ranges of ids.
const SESSIONS_MAX: u32 = 2_000;
/// LIMIT: one level.
const PATIENCE: Duration = Duration::from_secs(600);
/// Started, a session has work to finish before it is at rest.
const REST: Duration = Duration::from_secs(5);
/// LIMIT: a machine with hundreds of sessions needs a while to end them.
const END_WAIT: Duration = Duration::from_secs(120);
const LEVELS: [&str; 4] = ["container", "gvisor", "microvm", "vm"];
/// None waits for a session that does not come.
const SETTINGS: &str = "pool = 0\n";

/// What there is at one moment.
struct Held {
    processes: BTreeSet<u32>,
    threads: usize,
    descriptors: usize,
    private: u64,
    proportional: u64,
    available: u64,
}

/// Fills the machine at each level.
///
/// # Errors
/// When Torno does not start, or a level's sessions don't go.
pub fn measure() -> Result<Vec<Figure>> {
    let mut figures = Vec::new();
    for level in LEVELS {
        match fill(level) {
            Ok(rows) => figures.extend(rows),
            Err(error) => figures.push(Figure {
                value: None,
                invalid: Some(format!("{error:#}")),
                ..Figure::new(format!("{level}_sessions"), "", 0.0)
            }),
        }
    }
    Ok(figures)
}

fn fill(level: &str) -> Result<Vec<Figure>> {
    let mut daemon = Daemon::bare("")?;
    daemon.write_settings(SETTINGS)?;
    daemon.down();
    daemon.up()?;
    // What comes with the first session stays: an image, a spare gate.
    start(&daemon, level)?;
    end_all(&daemon)?;
    std::thread::sleep(REST);
    let before = Held::now(&daemon)?;
    let begun = Instant::now();
    let mut count = 0_u32;
    let why = loop {
        if available()? < LEFT_BYTES {
            break "memory is spent";
        }
        if count == SESSIONS_MAX {
            break "that many are enough";
        }
        if begun.elapsed() > PATIENCE {
            break "time is over";
        }
        start(&daemon, level).with_context(|| format!("session {count}"))?;
        count += 1;
    };
    eprintln!("{level}: {count} sessions in {:?}: {why}", begun.elapsed());
    std::thread::sleep(REST);
    let running = daemon.sessions()?.len();
    ensure!(
        Ok(count) == u32::try_from(running),
        "{count} were started, {running} run"
    );
    let after = Held::now(&daemon)?;
    end_all(&daemon)?;
    Ok(before.each(&after, level, count))
}

/// A session with nothing to do.
fn start(daemon: &Daemon, level: &str) -> Result<()> {
    let options = ["--detach", "--workspace", "none"];
    let output = daemon.run_in(level, &options, &[]).output();
    let output = output.context("cannot start torno")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{}", said.trim());
    Ok(())
}

fn end_all(daemon: &Daemon) -> Result<()> {
    daemon.must(&["kill", "--all"])?;
    let end = Instant::now() + END_WAIT;
    while !daemon.sessions()?.is_empty() {
        ensure!(Instant::now() < end, "sessions don't go");
        std::thread::sleep(Duration::from_millis(100));
    }
    Ok(())
}

impl Held {
    fn now(daemon: &Daemon) -> Result<Self> {
        let processes = counted(&[daemon.pid().context("tornod is gone")?]);
        let below = |pid: &u32, name: &str| {
            let entries = std::fs::read_dir(format!("/proc/{pid}/{name}"));
            entries.map_or(0, |entries| entries.count())
        };
        Ok(Self {
            threads: processes.iter().map(|pid| below(pid, "task")).sum(),
            descriptors: processes.iter().map(|pid| below(pid, "fd")).sum(),
            private: processes.iter().map(|pid| private_bytes(*pid)).sum(),
            proportional: processes.iter().map(|pid| proportional_bytes(*pid)).sum(),
            available: available()?,
            processes,
        })
    }

    /// What each of so many sessions has added.
    fn each(&self, after: &Self, level: &str, count: u32) -> Vec<Figure> {
        let share = |before: u64, after: u64| {
            // Sums of one machine stay far below 2^53 bytes.
            let gained = after.saturating_sub(before) >> 10;
            let gained = u32::try_from(gained).map_or(f64::MAX, f64::from);
            gained * 1024.0 / f64::from(count.max(1))
        };
        let mib = |before, after| share(before, after) / 1024.0 / 1024.0;
        let number = |before: usize, after: usize| {
            let gained = u32::try_from(after.saturating_sub(before)).unwrap_or(u32::MAX);
            f64::from(gained) / f64::from(count.max(1))
        };
        let name = |what: &str| format!("{level}_{what}");
        let (old, new) = (self.processes.len(), after.processes.len());
        vec![
            Figure::new(name("sessions"), "", f64::from(count)),
            Figure::new(
                name("private_each"),
                "MiB",
                mib(self.private, after.private),
            ),
            Figure::new(
                name("proportional_each"),
                "MiB",
                mib(self.proportional, after.proportional),
            ),
            // With what the kernel holds for it: namespaces, groups, sockets, page tables.
            Figure::new(
                name("of_the_machine_each"),
                "MiB",
                mib(after.available, self.available),
            ),
            Figure::new(name("processes_each"), "", number(old, new)),
            Figure::new(
                name("threads_each"),
                "",
                number(self.threads, after.threads),
            ),
            Figure::new(
                name("descriptors_each"),
                "",
                number(self.descriptors, after.descriptors),
            ),
        ]
    }
}

/// Memory that could still be had (proc(5), `MemAvailable`).
fn available() -> Result<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").context("/proc/meminfo")?;
    let line = text.lines().find_map(|l| l.strip_prefix("MemAvailable:"));
    let kib = line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
    Ok(kib.context("no MemAvailable")? * 1024)
}
