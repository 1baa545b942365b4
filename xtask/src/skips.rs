// SPDX-License-Identifier: Apache-2.0
//! Counting what test runners print, and holding the list of skips to the committed one: a test
//! that can't run says `SKIP: name: reason`, and nothing is left out in silence.

use crate::failures::Failures;
use anyhow::{Context, Result, bail};
use std::collections::BTreeSet;
use std::path::Path;

/// The committed list of a run without a level; those of levels lie in `stage/skips`.
pub(crate) const OF_EVERY_RUN: &str = "docs/skips.txt";

/// What has been counted so far.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    passed: u64,
    failed: u64,
    /// Stories that were told, once for each level and account.
    told: u64,
    skips: BTreeSet<String>,
    failures: Vec<String>,
    said: Failures,
}

impl Tally {
    /// Takes a line of a test runner's output.
    pub(crate) fn line(&mut self, line: &str) {
        self.said.line(line);
        if line.starts_with("TOLD: ") {
            self.told += 1;
        } else if let Some(skip) = line.trim().strip_prefix("SKIP: ") {
            self.skips.insert(skip.trim().to_owned());
        } else if let Some(counts) = line.strip_prefix("test result: ") {
            self.passed += number_before(counts, " passed");
            self.failed += number_before(counts, " failed");
            let ignored = number_before(counts, " ignored");
            if ignored > 0 {
                self.skips.insert(format!(
                    "{ignored} ignored tests: an #[ignore] names no reason"
                ));
            }
        } else if let Some(name) = line
            .strip_prefix("test ")
            .and_then(|l| l.strip_suffix(" ... FAILED"))
        {
            self.failures.push(name.to_owned());
        }
    }

    /// Counts a step that is no test runner's.
    pub(crate) fn step(&mut self, name: &str, result: &Result<()>) {
        match result {
            Ok(()) => self.passed += 1,
            Err(error) => {
                self.failed += 1;
                self.failures.push(format!("{name}: {error:#}"));
            }
        }
    }

    /// The lines of a list that were skipped: what a part of the run skips is a part of the list.
    pub(crate) fn part_of(&self, committed: &str) -> String {
        let listed = lines(committed);
        let skipped: Vec<String> = listed.intersection(&self.skips).cloned().collect();
        skipped.join("\n")
    }

    /// Prints the end of a run; fails on failures and on a list of skips other than the committed.
    pub(crate) fn finish(mut self, committed: &str, list: &str) -> Result<()> {
        let wanted = lines(committed);
        println!("skips: {}", self.skips.len());
        for skip in &self.skips {
            println!("  SKIP: {skip}");
        }
        for skip in self.skips.difference(&wanted) {
            self.failures
                .push(format!("skipped, and not in {list}: {skip}"));
        }
        for skip in wanted.difference(&self.skips) {
            self.failures
                .push(format!("in {list}, and not skipped: {skip}"));
        }
        for failure in &self.failures {
            println!("failed: {failure}");
            for line in self.said.of(failure) {
                println!("    {line}");
            }
        }
        let (passed, skipped) = (self.passed, self.skips.len());
        let failed = self
            .failed
            .max(u64::try_from(self.failures.len()).unwrap_or(u64::MAX));
        if self.told > 0 {
            println!("{} stories told", self.told);
        }
        println!("{passed} passed, {failed} failed, {skipped} skipped");
        if failed == 0 {
            Ok(())
        } else {
            bail!("{failed} failed")
        }
    }
}

/// Reads a committed list.
pub(crate) fn committed(root: &Path, list: &str) -> Result<String> {
    std::fs::read_to_string(root.join(list)).with_context(|| format!("cannot read {list}"))
}

/// The skips of a list.
fn lines(list: &str) -> BTreeSet<String> {
    let lines = list.lines().map(str::trim);
    let skips = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    skips.map(str::to_owned).collect()
}

fn number_before(text: &str, word: &str) -> u64 {
    text.split_once(word)
        .and_then(|(head, _)| head.rsplit([' ', ';']).next())
        .and_then(|number| number.parse().ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(lines: &[&str]) -> Tally {
        let mut tally = Tally::default();
        lines.iter().for_each(|line| tally.line(line));
        tally
    }

    #[test]
    fn runs_are_added_up() {
        let tally = tally(&[
            "test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out",
            "test a::b ... FAILED",
            "test result: FAILED. 10 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out",
        ]);
        assert_eq!((tally.passed, tally.failed), (13, 1));
        assert_eq!(tally.failures, ["a::b"]);
        assert!(tally.finish("", "list").is_err());
    }

    #[test]
    fn the_list_of_skips_must_be_the_committed_one() {
        let skipping = || tally(&["SKIP: gvisor: no runsc"]);
        assert!(
            skipping()
                .finish("# why\ngvisor: no runsc\n", "list")
                .is_ok()
        );
        assert!(skipping().finish("", "list").is_err());
        assert!(tally(&[]).finish("gvisor: no runsc\n", "list").is_err());
    }

    #[test]
    fn a_part_of_a_run_skips_nothing_but_a_part_of_the_list() {
        let list = "# why\none at vm: slow\ntwo at vm: slow\n";
        let part = tally(&["SKIP: two at vm: slow"]);
        let wanted = part.part_of(list);
        assert!(part.finish(&wanted, "list").is_ok());
        let other = tally(&["SKIP: three at vm: slow"]);
        let wanted = other.part_of(list);
        assert!(other.finish(&wanted, "list").is_err());
    }

    #[test]
    fn an_ignored_test_is_a_skip() {
        let ignored = "test result: ok. 3 passed; 0 failed; 2 ignored; 0 measured; 0 filtered out";
        assert!(tally(&[ignored]).finish("", "list").is_err());
    }
}
