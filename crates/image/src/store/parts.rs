// SPDX-License-Identifier: Apache-2.0
//! What of an image a sandbox may show: its top directory, its `etc`, its `var/lib`. Noted once,
//! after unpacking; a plan chooses among it.

use super::{StoreError, of_file};
use std::fs;
use std::path::Path;
use torno_control_api::images::{Part, PartKind};

/// LIMIT: Debian's `etc` has about eighty entries, and each costs a sandbox a mount.
const PARTS_MAX: usize = 512;

/// Looks at an unpacked root directory. A name that is no text is in no plan.
pub(super) fn of(root: &Path) -> Result<Vec<Part>, StoreError> {
    let mut parts = listed(root, "")?;
    for (directory, also) in [("etc", true), ("var", false)] {
        let is_there = parts
            .iter()
            .any(|part| part.path == directory && part.kind == PartKind::Directory);
        if !is_there {
            continue;
        }
        let below = listed(root, directory)?;
        // Of `var` nothing but what packages know of themselves: the rest is state.
        parts.extend(
            below
                .into_iter()
                .filter(|part| also || part.path == "var/lib"),
        );
    }
    parts.truncate(PARTS_MAX);
    Ok(parts)
}

fn listed(root: &Path, below: &str) -> Result<Vec<Part>, StoreError> {
    let directory = root.join(below);
    let failed = |error| of_file(&directory, error);
    let mut parts = Vec::new();
    for entry in fs::read_dir(&directory).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let Ok(name) = entry.file_name().into_string() else {
            continue;
        };
        let kind = entry.file_type().map_err(failed)?;
        let kind = if kind.is_dir() {
            PartKind::Directory
        } else if kind.is_file() {
            PartKind::File
        } else if kind.is_symlink() {
            match fs::read_link(entry.path())
                .map_err(failed)?
                .into_os_string()
                .into_string()
            {
                Ok(target) => PartKind::Link(target),
                Err(_) => continue,
            }
        } else {
            continue;
        };
        let path = if below.is_empty() {
            name
        } else {
            format!("{below}/{name}")
        };
        parts.push(Part { path, kind });
    }
    parts.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(parts)
}
