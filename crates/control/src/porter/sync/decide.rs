// SPDX-License-Identifier: Apache-2.0
//! What becomes of one path in a round, from what lies on either side and what both had last. Pure:
//! no file is touched here.

use super::super::changes::{repository_of, runs_on_host, shown};
use super::super::protected::is_hidden;
use crate::orders::{Baseline, BaselineEntry};
use std::collections::BTreeSet;
use torno_policy::grant::FileRules;

/// A path on both sides, and as both had it last.
pub(super) struct Three<'a> {
    pub(super) original: Option<&'a BaselineEntry>,
    pub(super) copy: Option<&'a BaselineEntry>,
    pub(super) agreed: Option<&'a BaselineEntry>,
}

impl Three<'_> {
    /// Whether one side has it no longer.
    pub(super) fn removes(&self) -> bool {
        self.original.is_none() || self.copy.is_none()
    }
}

/// What becomes of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// Nothing changed.
    Same,
    /// Both sides have it alike.
    Agree,
    /// Into the copy.
    Inward,
    /// Into the person's directory.
    Outward,
    /// It stays as it is on either side, for a person to look at.
    Held,
}

/// Repositories in which something changed inside. Files of one belong together, so nothing more
/// of the person's goes into such a one.
#[derive(Debug, Default)]
pub(super) struct Repositories(BTreeSet<String>);

impl Repositories {
    pub(super) fn changed_inside(copy: &Baseline, agreed: &Baseline) -> Self {
        let changed = copy
            .iter()
            .filter(|(path, now)| agreed.get(*path) != Some(now));
        let gone = agreed.keys().filter(|path| !copy.contains_key(*path));
        let paths = changed.map(|(path, _)| path).chain(gone);
        let places = paths.filter_map(|path| repository_of(path));
        Self(places.map(str::to_owned).collect())
    }
}

/// Decides.
pub(super) fn step(
    path: &str,
    three: &Three<'_>,
    files: &FileRules,
    repositories: &Repositories,
) -> Step {
    if three.original == three.copy {
        return if three.original == three.agreed {
            Step::Same
        } else {
            Step::Agree
        };
    }
    if is_hidden(path, &files.hide).is_some() {
        return Step::Held;
    }
    match (three.original != three.agreed, three.copy != three.agreed) {
        (true, false) if goes_in(path, files, repositories) => Step::Inward,
        (false, true) if goes_out(path, three) => Step::Outward,
        // Both changed it, or it may not go.
        _ => Step::Held,
    }
}

fn goes_in(path: &str, files: &FileRules, repositories: &Repositories) -> bool {
    let is_held = repository_of(path).is_some_and(|place| {
        // Somebody is writing beside it just now.
        repositories.0.contains(place) || path.ends_with(".lock")
    });
    // A place that programs may write is a mount: what is renamed onto it takes it away.
    let mut places = files.write.iter().flatten();
    let is_place = places.any(|rule| rule.strip_suffix("/**").unwrap_or(rule) == path);
    !is_held && !is_place
}

/// What `apply` writes without asking, unless a host may run it as it is: git's `core.hooksPath`
/// makes any directory one of hooks. Nothing is deleted, and no link comes out.
fn goes_out(path: &str, three: &Three<'_>) -> bool {
    let is_text =
        |entry: Option<&BaselineEntry>| entry.is_none_or(|entry| !entry.link && !entry.executable);
    three.copy.is_some()
        && is_text(three.copy)
        && is_text(three.agreed)
        && repository_of(path).is_none()
        && !runs_on_host(path)
        && shown(path) == path
}

#[cfg(test)]
mod tests;
