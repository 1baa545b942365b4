// SPDX-License-Identifier: Apache-2.0
//! Who may link whom, and who may expose, spawn and be unsafe: the table of ARCHITECTURE as a check
//! that fails. Nothing here can be excused; a change of the table is a change of the design.

mod calls;
mod edges;

use crate::packages::{self, Graph};
use crate::tidy;
use anyhow::Result;
use std::collections::BTreeMap;
use std::path::Path;

/// Checks the dependency graph and the sources.
pub(crate) fn run(root: &Path) -> Result<()> {
    let graph = Graph::load(root)?;
    let mut alone = BTreeMap::new();
    for name in edges::PURE {
        alone.insert(name, packages::linked_alone(root, name)?);
    }
    let mut findings = edges::check(&graph);
    findings.extend(edges::check_pure(&graph, &alone));
    let sources = tidy::sources(root)?;
    findings.extend(calls::check(&sources));
    findings.sort();
    tidy::report("boundaries", &findings)
}
