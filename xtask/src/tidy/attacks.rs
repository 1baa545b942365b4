// SPDX-License-Identifier: Apache-2.0
//! docs/attacks.md against the `// ATTACK: n` marks: every marked test stands in the row of its
//! case, every row names tests that exist, and the count in its head is true.
//!
//! It relies on the shape that `cargo fmt` gives: an item ends at a line with its own indentation.

use super::Finding;
use crate::source::Source;
use std::collections::{BTreeMap, BTreeSet};

const DOCUMENT: &str = "docs/attacks.md";
const MARK: &str = "ATTACK: ";
const NONE: &str = "**not yet**";
/// Cases below this heading are beyond the scope that is counted.
const FURTHER: &str = "## Further cases";

/// A test, by the crate it is in and its name.
type Test = (String, String);

/// Compares the document with every mark.
pub(super) fn check(document: &str, sources: &[Source]) -> Vec<Finding> {
    let rows = rows(document);
    let known: BTreeSet<Test> = sources.iter().flat_map(tests_of).collect();
    let mut marked: BTreeMap<String, BTreeSet<Test>> = BTreeMap::new();
    let mut findings = Vec::new();
    for source in sources {
        for (line, number, test) in marks(source) {
            if rows.contains_key(&number) {
                marked.entry(number).or_default().extend(test);
                continue;
            }
            findings.push(Finding {
                rule: "attack",
                place: source.path.display().to_string(),
                what: format!("line {line}: case {number} has no row in {DOCUMENT}"),
            });
        }
    }
    let of_row = |what: String| Finding {
        rule: "attack",
        place: DOCUMENT.to_owned(),
        what,
    };
    for (number, row) in &rows {
        let marked = marked.remove(number).unwrap_or_default();
        for (place, name) in marked.difference(&row.tests) {
            findings.push(of_row(format!(
                "{number}: add {place}: `{name}`, which is marked"
            )));
        }
        for (place, name) in row.tests.difference(&known) {
            findings.push(of_row(format!("{number}: {place} has no test `{name}`")));
        }
        if row.tests.is_empty() != row.says_none {
            findings.push(of_row(format!("{number}: either tests or `{NONE}`")));
        }
    }
    let head = head(&rows);
    if !document.contains(&head) {
        findings.push(of_row(format!("its head must say: {head}")));
    }
    findings
}

/// One case's row.
#[derive(Debug, Default)]
struct Row {
    tests: BTreeSet<Test>,
    says_none: bool,
    counts: bool,
}

/// Every row: `| **number** title | … | tests |`.
fn rows(document: &str) -> BTreeMap<String, Row> {
    let mut rows = BTreeMap::new();
    let mut counts = true;
    for line in document.lines() {
        counts = counts && !line.starts_with(FURTHER);
        let Some((number, rest)) = line.strip_prefix("| **").and_then(|r| r.split_once("**"))
        else {
            continue;
        };
        let cell = rest.trim_end().trim_end_matches('|').rsplit('|').next();
        let cell = cell.unwrap_or_default();
        let tests = cell.split("<br>").filter_map(|one| {
            let (place, name) = one.trim().split_once(": `")?;
            Some((place.to_owned(), name.trim_end_matches('`').to_owned()))
        });
        let row = Row {
            tests: tests.collect(),
            says_none: cell.contains(NONE),
            counts,
        };
        rows.insert(number.to_owned(), row);
    }
    rows
}

/// The sentence that counts.
fn head(rows: &BTreeMap<String, Row>) -> String {
    let scope = rows.iter().filter(|(_, row)| row.counts);
    let (with, without): (Vec<_>, Vec<_>) = scope.partition(|(_, row)| !row.tests.is_empty());
    let all = with.len() + without.len();
    if without.is_empty() {
        return format!("Each of the {all} cases in scope has at least one test.");
    }
    let names: Vec<&str> = without.iter().map(|(number, _)| number.as_str()).collect();
    format!(
        "Of the {all} cases in scope, {} have at least one test and {} have none: {}.",
        with.len(),
        names.len(),
        names.join(", ")
    )
}

/// Every mark: its line, a case, and the tests it stands for. A mark in product code stands for
/// none; one in a table, for the tests that use the table.
fn marks(source: &Source) -> Vec<(usize, String, Vec<Test>)> {
    let lines: Vec<&str> = source.text.lines().collect();
    let items = items(&lines);
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let Some((before, numbers)) = line.split_once(MARK) else {
            continue;
        };
        if !before.trim_start().starts_with("//") {
            continue;
        }
        // Around the mark, or else what follows it.
        let around = items
            .iter()
            .rev()
            .find(|item| item.first <= at && at <= item.last);
        let item = around.or_else(|| items.iter().find(|item| item.first > at));
        let place = package(source);
        let named = |item: &Item| (place.clone(), item.name.clone());
        let tests: Vec<Test> = match item {
            Some(item) if item.is_test => vec![named(item)],
            Some(item) if item.is_table => items
                .iter()
                .filter(|user| user.is_test && uses(&lines, user, &item.name))
                .map(named)
                .collect(),
            Some(_) | None => Vec::new(),
        };
        for number in numbers
            .split(", ")
            .map(|n| n.chars().take(3).collect::<String>())
        {
            if number.len() == 3 && number.bytes().all(|b| b.is_ascii_digit()) {
                found.push((at + 1, number, tests.clone()));
            }
        }
    }
    found
}

/// A function or a table.
#[derive(Debug)]
struct Item {
    name: String,
    first: usize,
    last: usize,
    is_test: bool,
    is_table: bool,
}

fn items(lines: &[&str]) -> Vec<Item> {
    let mut items = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let text = line.trim_start();
        let indent = line.len() - text.len();
        let text = text
            .trim_start_matches("pub(crate) ")
            .trim_start_matches("pub(super) ");
        let text = text.trim_start_matches("pub ").trim_start_matches("async ");
        let (rest, is_table) = match (text.strip_prefix("fn "), text.strip_prefix("const ")) {
            (Some(rest), _) => (rest, false),
            (None, Some(rest)) => (rest.trim_start_matches("fn "), !rest.starts_with("fn ")),
            (None, None) => continue,
        };
        let name: String = rest
            .chars()
            .take_while(|c| c.is_alphanumeric() || *c == '_')
            .collect();
        let ends = |end: &str| {
            let closing = ["}", "];", "};", ");"].contains(&end.trim_start());
            let closed = closing && end.len() == indent + end.trim_start().len();
            closed || (is_table && (end.ends_with("\";") || end.ends_with("\"#;")))
        };
        let one_line = line.ends_with(';') || (line.ends_with('}') && line.contains('{'));
        let length = if one_line {
            0
        } else {
            lines.iter().skip(at).position(|end| ends(end)).unwrap_or(0)
        };
        items.push(Item {
            name,
            first: at,
            last: at + length,
            is_test: !is_table && is_test(lines, at),
            is_table,
        });
    }
    items
}

/// Whether attributes above say that it is a test.
fn is_test(lines: &[&str], at: usize) -> bool {
    let above = lines.iter().take(at).rev().map(|line| line.trim());
    above
        .take_while(|line| line.starts_with("#[") || line.starts_with("//"))
        .any(|line| line.starts_with("#[test]") || line.starts_with("#[tokio::test"))
}

fn uses(lines: &[&str], item: &Item, name: &str) -> bool {
    let body = lines.iter().take(item.last + 1).skip(item.first);
    body.flat_map(|line| line.split(|c: char| !c.is_ascii_alphanumeric() && c != '_'))
        .any(|word| word == name)
}

/// Every test of a file.
fn tests_of(source: &Source) -> Vec<Test> {
    let lines: Vec<&str> = source.text.lines().collect();
    let items = items(&lines).into_iter().filter(|item| item.is_test);
    items.map(|item| (package(source), item.name)).collect()
}

/// The crate of a file, as the document spells it.
fn package(source: &Source) -> String {
    let parts: Vec<_> = source.path.iter().filter_map(|p| p.to_str()).collect();
    match parts.as_slice() {
        ["crates", name, ..] | [name, ..] => (*name).to_owned(),
        [] => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    // In two parts, so that this file has no mark.
    const M: &str = concat!("// ATT", "ACK: ");

    fn source(text: &str) -> Source {
        Source::new(Path::new("crates/a/src/x.rs"), text.replace("// M ", M))
    }

    fn said(document: &str, text: &str) -> Vec<String> {
        let findings = check(document, &[source(text)]);
        findings.into_iter().map(|finding| finding.what).collect()
    }

    const TESTS: &str = "// M 001, 002 – why\n#[test]\nfn first() {\n    x();\n}\n\n\
        const CASES: &[u8] = &[\n    // M 003\n    1,\n];\n\n\
        #[test]\nfn second() {\n    each(CASES);\n}\n\n\
        // M 001\nfn product() {}\n";

    const FULL: &str = "Each of the 3 cases in scope has at least one test.\n\
        | **001** a | b | a: `first` |\n| **002** a | b | a: `first` |\n\
        | **003** a | b | a: `second` |\n\
        ## Further cases\n| **009** a | a: `second` |\n";

    #[test]
    fn a_document_that_agrees_with_the_marks_has_no_finding() {
        assert_eq!(said(FULL, TESTS), Vec::<String>::new());
    }

    #[test]
    fn a_mark_without_its_row_a_row_without_its_test_and_a_wrong_count_are_findings() {
        let less = FULL.replace("a: `first` |\n| **003**", "**not yet** |\n| **003**");
        let found = said(&less, TESTS);
        assert!(
            found.iter().any(|f| f.contains("002: add a: `first`")),
            "{found:?}"
        );
        assert!(
            found
                .iter()
                .any(|f| f.contains("Of the 3 cases in scope, 2 have")),
            "{found:?}"
        );
        let renamed = said(FULL, &TESTS.replace("fn second", "fn other"));
        assert!(
            renamed.iter().any(|f| f.contains("has no test `second`")),
            "{renamed:?}"
        );
        assert!(
            renamed.iter().any(|f| f.contains("003: add a: `other`")),
            "{renamed:?}"
        );
        let unknown = said(FULL, &TESTS.replace("001, 002", "001, 004"));
        assert!(
            unknown.iter().any(|f| f.contains("case 004 has no row")),
            "{unknown:?}"
        );
        let empty = said(&FULL.replace("a: `second` |\n## F", " |\n## F"), TESTS);
        assert!(
            empty.iter().any(|f| f.contains("003: either tests or")),
            "{empty:?}"
        );
    }
}
