// SPDX-License-Identifier: Apache-2.0
//! Start to the end of `true`: `torno run` against a warm tornod, with a sandbox made ahead and
//! without, beside the runtimes that it uses, each with the same configuration, and bubblewrap, in
//! turns.

use crate::bundle::{self, Network};
use crate::peer::Tools;
use crate::raw_runtime::{self, Runs};
use crate::rows::{Measured, Row, TORNO, Target, rows};
use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::path::Path;
use torno_sandbox::{Runtime, RuntimeKind};
use torno_stage::daemon::{Daemon, binaries};

/// Milliseconds that `torno run -- true` may take above the raw runtime, with a sandbox that waits.
const ABOVE_RAW_MS: f64 = 15.0;
/// Before each start at a person's pace: the next sandbox is made meanwhile.
const PAUSE_MS: u32 = 1000;
/// Starts of one contender in a row; with more, the contenders would not share the weather.
const IN_A_ROW: u32 = 5;

/// Program, name of its rows, network. runsc stands twice: with the stack of its own that it is
/// fastest with, and with the host's, as Torno starts it (decision 0003).
const RAW: [(&str, &str, Network); 4] = [
    ("crun", "crun", Network::Own),
    ("runc", "runc", Network::Own),
    ("runsc", "runsc", Network::Own),
    ("runsc", "runsc_host_stack", Network::Callers),
];
/// What is started at each level, as it stands in the rows.
const LEVELS: [(&str, &str); 2] = [
    ("container", "start_true_container"),
    ("gvisor", "start_true_gvisor"),
];

/// How Torno's starts follow each other. Only the second has a promise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pace {
    /// No sandbox is made ahead.
    Cold,
    /// One waits: sessions that start as fast as a person starts them.
    Waiting,
    /// One is made ahead, and the next session does not wait for it.
    BackToBack,
}

impl Pace {
    const ALL: [Self; 3] = [Self::Cold, Self::Waiting, Self::BackToBack];

    /// What is measured at that pace.
    fn metric(self, level: &str) -> String {
        match self {
            Self::Cold => format!("{level}_cold"),
            Self::Waiting => level.to_owned(),
            Self::BackToBack => format!("{level}_back_to_back"),
        }
    }

    fn runs(self) -> Runs {
        let pause_ms = if self == Self::Waiting { PAUSE_MS } else { 0 };
        Runs {
            count: IN_A_ROW,
            pause_ms,
        }
    }
}

/// What has to hold: at each level that was measured, against the runtime that Torno itself uses.
#[must_use]
pub fn targets(measured: &[Row]) -> Vec<Target> {
    let uses = |name: &str| measured.iter().any(|row| row.peer_name == name);
    let container = if uses("crun") { "crun" } else { "runc" };
    let [(_, in_container), (_, in_gvisor)] = LEVELS;
    let mut targets = vec![Target::MoreByAtMost(in_container, container, ABOVE_RAW_MS)];
    if uses("runsc") {
        targets.push(Target::MoreByAtMost(in_gvisor, "runsc", ABOVE_RAW_MS));
    }
    targets
}

/// One contender.
struct Contender {
    /// Of which level's rows.
    metric: &'static str,
    name: &'static str,
    words: Vec<String>,
    kind: Option<RuntimeKind>,
    /// Torno's: in the rows of one pace. The others' figures stand in those of all.
    pace: Option<Pace>,
}

impl Contender {
    fn metrics(&self) -> Vec<String> {
        let paces = Pace::ALL.into_iter();
        let own = paces.filter(|pace| self.pace.is_none_or(|own| own == *pace));
        own.map(|pace| pace.metric(self.metric)).collect()
    }
}

/// Measures all of them.
///
/// # Errors
/// When tornod does not start or no bundle can be made.
pub fn measure(tools: &Tools, starts: u32) -> Result<Vec<Row>> {
    let directory = tempfile::Builder::new()
        .prefix("torno-bench-start-")
        .tempdir()
        .context("no temporary directory")?;
    crate::site::open(directory.path())?;
    let daemon = Daemon::bare("")?;
    let mut cold = Daemon::bare("")?;
    cold.down();
    cold.write_settings("pool = 0\n")?;
    cold.up()?;
    let contenders = contenders(directory.path(), tools)?;
    let mut all: BTreeMap<String, Measured> = BTreeMap::new();
    let rounds = starts.div_ceil(IN_A_ROW);
    for round in 0..=rounds {
        for contender in &contenders {
            let of = if contender.pace == Some(Pace::Cold) {
                &cold
            } else {
                &daemon
            };
            let runs = contender.pace.unwrap_or(Pace::Cold).runs();
            let times = raw_runtime::clock(runs, &contender.words, contender.kind, of);
            for metric in contender.metrics() {
                let measured = all.entry(metric).or_default();
                match &times {
                    // The first round warms page caches and the daemons.
                    Ok(_) if round == 0 => {}
                    Ok(times) => times
                        .iter()
                        .for_each(|ms| measured.add(contender.name, *ms)),
                    Err(error) => {
                        let why = format!("{error:#}");
                        eprintln!("{} {}: invalid: {why}", contender.metric, contender.name);
                        measured.invalid(contender.name, &why);
                    }
                }
            }
        }
    }
    let rows_of = |(metric, measured): (&String, &Measured)| rows(metric, "ms", measured);
    Ok(all.iter().flat_map(rows_of).collect())
}

fn contenders(directory: &Path, tools: &Tools) -> Result<Vec<Contender>> {
    let facts = bundle::host();
    let [(_, in_container), (_, in_gvisor)] = LEVELS;
    let mut contenders = Vec::new();
    for (program, name, network) in RAW {
        let Some(runtime) = raw_runtime::find(program) else {
            eprintln!("SKIPPED: peer {name}: not installed");
            continue;
        };
        let words = raw_words(directory, &facts, &runtime, network)?;
        contenders.push(Contender {
            metric: if runtime.kind == RuntimeKind::Runsc {
                in_gvisor
            } else {
                in_container
            },
            name,
            words,
            kind: Some(runtime.kind),
            pace: None,
        });
    }
    match tools.find("bwrap") {
        Some(program) => contenders.push(Contender {
            metric: in_container,
            name: "bubblewrap",
            words: raw_runtime::bubblewrap(&program),
            kind: None,
            pace: None,
        }),
        None => eprintln!("SKIPPED: peer bubblewrap: not installed"),
    }
    for (level, metric) in LEVELS {
        if !contenders.iter().any(|other| other.metric == metric) {
            continue;
        }
        for pace in Pace::ALL {
            contenders.push(Contender {
                metric,
                name: TORNO,
                words: torno_words(level)?,
                kind: None,
                pace: Some(pace),
            });
        }
    }
    Ok(contenders)
}

fn raw_words(
    directory: &Path,
    facts: &torno_sandbox::HostFacts,
    runtime: &Runtime,
    network: Network,
) -> Result<Vec<String>> {
    let made = bundle::make(directory, facts, runtime, network)?;
    let state = directory.join("state");
    std::fs::create_dir_all(&state).context("no directory")?;
    Ok(raw_runtime::words(runtime, &made, &state, network))
}

/// `torno run`, as it is typed; the clock says whose daemon.
pub(crate) fn torno_words(level: &str) -> Result<Vec<String>> {
    let torno = binaries()?.join("torno");
    let run = [
        "run",
        "--quiet",
        "--isolation",
        level,
        "--workspace",
        "none",
    ];
    let is_machine = matches!(level, "microvm" | "vm");
    let emulated = is_machine.then_some("--emulation");
    let run = run.into_iter().chain(emulated).chain(["--", "true"]);
    let words = std::iter::once(torno.display().to_string());
    Ok(words.chain(run.map(str::to_owned)).collect())
}
