// SPDX-License-Identifier: Apache-2.0
//! The workspace as cargo sees it: its root, its packages, and who links whom.

use crate::shell;
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The workspace's root directory.
pub(crate) fn root() -> Result<PathBuf> {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = manifest.parent().context("xtask lies in no workspace")?;
    if root.join("Cargo.lock").exists() {
        Ok(root.to_path_buf())
    } else {
        bail!(
            "no Cargo.lock in {}: the checkout moved; run cargo clean -p xtask",
            root.display()
        )
    }
}

/// One package of the dependency graph.
#[derive(Debug, Clone)]
pub(crate) struct Package {
    /// Its name.
    pub(crate) name: String,
    /// Its version.
    pub(crate) version: String,
    /// Where it comes from; `None` is this workspace.
    pub(crate) source: Option<String>,
    /// Its licence expression.
    pub(crate) license: Option<String>,
    /// Ids of what it links (normal and build edges; what only tests use is left out).
    pub(crate) links: Vec<String>,
}

/// The dependency graph by package id.
#[derive(Debug)]
pub(crate) struct Graph {
    /// Each package by id.
    pub(crate) packages: BTreeMap<String, Package>,
    /// Ids of the workspace's own packages.
    pub(crate) members: BTreeSet<String>,
    /// Where cargo puts what it builds.
    pub(crate) target: PathBuf,
}

impl Graph {
    /// Asks cargo, for the platform we are on.
    pub(crate) fn load(root: &Path) -> Result<Self> {
        let platform = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
        let text = shell::output(
            shell::cargo(root)
                .args(["metadata", "--format-version", "1", "--locked"])
                .args(["--filter-platform", &platform]),
        )?;
        let mut graph = Self::parse(&text)?;
        // Metadata also holds optional packages that no feature turns on; cargo's tree does not.
        let built = tree(root, &["--workspace", "--edges", "normal,build,dev"])?;
        graph
            .packages
            .retain(|_, p| built.contains(&(p.name.clone(), p.version.clone())));
        Ok(graph)
    }

    /// Reads `cargo metadata`'s answer.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let value: Value = serde_json::from_str(text).context("cargo metadata is not JSON")?;
        let mut packages = BTreeMap::new();
        for package in list(&value, "packages")? {
            let id = string(package, "id")?;
            let package = Package {
                name: string(package, "name")?,
                version: string(package, "version")?,
                source: package
                    .get("source")
                    .and_then(Value::as_str)
                    .map(str::to_owned),
                license: package
                    .get("license")
                    .and_then(Value::as_str)
                    .map(str::to_owned),
                links: Vec::new(),
            };
            packages.insert(id, package);
        }
        let resolve = value
            .get("resolve")
            .context("cargo metadata has no `resolve`")?;
        for node in list(resolve, "nodes")? {
            let mut links = Vec::new();
            for dependency in list(node, "deps")? {
                let kinds = list(dependency, "dep_kinds")?;
                let only_tests =
                    |kind: &Value| kind.get("kind").and_then(Value::as_str) == Some("dev");
                if !kinds.iter().all(only_tests) {
                    links.push(string(dependency, "pkg")?);
                }
            }
            if let Some(package) = packages.get_mut(&string(node, "id")?) {
                package.links = links;
            }
        }
        let members = list(&value, "workspace_members")?
            .iter()
            .filter_map(|id| id.as_str().map(str::to_owned))
            .collect();
        let target = PathBuf::from(string(&value, "target_directory")?);
        Ok(Self {
            packages,
            members,
            target,
        })
    }

    /// Names of everything that a package links, through any number of steps.
    pub(crate) fn linked_by(&self, id: &str) -> BTreeSet<&str> {
        let mut seen = BTreeSet::new();
        let mut names = BTreeSet::new();
        let mut next = vec![id];
        while let Some(id) = next.pop() {
            let Some(package) = self.packages.get(id) else {
                continue;
            };
            for link in &package.links {
                if seen.insert(link.as_str()) {
                    next.push(link);
                    if let Some(linked) = self.packages.get(link) {
                        names.insert(linked.name.as_str());
                    }
                }
            }
        }
        names
    }

    /// The workspace's own packages, with their ids.
    pub(crate) fn own(&self) -> impl Iterator<Item = (&str, &Package)> {
        self.members
            .iter()
            .filter_map(|id| self.packages.get(id).map(|package| (id.as_str(), package)))
    }
}

/// Names of what one package alone links, with just the features that it turns on.
pub(crate) fn linked_alone(root: &Path, package: &str) -> Result<BTreeSet<String>> {
    let tree = tree(root, &["--package", package, "--edges", "normal,build"])?;
    Ok(tree.into_iter().map(|(name, _)| name).collect())
}

/// Names and versions in a `cargo tree`.
fn tree(root: &Path, arguments: &[&str]) -> Result<BTreeSet<(String, String)>> {
    let flat = [
        "tree",
        "--locked",
        "--prefix",
        "none",
        "--no-dedupe",
        "--format",
        "{p}",
    ];
    let text = shell::output(shell::cargo(root).args(flat).args(arguments))?;
    Ok(text.lines().filter_map(tree_line).collect())
}

/// `serde v1.0.229 (proc-macro)` → name and version.
fn tree_line(line: &str) -> Option<(String, String)> {
    let mut words = line.split_whitespace();
    let name = words.next()?;
    let version = words.next()?.strip_prefix('v')?;
    Some((name.to_owned(), version.to_owned()))
}

fn list<'v>(value: &'v Value, key: &str) -> Result<&'v Vec<Value>> {
    value
        .get(key)
        .and_then(Value::as_array)
        .with_context(|| format!("cargo metadata has no list `{key}`"))
}

fn string(value: &Value, key: &str) -> Result<String> {
    value
        .get(key)
        .and_then(Value::as_str)
        .map(str::to_owned)
        .with_context(|| format!("cargo metadata has no string `{key}`"))
}
