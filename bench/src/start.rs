// SPDX-License-Identifier: Apache-2.0
//! Start to the end of `true`: `torno run` against a warm tornod beside the runtimes that it uses,
//! each with the same configuration, and bubblewrap, in turns.

use crate::bundle::{self, Network};
use crate::peer::Tools;
use crate::raw_runtime;
use crate::rows::{Measured, Row, TORNO, Target, rows};
use anyhow::{Context, Result};
use std::path::Path;
use torno_sandbox::{Runtime, RuntimeKind};
use torno_stage::daemon::Daemon;

/// Milliseconds that `torno run -- true` may take above the raw runtime.
const ABOVE_RAW_MS: f64 = 25.0;
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
const CONTAINER: &str = "start_true_container";
const GVISOR: &str = "start_true_gvisor";

/// What has to hold: at each level that was measured, against the runtime that Torno itself uses.
#[must_use]
pub fn targets(measured: &[Row]) -> Vec<Target> {
    let uses = |name: &str| measured.iter().any(|row| row.peer_name == name);
    let container = if uses("crun") { "crun" } else { "runc" };
    let mut targets = vec![Target::MoreByAtMost(CONTAINER, container, ABOVE_RAW_MS)];
    if uses("runsc") {
        targets.push(Target::MoreByAtMost(GVISOR, "runsc", ABOVE_RAW_MS));
    }
    targets
}

/// One contender of one metric.
struct Contender {
    metric: &'static str,
    name: &'static str,
    words: Vec<String>,
    kind: Option<RuntimeKind>,
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
    let contenders = contenders(directory.path(), tools, &daemon)?;
    let mut container = Measured::default();
    let mut gvisor = Measured::default();
    let rounds = starts.div_ceil(IN_A_ROW);
    for round in 0..=rounds {
        for contender in &contenders {
            let measured = match contender.metric {
                GVISOR => &mut gvisor,
                _ => &mut container,
            };
            match raw_runtime::clock(IN_A_ROW, &contender.words, contender.kind, &daemon) {
                // The first round warms page caches and the daemon.
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
    let rows_of = |metric, measured| rows(metric, "ms", measured);
    Ok([rows_of(CONTAINER, &container), rows_of(GVISOR, &gvisor)].concat())
}

fn contenders(directory: &Path, tools: &Tools, daemon: &Daemon) -> Result<Vec<Contender>> {
    let facts = bundle::host();
    let mut contenders = Vec::new();
    for (program, name, network) in RAW {
        let Some(runtime) = raw_runtime::find(program) else {
            eprintln!("SKIPPED: peer {name}: not installed");
            continue;
        };
        let words = raw_words(directory, &facts, &runtime, network)?;
        contenders.push(Contender {
            metric: if runtime.kind == RuntimeKind::Runsc {
                GVISOR
            } else {
                CONTAINER
            },
            name,
            words,
            kind: Some(runtime.kind),
        });
    }
    match tools.find("bwrap") {
        Some(program) => contenders.push(Contender {
            metric: CONTAINER,
            name: "bubblewrap",
            words: raw_runtime::bubblewrap(&program),
            kind: None,
        }),
        None => eprintln!("SKIPPED: peer bubblewrap: not installed"),
    }
    for (metric, level) in [(CONTAINER, "container"), (GVISOR, "gvisor")] {
        if !contenders.iter().any(|other| other.metric == metric) {
            continue;
        }
        contenders.push(Contender {
            metric,
            name: TORNO,
            words: torno_words(daemon, level),
            kind: None,
        });
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

/// `torno run`, as it is typed.
fn torno_words(daemon: &Daemon, level: &str) -> Vec<String> {
    let run = daemon.torno(&[
        "run",
        "--quiet",
        "--isolation",
        level,
        "--workspace",
        "none",
        "--",
        "true",
    ]);
    let words = std::iter::once(run.get_program()).chain(run.get_args());
    words
        .map(|word| word.to_string_lossy().into_owned())
        .collect()
}
