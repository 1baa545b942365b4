// SPDX-License-Identifier: Apache-2.0
//! `torno-campaign`: the long campaigns against a whole Torno. Each prints its seed first, and ends
//! with `N passed, N failed`.

mod calls;
mod churn;
mod clones;
mod crash;
mod escape;

use anyhow::{Context, Result, bail};
use std::process::ExitCode;

const USAGE: &str = "crash [RANDOM [SEED [ROLE,ROLE]]] | clones COUNT LEVEL | churn [CYCLES [SEED [LEVEL,LEVEL]]] \
    | calls [POINTS [SEED [LEVEL,LEVEL]]] \
    | escape [LEVEL,LEVEL [TEXT]]";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match run(&words) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("torno-campaign: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(words: &[String]) -> Result<bool> {
    let Some((which, rest)) = words.split_first() else {
        bail!(USAGE);
    };
    if which == "escape" {
        let word = |place: usize| rest.get(place).map(String::as_str);
        return escape::run(word(0), word(1));
    }
    if which == escape::INSIDE {
        return escape::inside(rest);
    }
    if let ("clones", [count, level]) = (which.as_str(), rest) {
        return clones::run(count.parse().context("not a number")?, level);
    }
    let number = |text: &String| text.parse().context("not a number");
    let count = rest.first().map(number).transpose()?;
    let seed = rest.get(1).cloned();
    match (which.as_str(), rest.len()) {
        ("crash", 0..=3) => crash::run(count, seed, rest.get(2).map(String::as_str)),
        ("churn", 0..=3) => churn::run(count, seed, rest.get(2).map(String::as_str)),
        ("calls", 0..=3) => calls::run(count, seed, rest.get(2).map(String::as_str)),
        (calls::INSIDE, 3) => calls::inside(rest),
        (churn::INSIDE, 3) => churn::inside(rest),
        _ => bail!(USAGE),
    }
}
