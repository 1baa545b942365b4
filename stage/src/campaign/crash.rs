// SPDX-License-Identifier: Apache-2.0
//! kill -9 of each role at each named step until three blows fell on a living process, then at so
//! many random points.

use anyhow::{Context, Result};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::time::Duration;
use torno_stage::crash::{Blow, Judged, ROLES, Step, Struck, furnish, strike};
use torno_stage::daemon::{self, Daemon};
use torno_stage::world::{World, random};

/// Where blows fall, as far as they work here.
const LEVELS: [&str; 3] = ["container", "gvisor", "microvm"];
/// Random points, when no number is given.
const RANDOM_DEFAULT: u32 = 200;
/// Blows on a living process, for each role at each named step.
const NAMED: u32 = 3;
/// LIMIT: tries for one of them; a short life is missed now and then.
const TRIES_MAX: u32 = 12;
/// LIMIT: a random blow falls within this of its step's beginning.
const AFTER_US_MAX: u64 = 400_000;
/// LIMIT: the same at a machine, which boots for seconds where it is emulated.
const MACHINE_AFTER_US_MAX: u64 = 4_000_000;
/// LIMIT: the same for a gate that is being ended: the command that ends it takes so long.
const ENDING_AFTER_US_MAX: u64 = 60_000;
/// LIMIT: the same for a porter, whose life is one job.
const PORTER_AFTER_US_MAX: u64 = 4_000;
/// One daemon and one world serve so many blows; then fresh ones, so that a campaign's end is as
/// fast as its beginning.
const BLOWS_PER_DAEMON: u32 = 25;

/// The whole campaign; whether nothing failed.
pub(super) fn run(count: Option<u32>, seed: Option<String>, only: Option<&str>) -> Result<bool> {
    let count = count.unwrap_or(RANDOM_DEFAULT);
    let seed = seed.map_or_else(random, Ok)?;
    println!("seed {seed}");
    let mut campaign = Campaign::new()?;
    let wanted = |role: &str| only.is_none_or(|only| only.split(',').any(|name| name == role));
    for role in ROLES.into_iter().filter(|role| wanted(role)) {
        for step in Step::of(role) {
            campaign.named("container", role, *step)?;
            // Each level has another first process, and other things that are kept.
            let differs = matches!(role, "sandbox" | "keeper");
            for level in LEVELS.into_iter().skip(1).filter(|_| differs) {
                campaign.named(level, role, *step)?;
            }
        }
    }
    let mut drawn = 0;
    let mut point = 0;
    while drawn < count && point < count.saturating_mul(TRIES_MAX) {
        let level = level_of(point);
        let blow = draw(&seed, point, level)?;
        point += 1;
        if !wanted(blow.role) {
            continue;
        }
        if campaign.blow(level, blow, "random")? {
            drawn += 1;
        }
    }
    Ok(campaign.end(drawn == count))
}

/// Every fourth point falls on a sandbox with a kernel of its own, where there is one.
fn level_of(point: u32) -> &'static str {
    match point % 8 {
        3 => "gvisor",
        7 => "microvm",
        _ => "container",
    }
}

/// The blow of one random point: the same for a seed on every machine.
fn draw(seed: &str, point: u32, level: &str) -> Result<Blow> {
    let digest = Sha256::digest(format!("{seed} {point}"));
    let mut numbers = digest.chunks_exact(8).map(|part| {
        part.iter()
            .fold(0_u64, |number, byte| number << 8 | u64::from(*byte))
    });
    let mut below = |sides: usize| -> Result<usize> {
        let number = numbers.next().context("no number")?;
        Ok(usize::try_from(number % u64::try_from(sides)?)?)
    };
    let role = ROLES.get(below(ROLES.len())?).copied().context("no role")?;
    let steps = Step::of(role);
    let step = steps.get(below(steps.len())?).copied().context("no step")?;
    let most = usize::try_from(after_us_max(level, role, step))?;
    let after = Duration::from_micros(u64::try_from(below(most)?)?);
    Ok(Blow { role, step, after })
}

/// How long into a step a role can be met.
fn after_us_max(level: &str, role: &str, step: Step) -> u64 {
    match (role, step) {
        ("sandbox" | "keeper", Step::Starting) if level == "microvm" => MACHINE_AFTER_US_MAX,
        ("porter", _) => PORTER_AFTER_US_MAX,
        ("gate", Step::Stopping | Step::Killing) => ENDING_AFTER_US_MAX,
        _ => AFTER_US_MAX,
    }
}

/// What has fallen so far.
struct Campaign {
    world: World,
    daemon: Daemon,
    levels: Vec<&'static str>,
    served: u32,
    killed: BTreeMap<(&'static str, &'static str, Step), u32>,
    missed: u32,
    failed: Vec<String>,
    judged: Judged,
}

impl Campaign {
    fn new() -> Result<Self> {
        let (world, daemon) = fresh()?;
        let mut levels = Vec::new();
        for level in LEVELS {
            match daemon::works(&daemon, level)? {
                Ok(()) => levels.push(level),
                Err(why) => println!("SKIP: {level}: {why}"),
            }
        }
        Ok(Self {
            world,
            daemon,
            levels,
            served: 0,
            killed: BTreeMap::new(),
            missed: 0,
            failed: Vec::new(),
            judged: Judged::default(),
        })
    }

    fn named(&mut self, level: &'static str, role: &'static str, step: Step) -> Result<()> {
        if !self.levels.contains(&level) {
            return Ok(());
        }
        let mut hits = 0;
        for tries in 0..TRIES_MAX {
            if hits == NAMED {
                return Ok(());
            }
            // At once, and then later and later; four times sooner where that came too late, so
            // that the last tries fall at once again.
            let most = Duration::from_micros(after_us_max(level, role, step) / 3);
            let after = most * hits / 4_u32.pow(tries - hits);
            hits += u32::from(self.blow(level, Blow { role, step, after }, "named")?);
        }
        if hits < NAMED {
            let what =
                format!("{role} at {step:?}, {level}: met {hits} times in {TRIES_MAX} tries");
            self.failed.push(what);
        }
        Ok(())
    }

    /// One blow. Whether it fell on a living process.
    fn blow(&mut self, level: &str, blow: Blow, list: &'static str) -> Result<bool> {
        let works = self.levels.contains(&level);
        let level = if works { level } else { "container" };
        self.served += 1;
        if self.served.is_multiple_of(BLOWS_PER_DAEMON) {
            (self.world, self.daemon) = fresh()?;
        }
        let Blow { role, step, .. } = blow;
        let struck = strike(&mut self.daemon, &self.world, level, blow);
        eprintln!("{list} {}: {blow:?} at {level}: {struck:?}", self.served);
        match struck {
            Ok(Struck::Killed(judged)) => {
                *self.killed.entry((list, role, step)).or_default() += 1;
                self.add(judged);
                Ok(true)
            }
            Ok(Struck::Missed(judged)) => {
                self.missed += 1;
                self.add(judged);
                Ok(false)
            }
            Err(error) => {
                let what = format!("{blow:?} at {level}: {error:#}");
                eprintln!("{}", self.daemon.log_text());
                self.failed.push(what);
                (self.world, self.daemon) = fresh()?;
                Ok(true)
            }
        }
    }

    fn add(&mut self, judged: Judged) {
        self.judged.requests += judged.requests;
        self.judged.credentials += judged.credentials;
    }

    fn end(&self, drawn: bool) -> bool {
        for ((list, role, step), count) in &self.killed {
            println!("{list:6}  {role:10}  {:8}  {count:4}", format!("{step:?}"));
        }
        let Judged {
            requests,
            credentials,
        } = self.judged;
        println!(
            "{} blows found no such process; what must hold held",
            self.missed
        );
        println!("{requests} requests at the far ends, each with its record");
        println!("{credentials} credentials at the far ends, each with its release");
        for failure in &self.failed {
            println!("failed: {failure}");
        }
        let passed: u32 = self.killed.values().sum();
        println!("{passed} passed, {} failed", self.failed.len());
        drawn && self.failed.is_empty()
    }
}

fn fresh() -> Result<(World, Daemon)> {
    let world = World::start()?;
    let daemon = Daemon::start(&world)?;
    furnish(&daemon)?;
    Ok((world, daemon))
}
