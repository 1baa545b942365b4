// SPDX-License-Identifier: Apache-2.0
//! The demo's table: attempt, what the sandbox saw, what the far end saw, layer and rule.

use crate::attempt::{Attempt, Observation};

const ATTEMPT: usize = 46;
const INSIDE: usize = 30;
const OUTSIDE: usize = 24;

/// A heading, bold where colour is wanted.
#[must_use]
pub fn heading(text: &str, color: bool) -> String {
    if color {
        format!("\x1b[1m{text}\x1b[0m")
    } else {
        text.to_owned()
    }
}

/// The table's head.
#[must_use]
pub fn head() -> String {
    format!(
        "      {:<ATTEMPT$} {:<INSIDE$} {:<OUTSIDE$} layer and rule, or wall",
        "attempt", "the sandbox saw", "the far end saw"
    )
}

/// One row; a problem makes it a failed one.
#[must_use]
pub fn row(number: usize, attempt: &Attempt, seen: &Observation, problem: Option<&str>) -> String {
    let rule = match seen.refusal() {
        Some((_, layer, rule)) => format!("{layer}: {rule}"),
        None => attempt.wall.to_owned(),
    };
    let row = format!(
        "{} {number:>3} {:<ATTEMPT$} {:<INSIDE$} {:<OUTSIDE$} {rule}",
        if problem.is_none() { "ok" } else { "!!" },
        fitted(attempt.name, ATTEMPT),
        fitted(&seen.inside(), INSIDE),
        fitted(&seen.outside(), OUTSIDE),
    );
    match problem {
        None => row,
        Some(problem) => format!("{row}\n       FAILED: {problem}"),
    }
}

/// A text cut to so many characters.
fn fitted(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let cut: String = text.chars().take(width - 1).collect();
    format!("{cut}…")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attempts;

    #[test]
    fn a_refusal_that_the_script_printed_fills_the_row() {
        let attempt = attempts::all()[0];
        let seen = Observation {
            output: b"HTTP/1.1 403 Forbidden\r\n\r\n{\"code\":\"host_not_granted\",\
                \"layer\":\"session\",\"rule\":\"grant.allow\",\"hint\":\"x\"}\n"
                .to_vec(),
            ..Observation::default()
        };
        let row = row(7, attempt, &seen, None);
        assert!(row.starts_with("ok   7"), "{row}");
        assert!(row.contains("host_not_granted"), "{row}");
        assert!(row.ends_with("session: grant.allow"), "{row}");
        assert!(super::row(7, attempt, &seen, Some("x")).contains("FAILED: x"));
    }

    #[test]
    fn long_texts_are_cut() {
        assert_eq!(fitted("abcdef", 4), "abc…");
        assert_eq!(fitted("abc", 4), "abc");
    }
}
