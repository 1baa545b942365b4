// SPDX-License-Identifier: Apache-2.0
//! At which levels stories are told: at those of every run, or at the one that `cargo xtask e2e
//! --level` names; which stories are left out there, and how much longer everything takes.

use std::sync::OnceLock;
use std::time::Duration;

/// The variable through which a run names its one level.
pub const VARIABLE: &str = "TORNO_LEVEL";

/// The levels of every run.
const OF_EVERY_RUN: [&str; 2] = ["container", "gvisor"];

/// The stories that can't be told at a level, with the reason of each: what the stage prints after
/// `SKIP: `.
const LEFT_OUT: [(&str, &str); 4] = [
    ("container", include_str!("../../skips/container.txt")),
    ("gvisor", include_str!("../../skips/gvisor.txt")),
    ("microvm", include_str!("../../skips/microvm.txt")),
    ("vm", include_str!("../../skips/vm.txt")),
];

/// What an emulated processor takes longer, on a machine that is busy. LIMIT: a story that hangs
/// holds up its run for so long.
const EMULATED: u32 = 10;

/// The one level of this run, if one was named. One that does not exist works nowhere, and is in no
/// list of skips.
#[must_use]
pub fn named() -> Option<&'static str> {
    static NAMED: OnceLock<Option<&'static str>> = OnceLock::new();
    *NAMED.get_or_init(|| {
        let wanted = std::env::var(VARIABLE).ok()?;
        let known = LEFT_OUT.iter().find(|(level, _)| *level == wanted);
        Some(known.map_or("unknown", |(level, _)| level))
    })
}

/// The levels of this run.
#[must_use]
pub fn told() -> &'static [&'static str] {
    static ONE: OnceLock<[&str; 1]> = OnceLock::new();
    match named() {
        Some(level) => ONE.get_or_init(|| [level]),
        None => &OF_EVERY_RUN,
    }
}

/// A machine with a kernel of its own.
#[must_use]
pub fn is_machine(level: &str) -> bool {
    matches!(level, "microvm" | "vm")
}

/// Why a story is left out at a level.
#[must_use]
pub fn left_out(story: &str, level: &str) -> Option<&'static str> {
    let (_, list) = LEFT_OUT.iter().find(|(known, _)| *known == level)?;
    let reason = |line: &'static str| {
        let rest = line.strip_prefix(story)?.strip_prefix(" at ")?;
        rest.strip_prefix(level)?.strip_prefix(": ")
    };
    list.lines().find_map(reason)
}

/// How long to wait for what takes so long on the host's own processor.
#[must_use]
pub fn patience(wait: Duration) -> Duration {
    match named() {
        Some(level) if is_machine(level) => wait * EMULATED,
        Some(_) | None => wait,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_of_a_list_names_a_story_its_level_and_a_reason() {
        for (level, list) in LEFT_OUT {
            for line in list.lines().filter(|line| !line.starts_with('#')) {
                let (story, reason) = line.split_once(&format!(" at {level}: ")).unwrap();
                assert!(!story.is_empty() && reason.len() > 10, "{line}");
                assert_eq!(left_out(story, level), Some(reason));
            }
            assert_eq!(left_out("no such story", level), None);
        }
    }
}
