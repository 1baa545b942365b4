// SPDX-License-Identifier: Apache-2.0
//! The shape of the code: sizes, names, headers, lints and words, each rule a pure function from
//! text to findings; and docs/attacks.md against the marks of its cases. Exceptions stand in
//! `xtask/tidy-exceptions.txt`, each with its reason; one that excuses nothing fails too.

mod attacks;
mod manifest;
mod shape;
mod words;

use crate::source::{Source, rust_files};
use anyhow::{Context, Result, bail};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// One thing that is out of shape.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Finding {
    /// The rule's name, as the exceptions file spells it.
    pub(crate) rule: &'static str,
    /// The file, and the function where there is one: `crates/x/src/y.rs` or `…/y.rs:name`.
    pub(crate) place: String,
    /// What is wrong and what to do.
    pub(crate) what: String,
}

const EXCEPTIONS: &str = "xtask/tidy-exceptions.txt";

/// Checks the whole tree.
pub(crate) fn run(root: &Path) -> Result<()> {
    let sources = sources(root)?;
    let mut findings: Vec<Finding> = sources.iter().flat_map(shape::check).collect();
    let paths: Vec<PathBuf> = sources.iter().map(|s| s.path.clone()).collect();
    findings.extend(shape::check_tree(&paths));
    let glossary = std::fs::read_to_string(root.join("docs/glossary.md")).unwrap_or_default();
    let forbidden = words::forbidden(&glossary);
    findings.extend(sources.iter().flat_map(words::check));
    findings.extend(
        sources
            .iter()
            .flat_map(|s| words::check_glossary(s, &forbidden)),
    );
    findings.extend(manifest::check_all(root)?);
    let attacks = std::fs::read_to_string(root.join("docs/attacks.md")).unwrap_or_default();
    findings.extend(attacks::check(&attacks, &sources));
    let exceptions = std::fs::read_to_string(root.join(EXCEPTIONS))
        .with_context(|| format!("cannot read {EXCEPTIONS}"))?;
    let left = judge(findings, &exceptions)?;
    count(&sources);
    report("tidy", &left)
}

/// Every Rust file of the workspace, tests included.
pub(crate) fn sources(root: &Path) -> Result<Vec<Source>> {
    let mut sources = Vec::new();
    for top in ["crates", "stage", "bench", "xtask"] {
        for path in rust_files(root, Path::new(top))? {
            // Fuzzing corpora and build output may hold files that are not ours.
            if !path.iter().any(|part| part == "target") {
                sources.push(Source::read(root, &path)?);
            }
        }
    }
    Ok(sources)
}

/// Prints findings and fails when there are any.
pub(crate) fn report(task: &str, findings: &[Finding]) -> Result<()> {
    for finding in findings {
        eprintln!("{}: {}: {}", finding.place, finding.rule, finding.what);
    }
    match findings.len() {
        0 => Ok(()),
        n => bail!("{task}: {n} findings"),
    }
}

/// Takes excused findings away; an exception without a reason or without a finding is one itself.
fn judge(findings: Vec<Finding>, exceptions: &str) -> Result<Vec<Finding>> {
    let mut excused = BTreeSet::new();
    let mut left = Vec::new();
    for line in exceptions.lines().map(str::trim) {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let mut parts = line.splitn(3, ' ');
        match (parts.next(), parts.next(), parts.next()) {
            (Some(rule), Some(place), Some(reason)) if !reason.trim().is_empty() => {
                excused.insert((rule.to_owned(), place.to_owned()));
            }
            _ => bail!("{EXCEPTIONS}: `{line}` is not `rule place reason`"),
        }
    }
    let mut used = BTreeSet::new();
    for finding in findings {
        let key = (finding.rule.to_owned(), finding.place.clone());
        if excused.contains(&key) {
            used.insert(key);
        } else {
            left.push(finding);
        }
    }
    for (rule, place) in excused.difference(&used) {
        left.push(Finding {
            rule: "exception",
            place: place.clone(),
            what: format!("the exception to `{rule}` excuses nothing; remove it from {EXCEPTIONS}"),
        });
    }
    left.sort();
    left.dedup();
    Ok(left)
}

/// Lines of product and of tests, package by package.
fn count(sources: &[Source]) {
    let mut rows: Vec<(String, usize, usize)> = Vec::new();
    for source in sources {
        let package: Vec<_> = source.path.iter().filter_map(|p| p.to_str()).collect();
        let package = match package.as_slice() {
            ["crates", name, ..] => format!("crates/{name}"),
            [name, ..] => (*name).to_owned(),
            [] => continue,
        };
        let product = source.product_lines();
        let test = source.text.lines().count() - product;
        match rows.iter_mut().find(|row| row.0 == package) {
            Some(row) => {
                row.1 += product;
                row.2 += test;
            }
            None => rows.push((package, product, test)),
        }
    }
    println!("{:<28} {:>8} {:>8}", "lines of", "product", "tests");
    for (package, product, test) in &rows {
        println!("{package:<28} {product:>8} {test:>8}");
    }
    let product: usize = rows.iter().map(|r| r.1).sum();
    let test: usize = rows.iter().map(|r| r.2).sum();
    println!("{:<28} {product:>8} {test:>8}", "all");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(place: &str) -> Finding {
        Finding {
            rule: "file-lines",
            place: place.to_owned(),
            what: String::new(),
        }
    }

    #[test]
    fn an_exception_excuses_its_own_finding_and_needs_a_reason() {
        let left = judge(
            vec![finding("a.rs"), finding("b.rs")],
            "file-lines a.rs a flat register\n",
        );
        assert_eq!(left.unwrap(), [finding("b.rs")]);
        assert!(judge(Vec::new(), "file-lines a.rs\n").is_err());
    }

    #[test]
    fn an_exception_that_excuses_nothing_is_a_finding() {
        let left = judge(Vec::new(), "file-lines a.rs it was long once\n").unwrap();
        assert_eq!(left.len(), 1);
        assert_eq!(left[0].rule, "exception");
    }
}
