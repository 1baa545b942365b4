// SPDX-License-Identifier: Apache-2.0
//! The steps of each task, in order: read this file to know what CI does.

use crate::build::{self, Built, GUEST_DIGEST, Profile};
use crate::setup::{self, Tools};
use crate::skips::{self, Tally};
use crate::{bans, boundaries, fuzz, shell, tidy};
use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

/// Seconds of mutation for each parser in `test`.
const FUZZ_SMOKE_SECONDS: u64 = 5;

/// The whole workspace each time: with the same features nothing is compiled twice.
const WORKSPACE_TESTS: [&str; 4] = ["test", "--locked", "--workspace", "--no-fail-fast"];

/// Where the stage finds the binaries under test.
const BINARIES: &str = "TORNO_BINARIES";

/// How the stage learns that a run is of one level.
const LEVEL: &str = "TORNO_LEVEL";

/// Under a minute, once built: what to run before a commit.
pub(crate) fn check(root: &Path) -> Result<()> {
    shell::step("format", || format(root))?;
    shell::step("tidy", || tidy::run(root))?;
    shell::step("boundaries", || boundaries::run(root))?;
    shell::step("bans", || bans::run(root))?;
    shell::step("clippy", || clippy(root, None))
}

/// Everything. A step that fails does not hide the ones after it.
pub(crate) fn test(root: &Path) -> Result<()> {
    let committed = skips::committed(root, skips::OF_EVERY_RUN)?;
    let tools = setup::run(root).context("set-up")?;
    let built = build::run(root, Profile::Dev, &tools).context("build")?;
    let mut tally = Tally::default();
    let mut step = |name: &str, action: &dyn Fn() -> Result<()>| {
        let result = shell::step(name, action);
        if let Err(error) = &result {
            eprintln!("── {error:#}");
        }
        tally.step(name, &result);
    };
    step("format", &|| format(root));
    step("tidy", &|| tidy::run(root));
    step("boundaries", &|| boundaries::run(root));
    step("bans", &|| bans::run(root));
    step("clippy", &|| clippy(root, Some(&built)));
    step("fuzz smoke", &|| fuzz::run(root, FUZZ_SMOKE_SECONDS));
    // The tasks' own tests print what a skip looks like, so they are not among those counted.
    step("tests of the tasks", &|| {
        shell::run(shell::cargo(root).args(["test", "--locked", "--quiet", "--package", "xtask"]))
    });
    let mut tests = shell::cargo(root);
    tests
        .args(WORKSPACE_TESTS)
        .args(["--exclude", "xtask", "--lib", "--bins", "--tests"]);
    run_tests(&mut tests, &built, &tools, &mut tally)?;
    let mut docs = shell::cargo(root);
    docs.args(WORKSPACE_TESTS).arg("--doc");
    run_tests(&mut docs, &built, &tools, &mut tally)?;
    tally.finish(&committed, skips::OF_EVERY_RUN)
}

/// A level of isolation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Level {
    Container,
    Gvisor,
    Microvm,
    Vm,
}

impl Level {
    fn name(self) -> &'static str {
        match self {
            Self::Container => "container",
            Self::Gvisor => "gvisor",
            Self::Microvm => "microvm",
            Self::Vm => "vm",
        }
    }
}

/// The end-to-end stories alone; with a level all that are told at each, at that one.
pub(crate) fn e2e(root: &Path, filter: Option<&str>, level: Option<Level>) -> Result<()> {
    let tools = setup::run(root).context("set-up")?;
    let built = build::run(root, Profile::Dev, &tools).context("build")?;
    let mut tally = Tally::default();
    let mut command = stories(root, filter);
    if let Some(level) = level {
        command.env(LEVEL, level.name());
    }
    let began = Instant::now();
    let good = run_tests(&mut command, &built, &tools, &mut tally)?;
    let Some(level) = level else {
        return if good {
            Ok(())
        } else {
            bail!("stories failed")
        };
    };
    let list = format!("stage/skips/{}.txt", level.name());
    // A part of the stories skips a part of the list.
    let mut committed = skips::committed(root, &list)?;
    committed.push_str(&skips::committed(root, skips::OF_EVERY_RUN)?);
    if filter.is_some() {
        committed = tally.part_of(&committed);
    }
    println!("{} in {} s", level.name(), began.elapsed().as_secs());
    tally.finish(&committed, &list)
}

/// The show piece.
pub(crate) fn demo(root: &Path) -> Result<()> {
    stage_program(root, &["torno-demo"])
}

/// One of the stage's programs, against what was just built.
pub(crate) fn stage_program(root: &Path, program: &[&str]) -> Result<()> {
    let tools = setup::run(root).context("set-up")?;
    let built = build::run(root, Profile::Dev, &tools).context("build")?;
    let (name, arguments) = program.split_first().context("no program")?;
    let path = built.directory.join(name);
    if !path.exists() {
        bail!(
            "{} was not built: this task is not part of this version",
            path.display()
        );
    }
    shell::run(surrounded(
        shell::program(path).args(arguments),
        &built,
        &tools,
    ))
}

/// Golden files are written by the tests that compare them.
pub(crate) fn golden(root: &Path) -> Result<()> {
    let test = ["test", "--locked", "--workspace", "--lib", "golden"];
    shell::run(shell::cargo(root).args(test).env("TORNO_GOLDEN", "write"))?;
    shell::run(
        shell::program("git")
            .current_dir(root)
            .args(["diff", "--stat"]),
    )
}

fn format(root: &Path) -> Result<()> {
    shell::run(shell::cargo(root).args(["fmt", "--all", "--check"]))
}

fn clippy(root: &Path, built: Option<&Built>) -> Result<()> {
    let mut clippy = shell::cargo(root);
    clippy.args([
        "clippy",
        "--locked",
        "--workspace",
        "--all-targets",
        "--",
        "-D",
        "warnings",
    ]);
    if let Some(built) = built {
        clippy.env(GUEST_DIGEST, &built.guest);
    }
    shell::run(&mut clippy)
}

fn stories(root: &Path, filter: Option<&str>) -> Command {
    let mut command = shell::cargo(root);
    command
        .args(WORKSPACE_TESTS)
        .args(["--test", "e2e"])
        .args(filter);
    command
}

/// Runs a cargo test command and counts. Output of passing tests is shown, for their skips.
fn run_tests(
    command: &mut Command,
    built: &Built,
    tools: &Tools,
    tally: &mut Tally,
) -> Result<bool> {
    command.args(["--", "--show-output"]);
    let name = shell::shown(command);
    let good = shell::watch(surrounded(command, built, tools), |line| tally.line(line))?;
    if !good {
        tally.step(&name, &Err(anyhow::anyhow!("ended with a failure")));
    }
    Ok(good)
}

pub(crate) fn surrounded<'c>(
    command: &'c mut Command,
    built: &Built,
    tools: &Tools,
) -> &'c mut Command {
    command
        .env("PATH", tools.path())
        .env(BINARIES, &built.directory)
        .env(GUEST_DIGEST, &built.guest)
}
