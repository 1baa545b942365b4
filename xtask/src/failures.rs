// SPDX-License-Identifier: Apache-2.0
//! What failed tests said, kept from the middle of a long run for its end, where people look.

use std::collections::BTreeMap;

/// LIMIT: lines kept of one test: the last ones, where the assertion is.
const LINES_MAX: usize = 60;

/// How the trace of an assertion begins, in which only the assertion's own place is of interest.
const TRACE: &str = "stack backtrace:";

/// What a runner told of its failed tests so far.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Failures {
    said: BTreeMap<String, Vec<String>>,
    /// Within a runner's section of failures, whose successes come before it.
    is_within: bool,
    /// Whose lines come.
    now: Option<String>,
}

impl Failures {
    /// Takes a line of a test runner's output.
    pub(crate) fn line(&mut self, line: &str) {
        if line == "failures:" {
            self.is_within = true;
            self.now = None;
        } else if line == "successes:" || line.starts_with("test result: ") {
            self.is_within = false;
            self.now = None;
        } else if line == TRACE {
            self.now = None;
        } else if let (true, Some(name)) = (self.is_within, header(line)) {
            self.now = Some(name.to_owned());
        } else if let Some(name) = &self.now {
            let lines = self.said.entry(name.clone()).or_default();
            lines.push(line.to_owned());
            if lines.len() > LINES_MAX {
                lines.remove(0);
            }
        }
    }

    /// The last lines of a failed test.
    pub(crate) fn of(&self, name: &str) -> &[String] {
        self.said.get(name).map_or(&[], Vec::as_slice)
    }
}

/// The test whose output comes next.
fn header(line: &str) -> Option<&str> {
    line.strip_prefix("---- ")?.strip_suffix(" stdout ----")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_of_failed_tests_are_kept_and_of_no_others() {
        let mut failures = Failures::default();
        let run = [
            "successes:",
            "---- a::good stdout ----",
            "fine",
            "failures:",
            "",
            "---- a::bad stdout ----",
            "first",
        ];
        run.iter().for_each(|line| failures.line(line));
        (0..LINES_MAX).for_each(|number| failures.line(&number.to_string()));
        let rest = [
            "failures:",
            "    a::bad",
            "test result: FAILED. 1 passed; 1 failed",
        ];
        rest.iter().for_each(|line| failures.line(line));
        failures.line("of the next runner");
        let last = LINES_MAX - 1;
        assert!(failures.of("a::good").is_empty());
        assert_eq!(failures.of("a::bad").len(), LINES_MAX);
        assert_eq!(failures.of("a::bad").last(), Some(&last.to_string()));
    }
}
