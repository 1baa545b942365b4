// SPDX-License-Identifier: Apache-2.0
//! The table of dependency edges between our own crates, transitive, and what the pure crates and
//! the guest may link at all.

use crate::packages::Graph;
use crate::tidy::Finding;
use std::collections::{BTreeMap, BTreeSet};

/// What each package may link of ours, through any number of steps.
const EDGES: [(&str, &[&str]); 16] = [
    ("torno-policy", &[]),
    ("torno-guest-protocol", &[]),
    ("torno-notary-protocol", &["torno-policy"]),
    ("torno-audit", &["torno-policy"]),
    ("torno-vault", &["torno-policy", "torno-audit"]),
    (
        "torno-notary",
        &[
            "torno-policy",
            "torno-audit",
            "torno-vault",
            "torno-notary-protocol",
        ],
    ),
    ("torno-sandbox", &["torno-policy", "torno-guest-protocol"]),
    (
        "torno-egress",
        &[
            "torno-policy",
            "torno-guest-protocol",
            "torno-notary-protocol",
        ],
    ),
    ("torno-control-api", &["torno-policy"]),
    (
        "torno-control",
        &[
            "torno-policy",
            "torno-guest-protocol",
            "torno-notary-protocol",
            "torno-audit",
            "torno-vault",
            "torno-notary",
            "torno-sandbox",
            "torno-egress",
            "torno-control-api",
        ],
    ),
    (
        "torno-cli",
        &[
            "torno-control-api",
            "torno-notary-protocol",
            "torno-policy",
            "torno-audit",
            "torno-image",
        ],
    ),
    ("torno-guest", &["torno-guest-protocol"]),
    // Hostile archives are read by who fetches them: neither the launcher nor the desk, which are
    // `torno-control`, has the code to look into one.
    ("torno-image", &["torno-policy", "torno-control-api"]),
    // The stage plays the world outside: it drives the shipped binaries and may speak the wire
    // types, never link what holds a credential or decides.
    (
        "torno-stage",
        &[
            "torno-control-api",
            "torno-notary-protocol",
            "torno-policy",
            "torno-audit",
        ],
    ),
    // The benchmark drives the shipped binaries too, and prints the same OCI configuration for the
    // raw runtimes that it measures beside them.
    (
        "torno-bench",
        &[
            "torno-policy",
            "torno-guest-protocol",
            "torno-sandbox",
            "torno-stage",
        ],
    ),
    ("xtask", &[]),
];

/// Crates that touch no file, socket, clock, random source or async runtime.
pub(super) const PURE: [&str; 3] = [
    "torno-policy",
    "torno-guest-protocol",
    "torno-notary-protocol",
];
const IMPURE: [&str; 6] = ["tokio", "rustix", "getrandom", "mio", "socket2", "nix"];
/// hickory-proto's own message ids want a random source; the stub only parses and answers, and
/// never makes a query. A direct edge is still a finding.
const PURE_THROUGH: [(&str, &str); 1] = [("torno-guest-protocol", "getrandom")];

/// Checks the graph against the table.
pub(super) fn check(graph: &Graph) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (id, package) in graph.own() {
        let name = package.name.as_str();
        let mut find = |what: String| {
            findings.push(Finding {
                rule: "edge",
                place: name.to_owned(),
                what,
            });
        };
        let Some((_, allowed)) = EDGES.iter().find(|(from, _)| *from == name) else {
            find("the package has no row in the table of edges; add it on purpose".to_owned());
            continue;
        };
        let linked = graph.linked_by(id);
        let ours = graph.own().map(|(_, p)| p.name.as_str());
        for other in ours.filter(|other| linked.contains(other) && !allowed.contains(other)) {
            find(format!("links {other}, which its row does not allow"));
        }
    }
    findings
}

/// Checks what the pure crates link, each by itself.
pub(super) fn check_pure(graph: &Graph, alone: &BTreeMap<&str, BTreeSet<String>>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (name, linked) in alone {
        let package = graph.own().find(|(_, package)| package.name == *name);
        let direct = |other: &str| {
            package.is_some_and(|(_, package)| {
                let mut links = package.links.iter().filter_map(|id| graph.packages.get(id));
                links.any(|link| link.name == other)
            })
        };
        for other in IMPURE {
            let excused = PURE_THROUGH.contains(&(*name, other)) && !direct(other);
            if linked.contains(other) && !excused {
                findings.push(Finding {
                    rule: "edge",
                    place: (*name).to_owned(),
                    what: format!("is pure and links {other}"),
                });
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packages::Package;
    use std::path::PathBuf;

    fn graph(edges: &[(&str, &[&str])]) -> Graph {
        let mut packages = BTreeMap::new();
        let mut members = BTreeSet::new();
        for (name, links) in edges {
            let package = Package {
                name: (*name).to_owned(),
                version: String::new(),
                source: None,
                license: None,
                links: links.iter().map(|l| (*l).to_owned()).collect(),
            };
            packages.insert((*name).to_owned(), package);
            if name.starts_with("torno-") {
                members.insert((*name).to_owned());
            }
        }
        Graph {
            packages,
            members,
            target: PathBuf::new(),
        }
    }

    fn whats(graph: &Graph) -> Vec<String> {
        check(graph).into_iter().map(|f| f.what).collect()
    }

    #[test]
    fn the_gate_and_the_cli_cannot_link_the_vault_even_through_another_crate() {
        for from in ["torno-egress", "torno-cli"] {
            let direct = graph(&[(from, &["torno-vault"]), ("torno-vault", &[])]);
            assert_eq!(
                whats(&direct),
                ["links torno-vault, which its row does not allow"]
            );
            let through = graph(&[
                (from, &["somebody"]),
                ("somebody", &["torno-vault"]),
                ("torno-vault", &[]),
            ]);
            assert_eq!(
                whats(&through),
                ["links torno-vault, which its row does not allow"]
            );
        }
    }

    #[test]
    fn the_guest_links_the_guest_protocol_only() {
        let good = graph(&[
            ("torno-guest", &["torno-guest-protocol"]),
            ("torno-guest-protocol", &[]),
        ]);
        assert!(whats(&good).is_empty());
        let bad = graph(&[("torno-guest", &["torno-policy"]), ("torno-policy", &[])]);
        assert_eq!(whats(&bad).len(), 1);
    }

    #[test]
    fn pure_crates_link_no_runtime_and_no_random_source() {
        let pure = |name: &'static str, links: &'static [&'static str], all: &[&str]| {
            let graph = graph(&[(name, links), ("getrandom", &[])]);
            let all = all.iter().map(|l| (*l).to_owned()).collect();
            let findings = check_pure(&graph, &BTreeMap::from([(name, all)]));
            findings.into_iter().map(|f| f.what).collect::<Vec<_>>()
        };
        assert_eq!(
            pure("torno-policy", &["x"], &["x", "tokio"]),
            ["is pure and links tokio"]
        );
        let protocol = "torno-guest-protocol";
        let all = ["hickory-proto", "getrandom"];
        assert!(pure(protocol, &["hickory-proto"], &all).is_empty());
        assert_eq!(
            pure(protocol, &["hickory-proto", "getrandom"], &all),
            ["is pure and links getrandom"]
        );
    }

    #[test]
    fn a_package_without_a_row_is_a_finding() {
        assert_eq!(whats(&graph(&[("torno-new", &[])])).len(), 1);
    }
}
