// SPDX-License-Identifier: Apache-2.0
//! The sandboxes made ahead of a daemon's sessions, as its journal and the kernel show them.

use crate::stage::Stage;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// LIMIT: a loaded machine takes seconds for what takes milliseconds elsewhere.
const WAIT: Duration = Duration::from_secs(30);
/// Where cgroups are, and how deep below a hierarchy's root ours can be.
const CGROUPS: &str = "/sys/fs/cgroup";
const DEPTH_MAX: usize = 12;

/// A script's first words: it goes on only in a sandbox that was made ahead.
pub(crate) const CLAIMED: &str =
    "tr '\\0' ' ' < /proc/1/cmdline | grep -q made-ahead || { echo not claimed; exit 77; }; ";

/// Every sandbox of the journal, with the session that claimed it.
pub(crate) fn journal(stage: &Stage) -> Vec<(String, Option<String>)> {
    let entries = std::fs::read_dir(stage.daemon.sandboxes().join(".ahead"));
    let entries = entries.into_iter().flatten().flatten();
    let entry = |entry: std::fs::DirEntry| {
        let session = std::fs::read_to_string(entry.path().join("session")).ok();
        (entry.file_name().into_string().unwrap(), session)
    };
    entries.map(entry).collect()
}

/// The name of a running session's sandbox.
pub(crate) fn sandbox_of(stage: &Stage, session: &str) -> String {
    let all = journal(stage).into_iter();
    let mut its = all.filter(|(_, claimed)| claimed.as_deref() == Some(session));
    its.next().map_or_else(|| session.to_owned(), |(id, _)| id)
}

/// Those that no session has.
pub(crate) fn unclaimed(stage: &Stage) -> BTreeSet<String> {
    let all = journal(stage).into_iter();
    all.filter(|(_, session)| session.is_none())
        .map(|(id, _)| id)
        .collect()
}

/// How many wait, as `torno doctor` says.
pub(crate) fn waiting(stage: &Stage) -> usize {
    let said = stage.torno(&["doctor"]).stdout;
    let counts = said
        .lines()
        .filter_map(|line| line.trim().strip_prefix("made ahead: "));
    counts.map(|count| count.parse::<usize>().unwrap()).sum()
}

/// Waits until so many wait, and names them.
#[track_caller]
pub(crate) fn until_waiting(stage: &Stage, count: usize) -> BTreeSet<String> {
    until(&format!("not {count} wait"), || waiting(stage) == count);
    let all = unclaimed(stage);
    assert_eq!(all.len(), count, "{all:?}");
    all
}

/// Waits until it is so.
#[track_caller]
pub(crate) fn until(what: &str, mut is: impl FnMut() -> bool) {
    let end = Instant::now() + WAIT;
    while !is() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The same of a value; what it is at the end is told.
#[track_caller]
pub(crate) fn until_equal<T: PartialEq + std::fmt::Debug>(
    what: &str,
    wanted: &T,
    is: impl Fn() -> T,
) {
    let end = Instant::now() + WAIT;
    while is() != *wanted && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(is(), *wanted, "{what}");
}

/// The directories of a sandbox's group, in every hierarchy.
pub(crate) fn groups(id: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    find(Path::new(CGROUPS), 0, &format!("torno-{id}"), &mut found);
    found
}

fn find(at: &Path, depth: usize, name: &str, found: &mut Vec<PathBuf>) {
    if depth > DEPTH_MAX {
        return;
    }
    for entry in std::fs::read_dir(at).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            if entry.file_name() == name {
                found.push(entry.path());
            }
            find(&entry.path(), depth + 1, name, found);
        }
    }
}

/// The processes in a sandbox's group.
pub(crate) fn members(id: &str) -> BTreeSet<i32> {
    let groups = groups(id).into_iter();
    let texts = groups.filter_map(|group| std::fs::read_to_string(group.join("cgroup.procs")).ok());
    let numbers = texts.flat_map(|text| {
        let numbers = text.lines().map(|line| line.parse().unwrap());
        numbers.collect::<Vec<i32>>()
    });
    numbers.collect()
}
