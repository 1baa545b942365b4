// SPDX-License-Identifier: Apache-2.0
//! `cargo xtask`: every task of the project, the same ones that CI calls.
//!
//! Purpose: build, check, test and show Torno with one command each, on a fresh machine.
//! Trust: reads the repository and the machine's own package sources; writes below `target/`.
//! Not here: any code of the product. Start reading at [`lanes`], which names each task's steps.

mod bans;
mod bench;
mod boundaries;
mod build;
mod campaign;
mod debian;
mod failures;
mod fuzz;
mod lanes;
mod packages;
mod setup;
mod shell;
mod skips;
mod smuggle;
mod source;
mod stock;
mod tidy;

use clap::{Parser, Subcommand, ValueEnum};
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Tasks of the Torno project")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Install what is missing, build, and watch a hostile program fail (the project's show piece).
    Demo,
    /// Everything CI runs: set-up, build, lints, all tests, e2e, boundaries, bans, fuzz smoke.
    Test,
    /// Under a minute: format, tidy, boundaries, bans, clippy.
    Check,
    /// The shape of the code: sizes, names, headers, lints, words.
    Tidy,
    /// Who may link, expose, spawn and be unsafe.
    Boundaries,
    /// Licences, banned crates and sources.
    Bans,
    /// The end-to-end stories alone.
    E2e {
        /// Only stories whose name contains this.
        filter: Option<String>,
        /// All stories that are told at each level, at this one; their skips must be those of
        /// `stage/skips`.
        #[arg(long, value_enum)]
        level: Option<lanes::Level>,
    },
    /// Mutate the committed inputs of every hostile parser.
    Fuzz {
        /// Seconds for each target.
        #[arg(default_value_t = fuzz::SECONDS_DEFAULT)]
        seconds: u64,
    },
    /// Long campaigns against a running Torno.
    Campaign {
        #[command(subcommand)]
        which: Campaign,
    },
    /// Benchmarks beside peers, release build.
    Bench {
        /// Which one; both when absent.
        #[arg(value_enum)]
        which: Option<Bench>,
        /// Where the rows go.
        #[arg(long)]
        json: PathBuf,
    },
    /// Write the golden files anew from what the code does now.
    Golden,
    /// Install what is missing (Debian, root), or print the command that does.
    Setup,
    /// The static guest, then tornod with its digest, torno and the stage, side by side.
    Build {
        /// The release profile.
        #[arg(long)]
        release: bool,
    },
}

#[derive(Subcommand)]
enum Campaign {
    /// kill -9 of each role at named steps and random points.
    Crash {
        /// How many random points.
        #[arg(long, default_value_t = 200)]
        random: u32,
        /// Draws the random points; a fresh one, printed, when absent.
        #[arg(long)]
        seed: Option<String>,
        /// Only these, with commas: `sandbox,keeper`.
        #[arg(long)]
        roles: Option<String>,
    },
    /// Sessions made, used and ended in every way, many at a time; nothing is left (root).
    Churn {
        /// How many.
        #[arg(long, default_value_t = 2_000)]
        cycles: u32,
        /// Draws levels and endings; a fresh one, printed, when absent.
        #[arg(long)]
        seed: Option<String>,
        /// Levels, with commas; all that work here when absent.
        #[arg(long)]
        levels: Option<String>,
    },
    /// The kernel refuses the n-th system call of a kind while a session begins, is kept, pauses,
    /// goes on or ends; nothing is left (root, strace).
    Calls {
        /// How many failures.
        #[arg(long, default_value_t = 200)]
        points: u32,
        /// Draws them; a fresh one, printed, when absent.
        #[arg(long)]
        seed: Option<String>,
        /// Levels, with commas; `container` when absent: gVisor traces its own processes.
        #[arg(long)]
        levels: Option<String>,
    },
    /// Machines from one template: nothing that has to be unique is the same in two (root, QEMU).
    Clones {
        /// How many.
        #[arg(long, default_value_t = 50)]
        count: u32,
        /// `microvm` or `vm`.
        #[arg(long, default_value = "microvm")]
        level: String,
    },
    /// `decide` against its slow reference, and seeded faults of it.
    Decide {
        /// How many random pairs of world and act.
        #[arg(long, default_value_t = 1_000_000)]
        pairs: u64,
        /// The first pair's seed; from the clock, printed, when absent.
        #[arg(long)]
        seed: Option<u64>,
    },
    /// A stock Debian 12, booted by emulation: both levels as root and as a user (root, QEMU).
    Stock,
    /// The scrubber of answers against its slow reference, and seeded faults of that.
    Scrub {
        /// How many random texts.
        #[arg(long, default_value_t = 10_000_000)]
        cases: u64,
        /// The first seed; from the clock, printed, when absent.
        #[arg(long)]
        seed: Option<u64>,
    },
    /// Attempts to leave a sandbox that public lists name, with their walls off and at each level.
    Escape {
        /// Levels by name, with commas; all when absent.
        #[arg(long)]
        level: Option<String>,
        /// Only those whose name contains this.
        #[arg(long)]
        only: Option<String>,
    },
    /// Payloads that two readers could read in two ways, to real servers behind the pipeline.
    Smuggle {
        /// Far ends by name, with commas; all when absent.
        #[arg(long)]
        origins: Option<String>,
        /// How many payloads; each is sent in four splits.
        #[arg(long, default_value_t = 1_200)]
        payloads: usize,
        /// Draws the combinations.
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Where the rows go, a JSON object for each far end.
        #[arg(long)]
        json: Option<PathBuf>,
    },
}

#[derive(Clone, Copy, ValueEnum)]
enum Bench {
    /// Requests, latency and bytes through the gate.
    Egress,
    /// Start of a sandbox.
    Start,
    /// Start of a machine, and a command in one that lives.
    Machines,
    /// Memory of what is idle, and what requests leave behind.
    Cost,
    /// How cost grows with rules, sessions and connections.
    Growth,
    /// How many sessions of each level this machine holds, and what each costs.
    Density,
}

impl Bench {
    /// What the benchmarks' program calls it.
    fn name(which: Option<Self>) -> &'static str {
        match which {
            None => "all",
            Some(Self::Egress) => "egress",
            Some(Self::Start) => "start",
            Some(Self::Machines) => "machines",
            Some(Self::Cost) => "cost",
            Some(Self::Growth) => "growth",
            Some(Self::Density) => "density",
        }
    }
}

fn main() -> ExitCode {
    match run(&Arguments::parse().task) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(task: &Task) -> anyhow::Result<()> {
    let root = packages::root()?;
    match task {
        Task::Demo => lanes::demo(&root),
        Task::Test => lanes::test(&root),
        Task::Check => lanes::check(&root),
        Task::Tidy => tidy::run(&root),
        Task::Boundaries => boundaries::run(&root),
        Task::Bans => bans::run(&root),
        Task::E2e { filter, level } => lanes::e2e(&root, filter.as_deref(), *level),
        Task::Fuzz { seconds } => fuzz::run(&root, *seconds),
        Task::Campaign { which } => campaign(&root, which),
        Task::Bench { which, json } => bench::run(&root, Bench::name(*which), json),
        Task::Golden => lanes::golden(&root),
        Task::Setup => setup::run(&root).map(|_| ()),
        Task::Build { release } => build(&root, *release),
    }
}

fn campaign(root: &std::path::Path, which: &Campaign) -> anyhow::Result<()> {
    match which {
        Campaign::Crash {
            random,
            seed,
            roles,
        } => campaign::crash(root, *random, seed.as_deref(), roles.as_deref()),
        Campaign::Churn {
            cycles,
            seed,
            levels,
        } => campaign::plenty(root, ("churn", *cycles), seed.as_deref(), levels.as_deref()),
        Campaign::Calls {
            points,
            seed,
            levels,
        } => campaign::plenty(root, ("calls", *points), seed.as_deref(), levels.as_deref()),
        Campaign::Clones { count, level } => campaign::clones(root, *count, level),
        Campaign::Decide { pairs, seed } => campaign::decide(root, *pairs, *seed),
        Campaign::Escape { level, only } => {
            campaign::escape(root, level.as_deref(), only.as_deref())
        }
        Campaign::Stock => stock::run(root),
        Campaign::Scrub { cases, seed } => campaign::scrub(root, *cases, *seed),
        Campaign::Smuggle {
            origins,
            payloads,
            seed,
            json,
        } => smuggle::run(
            root,
            &smuggle::Matrix {
                origins: origins.as_deref(),
                payloads: *payloads,
                seed: *seed,
                json: json.as_deref(),
            },
        ),
    }
}

fn build(root: &std::path::Path, release: bool) -> anyhow::Result<()> {
    let tools = setup::run(root)?;
    build::run(root, build::Profile::new(release), &tools).map(|_| ())
}
