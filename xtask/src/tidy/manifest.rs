// SPDX-License-Identifier: Apache-2.0
//! Each package inherits the workspace's lints; the three that hold system calls spell the same
//! table out with `unsafe_code = "deny"`, so that their `sys` modules can allow it.

use super::Finding;
use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::path::Path;

/// The packages that may hold `unsafe`, in their `sys` module.
const SYSTEM: [&str; 3] = ["crates/guest", "crates/sandbox", "crates/vault"];

type Tables = BTreeMap<String, BTreeMap<String, String>>;

/// Every manifest of the workspace.
pub(super) fn check_all(root: &Path) -> Result<Vec<Finding>> {
    let read = |path: &Path| {
        std::fs::read_to_string(root.join(path))
            .with_context(|| format!("cannot read {}", path.display()))
    };
    let workspace = tables(&read(Path::new("Cargo.toml"))?);
    let mut places = vec!["stage".to_owned(), "xtask".to_owned()];
    if root.join("bench").is_dir() {
        places.push("bench".to_owned());
    }
    let crates = std::fs::read_dir(root.join("crates")).context("cannot list crates")?;
    for entry in crates {
        let name = entry.context("cannot list crates")?.file_name();
        places.push(format!("crates/{}", name.to_string_lossy()));
    }
    let mut findings = Vec::new();
    for place in places {
        let manifest = read(&Path::new(&place).join("Cargo.toml"))?;
        findings.extend(check(&place, &manifest, &workspace));
    }
    Ok(findings)
}

fn check(place: &str, manifest: &str, workspace: &Tables) -> Option<Finding> {
    let own = tables(manifest);
    let inherits = own
        .get("lints")
        .is_some_and(|table| table.get("workspace").is_some_and(|v| v == "true"));
    let right = inherits || (SYSTEM.contains(&place) && spells_out(&own, workspace));
    (!right).then(|| Finding {
        rule: "lints",
        place: format!("{place}/Cargo.toml"),
        what: "the package does not inherit the workspace's lints: `[lints] workspace = true`"
            .to_owned(),
    })
}

fn spells_out(own: &Tables, workspace: &Tables) -> bool {
    ["rust", "clippy"].into_iter().all(|tool| {
        let mut wanted = workspace
            .get(&format!("workspace.lints.{tool}"))
            .cloned()
            .unwrap_or_default();
        if let Some(level) = wanted.get_mut("unsafe_code") {
            "\"deny\"".clone_into(level);
        }
        let table = own.get(&format!("lints.{tool}"));
        !wanted.is_empty() && table.is_some_and(|t| wanted.iter().all(|(k, v)| t.get(k) == Some(v)))
    })
}

/// The tables of a manifest, values as text: enough TOML for tables of one-line values.
fn tables(text: &str) -> Tables {
    let mut tables = Tables::new();
    let mut name = String::new();
    for line in text.lines().map(str::trim) {
        if let Some(head) = line.strip_prefix('[').and_then(|l| l.strip_suffix(']')) {
            head.trim_matches(['[', ']']).clone_into(&mut name);
        } else if let Some((key, value)) = line.split_once('=')
            && !line.starts_with('#')
        {
            let value = value.trim().to_owned();
            tables
                .entry(name.clone())
                .or_default()
                .insert(key.trim().to_owned(), value);
        }
    }
    tables
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORKSPACE: &str = r#"
[workspace.lints.rust]
unsafe_code = "forbid"
missing_docs = "warn"
[workspace.lints.clippy]
panic = "warn"
"#;
    const SPELT: &str = r#"
[lints.rust]
unsafe_code = "deny"
missing_docs = "warn"
[lints.clippy]
panic = "warn"
"#;

    #[test]
    fn a_package_that_opts_out_is_seen() {
        let workspace = tables(WORKSPACE);
        assert!(check("crates/egress", "[lints]\nworkspace = true\n", &workspace).is_none());
        assert!(check("crates/egress", "[package]\n", &workspace).is_some());
        assert!(check("crates/egress", SPELT, &workspace).is_some());
    }

    #[test]
    fn the_system_packages_spell_out_the_whole_table() {
        let workspace = tables(WORKSPACE);
        assert!(check("crates/vault", SPELT, &workspace).is_none());
        let less = SPELT.replace("missing_docs = \"warn\"\n", "");
        assert!(check("crates/vault", &less, &workspace).is_some());
        let weaker = SPELT.replace("\"deny\"", "\"allow\"");
        assert!(check("crates/vault", &weaker, &workspace).is_some());
    }
}
