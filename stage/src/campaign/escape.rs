// SPDX-License-Identifier: Apache-2.0
//! Every escape with its wall off, then from inside a session at each level: refused as listed, and
//! the host afterwards what it was.

use anyhow::{Context, Result, bail};
use std::ffi::OsString;
use std::time::Duration;
use torno_stage::daemon::{Daemon, works};
use torno_stage::escape::{Control, Inside, Judge, LEVELS, Row, knobs};
use torno_stage::leftovers::{Host, alone};
use torno_stage::world::World;

/// The same program, in namespaces of its own.
pub(super) const INSIDE: &str = "escape-inside";
const LAST_PROCESS: &str = "/proc/sys/kernel/ns_last_pid";
/// LIMIT: how long a host may take to come to rest.
const REST_WAIT: Duration = Duration::from_secs(30);

/// What a session that ends must take along: processes that left their session and their parent.
const PARTING: &str = "import os
for _ in range(3):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.execv('/bin/sleep', ['sleep', '3600'])
        os._exit(0)
    os.wait()";

/// Starts the campaign where it is alone; whether nothing failed.
pub(super) fn run(levels: Option<&str>, only: Option<&str>) -> Result<bool> {
    let all = LEVELS.join(",");
    let words = [INSIDE, levels.unwrap_or(&all), only.unwrap_or_default()].map(OsString::from);
    let own = std::env::current_exe().context("no program of our own")?;
    let (_groups, mut command) = alone(&own, &words)?;
    let status = command.status().context("cannot start unshare")?;
    Ok(status.success())
}

/// The campaign itself.
pub(super) fn inside(words: &[String]) -> Result<bool> {
    let [levels, only] = words else {
        bail!("{INSIDE} LEVELS TEXT");
    };
    // The host's processes have numbers that none inside a sandbox has: there they would be others.
    std::fs::write(LAST_PROCESS, "20000").context("no say in the numbers of processes")?;
    let host = Host::new(&[]);
    let (empty, before) = (host.picture()?, knobs());
    let mut tally = Tally::default();
    {
        let world = World::start()?;
        let daemon = Daemon::start(&world)?;
        let mut judge = Judge::new(&world, &daemon, only)?;
        tally.controls(&judge.controls()?);
        for level in levels.split(',') {
            if let Err(why) = works(&daemon, level)? {
                println!("SKIP: {level}: {why}");
                continue;
            }
            let inside = Inside::start(&daemon, level)?;
            tally.level(level, &judge.at(level, &inside));
            inside.run(PARTING)?;
            inside.end()?;
        }
    }
    let left = host.at_rest(&empty, REST_WAIT)?;
    tally.check(left.is_empty(), || format!("left over: {left:#?}"));
    tally.check(knobs() == before, || {
        "a knob of the host changed".to_owned()
    });
    Ok(tally.end())
}

/// What held, and what did not.
#[derive(Default)]
struct Tally {
    passed: u32,
    without: Vec<String>,
    failed: Vec<String>,
}

impl Tally {
    fn check(&mut self, good: bool, what: impl FnOnce() -> String) {
        if good {
            self.passed += 1;
        } else {
            self.failed.push(what());
        }
    }

    fn controls(&mut self, controls: &[(&str, Control)]) {
        println!("Walls off:");
        for (name, control) in controls {
            println!("  {name:54}  {control}");
            match control {
                Control::Succeeded => self.passed += 1,
                Control::Nothing(why) => self.without.push(format!("{name}: {why}")),
                Control::Failed(said) => self.failed.push(format!("control: {name}:\n{said}")),
            }
        }
    }

    fn level(&mut self, level: &str, rows: &[Row]) {
        println!("\nLevel {level}:");
        for row in rows {
            let mark = if row.problem.is_none() { "ok" } else { "!!" };
            println!("{mark} {:54}  {:34}  {}", row.name, row.met, row.of);
            self.check(row.problem.is_none(), || {
                let problem = row.problem.clone().unwrap_or_default();
                let said = String::from_utf8_lossy(&row.output).into_owned();
                format!("{level}: {}: {problem}\n{said}", row.name)
            });
        }
    }

    fn end(&self) -> bool {
        println!(
            "\n{} without a control on this machine:",
            self.without.len()
        );
        for without in &self.without {
            println!("  {without}");
        }
        for failure in &self.failed {
            println!("failed: {failure}");
        }
        println!("{} passed, {} failed", self.passed, self.failed.len());
        self.failed.is_empty()
    }
}
