// SPDX-License-Identifier: Apache-2.0
//! Licences, banned crates and sources. `cargo deny` does it where it is installed; the same rules
//! are checked over `cargo metadata` in any case, so that a machine without it is no hole.

use crate::packages::Graph;
use crate::shell;
use crate::tidy::{self, Finding};
use anyhow::Result;
use std::collections::BTreeMap;
use std::path::Path;

/// Crates that must not be linked, and why.
const BANNED: [(&str, &str); 8] = [
    ("ring", "one TLS provider: aws-lc-rs"),
    ("openssl", "one TLS implementation: rustls"),
    ("openssl-sys", "one TLS implementation: rustls"),
    ("native-tls", "one TLS implementation: rustls"),
    ("serde_yml", "unsound and unmaintained (RUSTSEC-2025-0068)"),
    ("serde_yaml", "unmaintained"),
    ("bincode", "unmaintained (RUSTSEC-2025-0141)"),
    ("atty", "unmaintained; the standard library has it"),
];

/// Licences that Apache-2.0 code may link.
const LICENCES: [&str; 14] = [
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "MIT",
    "MIT-0",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "ISC",
    "Zlib",
    "Unicode-3.0",
    "Unlicense",
    "CC0-1.0",
    "0BSD",
    "CDLA-Permissive-2.0",
    "MPL-2.0",
];

/// Checks the graph, and runs `cargo deny` where there is one.
pub(crate) fn run(root: &Path) -> Result<()> {
    let findings = check(&Graph::load(root)?);
    tidy::report("bans", &findings)?;
    if shell::succeeds(shell::cargo(root).args(["deny", "--version"])) {
        let checks = ["deny", "check", "bans", "licenses", "sources"];
        shell::run(shell::cargo(root).args(checks))?;
    }
    Ok(())
}

fn check(graph: &Graph) -> Vec<Finding> {
    let mut findings = Vec::new();
    let registry = registry(graph);
    for package in graph.packages.values() {
        let mut find = |rule, what: String| {
            findings.push(Finding {
                rule,
                place: package.name.clone(),
                what,
            });
        };
        if let Some((_, reason)) = BANNED.iter().find(|(name, _)| *name == package.name) {
            find("ban", format!("is banned: {reason}"));
        }
        let Some(source) = &package.source else {
            continue;
        };
        if Some(source.as_str()) != registry {
            find("source", format!("comes from {source}"));
        }
        match &package.license {
            Some(expression) if permitted(expression) => {}
            Some(expression) => find("licence", format!("`{expression}` is not on the list")),
            None => find("licence", "names no licence".to_owned()),
        }
    }
    findings
}

/// The one registry: where most packages come from, and a registry.
fn registry(graph: &Graph) -> Option<&str> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for source in graph.packages.values().filter_map(|p| p.source.as_deref()) {
        if source.starts_with("registry+") {
            *counts.entry(source).or_default() += 1;
        }
    }
    counts
        .into_iter()
        .max_by_key(|(_, count)| *count)
        .map(|(source, _)| source)
}

/// Whether an SPDX expression can be met: one branch of its ORs, all parts of its ANDs.
fn permitted(expression: &str) -> bool {
    let flat = expression.replace('/', " OR ").replace(['(', ')'], " ");
    if flat.contains(" AND ") && flat.contains(" OR ") {
        // Mixed: strict, every licence that it names must be on the list, or each AND part has a
        // branch on it.
        return flat
            .split(" AND ")
            .all(|part| part.split(" OR ").any(|one| LICENCES.contains(&one.trim())));
    }
    if flat.contains(" AND ") {
        return flat
            .split(" AND ")
            .all(|one| LICENCES.contains(&one.trim()));
    }
    flat.split(" OR ").any(|one| LICENCES.contains(&one.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packages::Package;
    use std::collections::BTreeSet;
    use std::path::PathBuf;

    const REGISTRY: &str = "registry+https://registry.test/index";

    fn rules(name: &str, source: &str, license: Option<&str>) -> Vec<&'static str> {
        let package = Package {
            name: name.to_owned(),
            version: String::new(),
            source: Some(source.to_owned()),
            license: license.map(str::to_owned),
            links: Vec::new(),
        };
        let graph = Graph {
            packages: BTreeMap::from([(name.to_owned(), package)]),
            members: BTreeSet::new(),
            target: PathBuf::new(),
        };
        check(&graph).into_iter().map(|f| f.rule).collect()
    }

    #[test]
    fn a_banned_crate_a_foreign_source_and_an_unlisted_licence_are_seen() {
        assert!(rules("serde", REGISTRY, Some("MIT OR Apache-2.0")).is_empty());
        assert_eq!(rules("ring", REGISTRY, Some("Apache-2.0 AND ISC")), ["ban"]);
        assert_eq!(
            rules("serde", "git+https://example.test/x", Some("MIT")),
            ["source"]
        );
        assert_eq!(rules("serde", REGISTRY, Some("AGPL-3.0")), ["licence"]);
        assert_eq!(rules("serde", REGISTRY, None), ["licence"]);
    }

    #[test]
    fn expressions_are_met_by_one_or_branch_and_all_and_parts() {
        assert!(permitted("MIT/Apache-2.0"));
        assert!(permitted("GPL-3.0 OR MIT"));
        assert!(!permitted("GPL-3.0 AND MIT"));
        assert!(permitted("(MIT OR Apache-2.0) AND Unicode-3.0"));
        assert!(!permitted("(MIT OR Apache-2.0) AND GPL-3.0"));
    }
}
