// SPDX-License-Identifier: Apache-2.0
//! `torno-campaign crash [RANDOM]`: kill -9 of each role at each named step three times, then at so
//! many random points. Ends with `N passed, N failed`.

use anyhow::{Context, Result, bail};
use std::process::ExitCode;
use std::time::Duration;
use torno_stage::crash::{Blow, ROLES, Step, strike};
use torno_stage::daemon::Daemon;
use torno_stage::world::{World, random};

/// Random points, when no number is given.
const RANDOM_DEFAULT: u32 = 200;
/// LIMIT: a blow falls within this of its step's beginning.
const AFTER_MS_MAX: u64 = 400;
/// One daemon serves so many blows; then a fresh one, so that a campaign stays fast to read.
const BLOWS_PER_DAEMON: usize = 25;

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("torno-campaign: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<bool> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let count = match words.as_slice() {
        ["crash"] => RANDOM_DEFAULT,
        ["crash", count] => count.parse().context("not a number")?,
        _ => bail!("crash [RANDOM]"),
    };
    let mut blows = Vec::new();
    for role in ROLES {
        for step in Step::ALL {
            for after in [0, 20, 120] {
                let after = Duration::from_millis(after);
                blows.push(Blow { role, step, after });
            }
        }
    }
    for _ in 0..count {
        blows.push(random_blow()?);
    }
    let world = World::start()?;
    let (mut passed, mut failed) = (0, 0);
    for part in blows.chunks(BLOWS_PER_DAEMON) {
        let mut daemon = Daemon::start(&world)?;
        for blow in part {
            match strike(&mut daemon, &world, "container", *blow) {
                Ok(()) => passed += 1,
                Err(error) => {
                    failed += 1;
                    println!("failed: {blow:?}: {error:#}");
                    daemon = Daemon::start(&world)?;
                }
            }
        }
    }
    println!("{passed} passed, {failed} failed");
    Ok(failed == 0)
}

fn random_blow() -> Result<Blow> {
    let text = random()?;
    let digits = text.get(..12).context("too few random digits")?;
    let number = u64::from_str_radix(digits, 16).context("not hex")?;
    let pick = |length: usize, number: u64| {
        let length = u64::try_from(length).unwrap_or(1);
        usize::try_from(number % length).unwrap_or_default()
    };
    Ok(Blow {
        role: ROLES
            .get(pick(ROLES.len(), number))
            .copied()
            .context("no role")?,
        step: Step::ALL
            .get(pick(Step::ALL.len(), number >> 8))
            .copied()
            .context("no step")?,
        after: Duration::from_millis((number >> 16) % AFTER_MS_MAX),
    })
}
