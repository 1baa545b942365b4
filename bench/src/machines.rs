// SPDX-License-Identifier: Apache-2.0
//! Start to the end of `true` in a machine, and `true` in one that lives: `torno` against a warm
//! tornod, beside the same machine without Torno, in turns. The first figure of Torno's has a
//! template and no machine that waits; the bare one has a template too.

use crate::bare_machine::BareMachines;
use crate::raw_runtime::{self, Runs};
use crate::rows::{Measured, Row, TORNO, Target, rows};
use crate::start::torno_words;
use anyhow::{Context, Result};
use std::collections::BTreeMap;
use torno_sandbox::Level;
use torno_stage::clones::await_template;
use torno_stage::daemon::{self, Daemon};

/// Milliseconds above the same machine without Torno.
const WARM_ABOVE_MS: f64 = 20.0;
const COLD_ABOVE_MS: f64 = 150.0;
const EXEC_ABOVE_MS: f64 = 3.0;
/// Before each start with a machine that waits: the next one is restored meanwhile.
const PAUSE_MS: u32 = 1500;
/// Starts of one contender in a row.
const IN_A_ROW: u32 = 5;
/// `true` in a live machine, in a row.
const EXECS: u32 = 30;

/// The machine without Torno, restored and booted.
const RESTORED: &str = "bare_restore";
const BOOTED: &str = "bare_boot";
/// The agent at the other end of a bare socket.
const SOCKET: &str = "bare_socket";

/// A level, and what is measured there: restored, waiting, booted, and a command in one that lives.
struct Rows {
    level: Level,
    name: &'static str,
    warm: &'static str,
    waiting: &'static str,
    cold: &'static str,
    exec: &'static str,
}

const LEVELS: [Rows; 2] = [
    Rows {
        level: Level::Microvm,
        name: "microvm",
        warm: "start_true_microvm_warm",
        waiting: "start_true_microvm",
        cold: "start_true_microvm_cold",
        exec: "exec_true_microvm",
    },
    Rows {
        level: Level::Vm,
        name: "vm",
        warm: "start_true_vm_warm",
        waiting: "start_true_vm",
        cold: "start_true_vm_cold",
        exec: "exec_true_vm",
    },
];

/// What has to hold at the levels that were measured.
#[must_use]
pub fn targets(measured: &[Row]) -> Vec<Target> {
    let is_there = |metric: &str| measured.iter().any(|row| row.metric == metric);
    let those = LEVELS.iter().filter(|rows| is_there(rows.warm));
    let of = |rows: &Rows| {
        [
            Target::MoreByAtMost(rows.warm, RESTORED, WARM_ABOVE_MS),
            Target::MoreByAtMost(rows.waiting, RESTORED, WARM_ABOVE_MS),
            Target::MoreByAtMost(rows.cold, BOOTED, COLD_ABOVE_MS),
            Target::MoreByAtMost(rows.exec, SOCKET, EXEC_ABOVE_MS),
        ]
    };
    those.flat_map(of).collect()
}

/// Measures the levels that work here, or the one of them that is named.
///
/// # Errors
/// When tornod does not start.
pub fn measure(starts: u32, only: Option<&str>) -> Result<Vec<Row>> {
    let mut measured = Vec::new();
    let is_wanted = |level: &&Rows| only.is_none_or(|only| only == level.name);
    for level in LEVELS.iter().filter(is_wanted) {
        let daemon = Daemon::bare("")?;
        if let Err(why) = daemon::works(&daemon, level.name)? {
            eprintln!("SKIPPED: level {}: {why}", level.name);
            continue;
        }
        measured.extend(level.measure(daemon, starts)?);
    }
    Ok(measured)
}

/// The daemons: with a machine that waits, with a template alone, with neither.
struct Daemons {
    waiting: Daemon,
    warm: Daemon,
    cold: Daemon,
}

impl Rows {
    fn measure(&self, waiting: Daemon, starts: u32) -> Result<Vec<Row>> {
        let other = |settings: &str| -> Result<Daemon> {
            let mut daemon = Daemon::bare("")?;
            daemon.down();
            daemon.write_settings(settings)?;
            daemon.up()?;
            Ok(daemon)
        };
        let daemons = Daemons {
            waiting,
            warm: other("pool = 0\n")?,
            cold: other("pool = 0\ntemplates = 0\n")?,
        };
        let mut bare = BareMachines::new(self.level)?;
        let mut all: BTreeMap<&str, Measured> = BTreeMap::new();
        for daemon in [&daemons.warm, &daemons.cold] {
            let works = daemon::works(daemon, self.name)?;
            works.map_err(anyhow::Error::msg).context(self.name)?;
        }
        await_template(&daemons.warm)?;
        for _ in 0..starts.div_ceil(IN_A_ROW) {
            self.round(&daemons, &mut bare, &mut all)?;
        }
        self.execs(&daemons.warm, &mut bare, &mut all)?;
        let rows_of = |(metric, measured): (&&str, &Measured)| rows(metric, "ms", measured);
        Ok(all.iter().flat_map(rows_of).collect())
    }

    /// Each contender some times in a row.
    fn round(
        &self,
        daemons: &Daemons,
        bare: &mut BareMachines,
        all: &mut BTreeMap<&'static str, Measured>,
    ) -> Result<()> {
        let words = torno_words(self.name)?;
        let torno = [
            (self.warm, &daemons.warm, 0),
            (self.waiting, &daemons.waiting, PAUSE_MS),
            (self.cold, &daemons.cold, 0),
        ];
        for (metric, daemon, pause_ms) in torno {
            let runs = Runs {
                count: IN_A_ROW,
                pause_ms,
            };
            let times = raw_runtime::clock(runs, &words, None, daemon);
            add(all.entry(metric).or_default(), TORNO, times);
        }
        for is_restored in [true, false] {
            let times = (0..IN_A_ROW).map(|_| bare.run_true(is_restored));
            let times = times.collect::<Result<Vec<f64>>>();
            if is_restored {
                for metric in [self.warm, self.waiting] {
                    let times = times.as_ref().map(Clone::clone);
                    let times = times.map_err(|error| anyhow::anyhow!("{error:#}"));
                    add(all.entry(metric).or_default(), RESTORED, times);
                }
            } else {
                add(all.entry(self.cold).or_default(), BOOTED, times);
            }
        }
        Ok(())
    }

    /// `true` in a machine that lives.
    fn execs(
        &self,
        daemon: &Daemon,
        bare: &mut BareMachines,
        all: &mut BTreeMap<&'static str, Measured>,
    ) -> Result<()> {
        let options = ["--workspace", "none", "--detach"];
        let mut start = daemon.run_in(self.name, &options, &[]);
        let session = start.output().context("no session")?;
        let session = String::from_utf8_lossy(&session.stdout).trim().to_owned();
        let exec = ["session", "exec", &session, "--", "true"];
        let mut words = torno_words(self.name)?;
        words.truncate(1);
        words.extend(exec.map(str::to_owned));
        let runs = Runs {
            count: EXECS,
            pause_ms: 0,
        };
        let measured = all.entry(self.exec).or_default();
        let times = raw_runtime::clock(runs, &words, None, daemon);
        add(measured, TORNO, times);
        add(measured, SOCKET, bare.execs(EXECS));
        daemon.must(&["session", "stop", &session])?;
        Ok(())
    }
}

fn add(measured: &mut Measured, contender: &str, times: Result<Vec<f64>>) {
    match times {
        Ok(times) => times.iter().for_each(|ms| measured.add(contender, *ms)),
        Err(error) => {
            let why = format!("{error:#}");
            eprintln!("{contender}: invalid: {why}");
            measured.invalid(contender, &why);
        }
    }
}
