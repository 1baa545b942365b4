// SPDX-License-Identifier: Apache-2.0
//! Words that must not stand in the code: notes to self, ritual safety phrases, and the glossary's
//! forbidden synonyms.

use super::Finding;
use crate::source::{Source, is_word};

// Each in two parts, so that this file passes its own check.
const NOTES: [&str; 5] = [
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("XX", "X"),
    concat!("HA", "CK"),
    concat!("for", " now"),
];
const RITUAL: [&str; 7] = [
    "valid parameters",
    "safe because we call",
    "assumed to be valid",
    "ffi call",
    "this is safe",
    "trivially safe",
    "checked above",
];

/// Notes and rituals in one file.
pub(super) fn check(source: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut in_safety = false;
    for (i, line) in source.text.lines().enumerate() {
        let place = source.path.display().to_string();
        for note in NOTES {
            if contains_word(line, note) {
                let what = format!("line {}: `{note}`: finish it, or open an issue", i + 1);
                findings.push(Finding {
                    rule: "note",
                    place: place.clone(),
                    what,
                });
            }
        }
        let comment = line.trim_start().starts_with("//");
        in_safety = comment && (in_safety || line.contains("// SAFETY:"));
        let lower = line.to_lowercase();
        if let Some(phrase) = RITUAL.iter().find(|p| in_safety && lower.contains(**p)) {
            let what = format!(
                "line {}: `{phrase}` says nothing; name the precondition and why it holds",
                i + 1
            );
            findings.push(Finding {
                rule: "safety",
                place,
                what,
            });
        }
    }
    findings
}

/// The forbidden synonyms of a glossary: the words in the column whose head begins with `never`.
pub(super) fn forbidden(glossary: &str) -> Vec<String> {
    let mut column = None;
    let mut words = Vec::new();
    for line in glossary.lines() {
        if !line.starts_with('|') {
            column = None;
            continue;
        }
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let head = cells
            .iter()
            .position(|c| c.to_lowercase().starts_with("never"));
        match (head, column) {
            (Some(at), None) => column = Some(at),
            (_, Some(at)) => {
                let cell = cells.get(at).copied().unwrap_or_default();
                words.extend(
                    cell.split([',', ';'])
                        .map(|word| word.trim().trim_matches('`').to_lowercase())
                        .filter(|word| word.bytes().any(is_word)),
                );
            }
            (None, None) => {}
        }
    }
    words
}

/// Forbidden synonyms in one file's documentation comments.
pub(super) fn check_glossary(source: &Source, forbidden: &[String]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (i, line) in source.text.lines().enumerate() {
        let line = line.trim_start();
        if !line.starts_with("///") && !line.starts_with("//!") {
            continue;
        }
        // What stands in backticks is a name of somebody else's.
        let prose: String = line.split('`').step_by(2).collect::<Vec<_>>().join(" ");
        let prose = prose.to_lowercase();
        for word in forbidden.iter().filter(|word| contains_word(&prose, word)) {
            findings.push(Finding {
                rule: "glossary",
                place: source.path.display().to_string(),
                what: format!(
                    "line {}: `{word}` has another word in docs/glossary.md",
                    i + 1
                ),
            });
        }
    }
    findings
}

fn contains_word(text: &str, word: &str) -> bool {
    text.match_indices(word).any(|(at, _)| {
        let before = text.as_bytes().get(at.wrapping_sub(1));
        let after = text.as_bytes().get(at + word.len());
        !before.is_some_and(|b| is_word(*b)) && !after.is_some_and(|b| is_word(*b))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn source(text: &str) -> Source {
        Source::new(Path::new("crates/x/src/x.rs"), text.to_owned())
    }

    #[test]
    fn notes_and_ritual_safety_are_seen() {
        let note = format!("// {}: later\n", NOTES[0]);
        assert_eq!(check(&source(&note)).len(), 1);
        let ritual = "// SAFETY: the call\n// has valid parameters.\nunsafe { f() }\n";
        assert_eq!(check(&source(ritual)).len(), 1);
        let real = "// SAFETY: `fd` is open: this struct owns it.\nunsafe { f() }\n";
        assert!(check(&source(real)).is_empty());
    }

    #[test]
    fn synonyms_come_from_the_never_column_and_count_in_prose_only() {
        let glossary =
            "| word | meaning | never |\n|---|---|---|\n| sandbox | x | jail, `cell` |\n";
        let words = forbidden(glossary);
        assert_eq!(words, ["jail", "cell"]);
        let bad = source("/// Makes the jail.\nfn f() {}\n");
        assert_eq!(check_glossary(&bad, &words).len(), 1);
        let good = source("/// Runs `jail` and excellent things.\nlet jail = 1;\n");
        assert!(check_glossary(&good, &words).is_empty());
    }
}
