// SPDX-License-Identifier: Apache-2.0
//! `torno-clock COUNT PAUSE -- COMMAND…`: runs a command one time after the other, each after a
//! pause in milliseconds, and prints the wall times, in milliseconds, as a JSON array. A run that
//! fails ends it. The same clock for everybody.

use anyhow::{Context, Result, bail};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};
use torno_bench::raw_runtime::NUMBER;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("torno-clock: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [count, pause, dashes, program, words @ ..] = arguments.as_slice() else {
        bail!("usage: torno-clock COUNT PAUSE -- COMMAND…");
    };
    if dashes != "--" {
        bail!("usage: torno-clock COUNT PAUSE -- COMMAND…");
    }
    let count: u32 = count.parse().context("COUNT")?;
    let pause = Duration::from_millis(pause.parse().context("PAUSE")?);
    let own = std::process::id();
    let mut times = Vec::new();
    for run in 0..count {
        let number = format!("{own}-{run}");
        let mut command = Command::new(program);
        command.args(words.iter().map(|word| word.replace(NUMBER, &number)));
        command.stdin(Stdio::null()).stdout(Stdio::null());
        std::thread::sleep(pause);
        let begin = Instant::now();
        let status = command
            .status()
            .with_context(|| format!("cannot start {program}"))?;
        times.push(begin.elapsed().as_secs_f64() * 1000.0);
        if !status.success() {
            bail!("{program} ended with {status}");
        }
    }
    println!("{}", serde_json::to_string(&times).context("no JSON")?);
    Ok(())
}
