// SPDX-License-Identifier: Apache-2.0
//! The long campaigns: each prints its seed first and its counts last. What they showed is kept in
//! `docs/campaigns/`.

use crate::{lanes, shell};
use anyhow::Result;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::path::Path;

/// kill -9 of each role at named steps, then at random points.
pub(crate) fn crash(
    root: &Path,
    random: u32,
    seed: Option<&str>,
    roles: Option<&str>,
) -> Result<()> {
    let random = random.to_string();
    let seed = drawn_or(seed);
    let mut program = vec!["torno-campaign", "crash", &random, &seed];
    program.extend(roles);
    lanes::stage_program(root, &program)
}

/// Sessions in plenty: made, used and ended many at a time (`churn`), or while the kernel refuses
/// calls (`calls`).
pub(crate) fn plenty(
    root: &Path,
    (which, count): (&str, u32),
    seed: Option<&str>,
    levels: Option<&str>,
) -> Result<()> {
    let count = count.to_string();
    let seed = drawn_or(seed);
    let mut program = vec!["torno-campaign", which, &count, &seed];
    program.extend(levels);
    lanes::stage_program(root, &program)
}

fn drawn_or(seed: Option<&str>) -> String {
    seed.map_or_else(
        || RandomState::new().build_hasher().finish().to_string(),
        str::to_owned,
    )
}

/// Attempts to leave that public lists name, at each level.
pub(crate) fn escape(root: &Path, levels: Option<&str>, only: Option<&str>) -> Result<()> {
    let levels = levels.unwrap_or("container,gvisor,microvm,vm");
    lanes::stage_program(
        root,
        &["torno-campaign", "escape", levels, only.unwrap_or_default()],
    )
}

/// So many machines from one template, compared.
pub(crate) fn clones(root: &Path, count: u32, level: &str) -> Result<()> {
    let count = count.to_string();
    lanes::stage_program(root, &["torno-campaign", "clones", &count, level])
}

/// `decide` against its slow reference on so many random pairs.
pub(crate) fn decide(root: &Path, pairs: u64, seed: Option<u64>) -> Result<()> {
    // Printed, so that a run can be told again.
    let seed = seed.unwrap_or_else(|| RandomState::new().build_hasher().finish() >> 32);
    println!("seed {seed}, {pairs} pairs");
    let test = ["test", "--locked", "--workspace", "--test", "decision"];
    let those = ["comparison::", "--nocapture", "--test-threads", "1"];
    shell::run(
        shell::cargo(root)
            .args(test)
            .arg("--")
            .args(those)
            .env("TORNO_PAIRS", pairs.to_string())
            .env("TORNO_SEED", seed.to_string()),
    )
}

/// The scrubber against its slow reference on so many random texts, in random pieces.
pub(crate) fn scrub(root: &Path, cases: u64, seed: Option<u64>) -> Result<()> {
    let seed = seed.unwrap_or_else(|| RandomState::new().build_hasher().finish() >> 32);
    println!("seed {seed}, {cases} cases");
    let test = ["test", "--locked", "--workspace", "--lib"];
    let those = [
        "scrub::tests::campaign::",
        "--nocapture",
        "--test-threads",
        "1",
    ];
    shell::run(
        shell::cargo(root)
            .args(test)
            .arg("--")
            .args(those)
            .env("TORNO_CASES", cases.to_string())
            .env("TORNO_SEED", seed.to_string()),
    )
}
