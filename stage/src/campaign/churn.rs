// SPDX-License-Identifier: Apache-2.0
//! Sessions made, used and ended, many at a time and in every way in which one ends; after them the
//! host is what it was. First a leak of each kind is planted, and must be found.

mod cycle;
pub(super) mod planted;

use anyhow::{Context, Result, bail};
use cycle::Cycle;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use torno_stage::crash::process;
use torno_stage::daemon::{Daemon, works};
use torno_stage::leftovers::{Host, alone};
use torno_stage::world::random;

/// The same program, in namespaces of its own.
pub(super) const INSIDE: &str = "churn-inside";
/// Cycles, when no number is given.
const CYCLES_DEFAULT: u32 = 2_000;
/// How many at a time.
const PARALLEL: usize = 16;
const LEVELS: &str = "container,gvisor,microvm,vm";
/// LIMIT: how long a host may take to come to rest.
const REST_WAIT: Duration = Duration::from_secs(30);
/// LIMIT: faults after which there is no point in going on.
const FAULTS_MAX: usize = 20;
/// LIMIT: the launcher holds the last workspace copies for `session apply`. A role that keeps a
/// descriptor of each session has thousands more at the end.
const DESCRIPTORS_GAINED_MAX: usize = 64;
const ROLES: [&str; 5] = ["supervisor", "desk", "notary", "dialer", "launcher"];

/// Starts the campaign where it is alone; whether nothing failed.
pub(super) fn run(count: Option<u32>, seed: Option<String>, levels: Option<&str>) -> Result<bool> {
    let count = count.unwrap_or(CYCLES_DEFAULT);
    start(INSIDE, count, seed, levels.unwrap_or(LEVELS))
}

/// Starts this program with that word where it is alone.
pub(super) fn start(inside: &str, count: u32, seed: Option<String>, levels: &str) -> Result<bool> {
    let seed = seed.map_or_else(random, Ok)?;
    println!("seed {seed}");
    let words = [inside, &count.to_string(), &seed, levels].map(OsString::from);
    let own = std::env::current_exe().context("no program of our own")?;
    let (_groups, mut command) = alone(&own, &words)?;
    let status = command.status().context("cannot start unshare")?;
    Ok(status.success())
}

/// The campaign itself.
pub(super) fn inside(words: &[String]) -> Result<bool> {
    let [count, seed, levels] = words else {
        bail!("{INSIDE} CYCLES SEED LEVELS");
    };
    let count: u32 = count.parse().context("not a number")?;
    let host = Host::new(&[]);
    planted::each_is_found(&host)?;
    let empty = host.picture()?;
    let mut daemon = Daemon::bare("")?;
    daemon.write_workspace("file", cycle::WORKSPACE)?;
    // Each level has had a session: what a daemon keeps of a level is there.
    let levels = working(&daemon, levels)?;
    let before = descriptors(&daemon)?;
    let mut faults = all(&daemon, seed, count, &levels);
    faults.extend(at_rest(|| listed(&daemon))?);
    faults.extend(gained(&before, &descriptors(&daemon)?));
    daemon.must(&["audit", "verify"])?;
    // The last workspace copies wait for `session apply` until a daemon starts.
    daemon.down();
    daemon.up()?;
    faults.extend(at_rest(|| kept(&daemon))?);
    daemon.down();
    let left = host.at_rest(&empty, REST_WAIT)?;
    faults.extend(left.iter().map(|what| format!("left over: {what}")));
    for fault in &faults {
        println!("failed: {fault}");
    }
    let passed = count.saturating_sub(u32::try_from(faults.len()).unwrap_or(u32::MAX));
    println!("{passed} passed, {} failed", faults.len());
    Ok(faults.is_empty())
}

/// Those of the named levels that work here; the others are named.
fn working(daemon: &Daemon, levels: &str) -> Result<Vec<String>> {
    let mut working = Vec::new();
    for level in levels.split(',') {
        match works(daemon, level)? {
            Ok(()) => working.push(level.to_owned()),
            Err(why) => println!("SKIP: {level}: {why}"),
        }
    }
    if working.is_empty() {
        bail!("no level works here");
    }
    Ok(working)
}

/// All cycles, so many at a time; what did not hold.
fn all(daemon: &Daemon, seed: &str, count: u32, levels: &[String]) -> Vec<String> {
    let next = AtomicU32::new(0);
    let faults = Mutex::new(Vec::new());
    let done = Mutex::new(BTreeMap::<String, u32>::new());
    let work = || {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let failed = faults.lock().unwrap_or_else(PoisonError::into_inner).len();
            if number >= count || failed > FAULTS_MAX {
                return;
            }
            let cycle = Cycle::draw(seed, number, levels);
            let result = cycle.go(daemon);
            eprintln!("{number}: {cycle}: {result:?}");
            match result {
                Ok(()) => {
                    let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
                    *done.entry(cycle.to_string()).or_default() += 1;
                }
                Err(error) => {
                    let mut faults = faults.lock().unwrap_or_else(PoisonError::into_inner);
                    faults.push(format!("{number}: {cycle}: {error:#}"));
                }
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..PARALLEL {
            scope.spawn(work);
        }
    });
    for (cycle, count) in done.into_inner().unwrap_or_else(PoisonError::into_inner) {
        println!("{count:5}  {cycle}");
    }
    faults.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// Open descriptors of each role.
fn descriptors(daemon: &Daemon) -> Result<BTreeMap<&'static str, usize>> {
    let mut counts = BTreeMap::new();
    for role in ROLES {
        let pid = process(daemon, role)?.with_context(|| format!("no {role}"))?;
        let open = std::fs::read_dir(format!("/proc/{}/fd", pid.as_raw_nonzero()));
        counts.insert(role, open.context("descriptors")?.count());
    }
    Ok(counts)
}

fn gained(
    before: &BTreeMap<&'static str, usize>,
    after: &BTreeMap<&'static str, usize>,
) -> Vec<String> {
    let mut faults = Vec::new();
    for (role, count) in after {
        let first = before.get(role).copied().unwrap_or_default();
        println!("{role}: {first} descriptors before, {count} after");
        if *count > first + DESCRIPTORS_GAINED_MAX {
            faults.push(format!("{role} holds {count} descriptors, {first} before"));
        }
    }
    faults
}

/// What there still is when it had time to go.
pub(super) fn at_rest(mut look: impl FnMut() -> Result<Vec<String>>) -> Result<Vec<String>> {
    let end = Instant::now() + REST_WAIT;
    loop {
        let left = look()?;
        if left.is_empty() || Instant::now() > end {
            return Ok(left);
        }
        std::thread::sleep(Duration::from_millis(200));
    }
}

pub(super) fn listed(daemon: &Daemon) -> Result<Vec<String>> {
    let sessions = daemon.sessions()?.into_iter();
    Ok(sessions.map(|id| format!("still listed: {id}")).collect())
}

/// What a daemon that has just started still has of sandboxes.
pub(super) fn kept(daemon: &Daemon) -> Result<Vec<String>> {
    let mut kept = Vec::new();
    for entry in std::fs::read_dir(daemon.sandboxes()).context("no sandboxes")? {
        let path = entry?.path();
        // The journal itself stays; its entries go.
        let is_empty = std::fs::read_dir(&path).is_ok_and(|mut below| below.next().is_none());
        if !(path.ends_with(".ahead") && is_empty) {
            kept.push(format!("kept by a new daemon: {}", path.display()));
        }
    }
    Ok(kept)
}
