// SPDX-License-Identifier: Apache-2.0
//! `torno-bench`: the benchmarks, started by `cargo xtask bench`, which brings the peers. It moves
//! itself into a network namespace of its own first: the ports of the peers are free there, and
//! nothing of the machine's own network is in the way of anybody.

use anyhow::{Context, Result, bail};
use clap::{Parser, ValueEnum};
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use torno_bench::egress::{self, Effort, Only};
use torno_bench::peer::Tools;
use torno_bench::{cost, density, growth, machines, rows, start};

/// Torno beside its peers, in one run.
#[derive(Debug, Parser)]
struct Arguments {
    /// Which benchmark
    #[arg(value_enum)]
    which: Which,
    /// Where the rows go
    #[arg(long)]
    json: PathBuf,
    /// Rounds of each case of `egress`
    #[arg(long, default_value_t = 3)]
    rounds: u32,
    /// Seconds of each round of `egress` that count
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    /// Some cases of `egress`: 1, 16, 64, 16_new, 100_mb
    #[arg(long)]
    case: Option<String>,
    /// Torno beside these peers alone in `egress`: direct, mitmproxy, squid, hudsucker, haproxy,
    /// nginx
    #[arg(long)]
    peers: Option<String>,
    /// One level of `machines`; both when absent
    #[arg(long)]
    level: Option<String>,
    /// Starts of each contender of `start`
    #[arg(long, default_value_t = 30)]
    starts: u32,
    /// Set when the namespace is made
    #[arg(long, hide = true)]
    inside: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Which {
    /// Requests, latency, bytes and memory of the way out.
    Egress,
    /// Start to the end of `true`.
    Start,
    /// The same in machines alone.
    Machines,
    /// Memory of an idle session and of idle connections, and what a million requests leave.
    Cost,
    /// How cost grows with rules, sessions and live connections.
    Growth,
    /// How many sessions of each level a machine holds, and what each costs.
    Density,
    /// Both.
    All,
}

/// Where `cargo xtask bench` put the peers.
const TOOLS: &str = "TORNO_BENCH_TOOLS";
/// Seconds that don't count before each round.
const WARM_SECONDS: f64 = 1.0;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let result = if arguments.inside {
        inside(&arguments)
    } else {
        enter()
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("torno-bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Runs this program again in a network namespace with nothing but loopback.
fn enter() -> Result<bool> {
    let own = std::env::current_exe().context("no program of our own")?;
    let status = Command::new("unshare")
        .args(["--net", "--", "sh", "-c"])
        .arg("ip link set lo up && exec \"$0\" --inside \"$@\"")
        .arg(own)
        .args(std::env::args_os().skip(1))
        .status()
        .context("cannot start unshare")?;
    Ok(status.success())
}

fn inside(arguments: &Arguments) -> Result<bool> {
    if !rustix::process::geteuid().is_root() {
        bail!("the benchmarks start sandboxes and servers at port 443: run them as root");
    }
    let tools = std::env::var_os(TOOLS).context("no TORNO_BENCH_TOOLS: run `cargo xtask bench`")?;
    let tools = Tools::new(PathBuf::from(tools));
    if let Which::Cost | Which::Growth | Which::Density = arguments.which {
        return figures(arguments, &tools);
    }
    let mut result = Vec::new();
    let mut missed = Vec::new();
    if !matches!(arguments.which, Which::Start | Which::Machines) {
        let effort = Effort {
            rounds: arguments.rounds,
            seconds: arguments.seconds,
            warm: WARM_SECONDS,
        };
        let only = Only {
            case: arguments.case.clone(),
            peers: arguments.peers.clone(),
        };
        let measured = egress::measure(&tools, effort, &only)?;
        missed.extend(rows::missed(&measured, &egress::TARGETS));
        result.extend(measured);
    }
    if !matches!(arguments.which, Which::Egress | Which::Machines) {
        let measured = start::measure(&tools, arguments.starts)?;
        missed.extend(rows::missed(&measured, &start::targets(&measured)));
        result.extend(measured);
    }
    if arguments.which != Which::Egress {
        let measured = machines::measure(arguments.starts, arguments.level.as_deref())?;
        missed.extend(rows::missed(&measured, &machines::targets(&measured)));
        result.extend(measured);
    }
    rows::write(&arguments.json, &result)?;
    rows::print(&result);
    for target in &missed {
        println!("MISSED: {target}");
    }
    Ok(missed.is_empty())
}

/// What Torno costs by itself, without peers.
fn figures(arguments: &Arguments, tools: &Tools) -> Result<bool> {
    let measured = match arguments.which {
        Which::Growth => growth::measure(tools)?,
        Which::Density => density::measure()?,
        Which::Cost | Which::Egress | Which::Start | Which::Machines | Which::All => {
            cost::measure(tools)?
        }
    };
    rows::write(&arguments.json, &measured)?;
    for figure in &measured {
        let value = figure.value.map(|value| format!("{value:.1}"));
        let value = value.unwrap_or_else(|| "-".to_owned());
        let why = figure.invalid.as_deref().unwrap_or_default();
        println!("{:<44} {value:>12} {} {why}", figure.metric, figure.unit);
    }
    let missed: Vec<String> = measured.iter().filter_map(rows::Figure::missed).collect();
    for target in &missed {
        println!("MISSED: {target}");
    }
    Ok(missed.is_empty())
}
