// SPDX-License-Identifier: Apache-2.0
//! What a blow may leave nowhere: processes of the sandbox, of its keeper, runtime or a dead role,
//! cgroups, mounts, network namespaces, sockets, directories, and a session without an end in the
//! record.

use crate::daemon::Daemon;
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// LIMIT: keepers and runtimes get this long to end what a dead launcher left.
const GONE_WAIT: Duration = Duration::from_secs(20);
/// Where cgroups are.
const CGROUPS: &str = "/sys/fs/cgroup";
/// LIMIT: how deep a cgroup of ours can be below the root of its hierarchy.
const DEPTH_MAX: usize = 12;

/// What there was before a blow.
pub(super) struct Before {
    record: u64,
    sockets: BTreeSet<PathBuf>,
    /// The sandboxes made ahead, which nobody had.
    ahead: BTreeSet<String>,
}

/// Where the launcher's journal of sandboxes made ahead lies, below the sandboxes' directory.
const AHEAD: &str = ".ahead";

impl Before {
    pub(super) fn look(daemon: &Daemon) -> Result<Self> {
        let records = daemon.records()?;
        let last = records.last().and_then(|r| r.get("seq")?.as_u64());
        Ok(Self {
            record: last.context("an empty record")?,
            sockets: names_in(&daemon.run_directory())?,
            ahead: ahead(daemon)?,
        })
    }

    /// Waits until nothing is left, or says what is.
    pub(super) fn nothing_is_left(
        &self,
        daemon: &Daemon,
        restarted: bool,
        name: &str,
    ) -> Result<()> {
        let [mut begun, over, sandboxes] = self.sessions(daemon)?;
        let open: Vec<_> = begun.difference(&over).collect();
        ensure!(
            open.is_empty(),
            "sessions without an end in the record: {open:?}"
        );
        begun.extend(sandboxes);
        // A launcher that lives on keeps those that wait.
        if restarted {
            begun.extend(self.ahead.iter().cloned());
        }
        let end = Instant::now() + GONE_WAIT;
        loop {
            let left = self.left(daemon, restarted, &begun, name)?;
            if left.is_empty() {
                return Ok(());
            }
            ensure!(Instant::now() < end, "left over: {left:#?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Sessions that began since, those that the record says are over, and the sandboxes made ahead
    /// that they had.
    fn sessions(&self, daemon: &Daemon) -> Result<[BTreeSet<String>; 3]> {
        let [mut begun, mut over, mut sandboxes] = <[BTreeSet<String>; 3]>::default();
        for record in daemon.records()? {
            let late = record.get("seq").and_then(Value::as_u64) > Some(self.record);
            let session = record.get("session").and_then(Value::as_str);
            let kind = record.pointer("/event/kind").and_then(Value::as_str);
            let (Some(session), Some(kind), true) = (session, kind, late) else {
                continue;
            };
            match kind {
                "session_begun" => begun.insert(session.to_owned()),
                "sandbox_claimed" => {
                    let sandbox = record.pointer("/event/sandbox").and_then(Value::as_str);
                    sandboxes.extend(sandbox.map(str::to_owned));
                    true
                }
                "session_ended" | "session_killed" => over.insert(session.to_owned()),
                _ => continue,
            };
        }
        Ok([begun, over, sandboxes])
    }

    fn left(
        &self,
        daemon: &Daemon,
        restarted: bool,
        sessions: &BTreeSet<String>,
        name: &str,
    ) -> Result<Vec<String>> {
        let ours = |text: &str| {
            text.contains(name) || sessions.iter().any(|session| text.contains(&**session))
        };
        let mut left = processes(daemon, &ours)?;
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").context("mountinfo")?;
        let home = daemon.home().to_string_lossy().into_owned();
        let mounts = mounts.lines().filter(|l| l.contains(&home) || ours(l));
        left.extend(mounts.map(|line| format!("mount: {line}")));
        cgroups(Path::new(CGROUPS), 0, &ours, &mut left);
        for path in names_in(&daemon.run_directory())?.difference(&self.sockets) {
            left.push(format!("socket: {}", path.display()));
        }
        // A daemon that goes on keeps the last workspace copies for `session apply`; a new one
        // begins without any.
        for path in names_in(&daemon.sandboxes())? {
            let removed = path.to_string_lossy().contains("/.removed-");
            let is_journal = path.ends_with(AHEAD);
            if (restarted && !is_journal) || removed {
                left.push(format!("directory: {}", path.display()));
            }
        }
        if restarted {
            let stale = ahead(daemon)?;
            let stale = stale.intersection(&self.ahead);
            left.extend(stale.map(|id| format!("journal: {id}")));
        }
        Ok(left)
    }
}

/// The sandboxes in the launcher's journal.
fn ahead(daemon: &Daemon) -> Result<BTreeSet<String>> {
    let journal = daemon.sandboxes().join(AHEAD);
    // The launcher makes it when it comes up.
    if !journal.exists() {
        return Ok(BTreeSet::new());
    }
    let names = names_in(&journal)?.into_iter();
    let name = |path: PathBuf| path.file_name()?.to_str().map(str::to_owned);
    Ok(names.filter_map(name).collect())
}

/// Processes that belong to the blow's sessions, and roles of a daemon that is no more. A network
/// namespace lives by its processes and descriptors alone, so the roles' are looked at as well.
fn processes(daemon: &Daemon, ours: &dyn Fn(&str) -> bool) -> Result<Vec<String>> {
    let supervisor = daemon.pid().context("tornod does not run")?;
    let log = daemon.log();
    let mut left = Vec::new();
    for entry in std::fs::read_dir("/proc").context("/proc")?.flatten() {
        let Ok(number) = entry.file_name().to_string_lossy().parse::<u32>() else {
            continue;
        };
        let read = |file: &str| {
            let bytes = std::fs::read(entry.path().join(file)).unwrap_or_default();
            String::from_utf8_lossy(&bytes).replace('\0', " ")
        };
        let (line, group, stat) = (read("cmdline"), read("cgroup"), read("stat"));
        let mut after_name = stat.rsplit(") ").next().unwrap_or_default().split(' ');
        let (state, parent) = (after_name.next(), after_name.next());
        // A zombie has ended; whose child it was is not Torno's matter.
        if state == Some("Z") {
            continue;
        }
        let role = std::fs::read_link(entry.path().join("fd/2")).is_ok_and(|to| to == log);
        let stray = role && number != supervisor && parent != Some(&*supervisor.to_string());
        if ours(&line) || ours(&group) || stray {
            left.push(format!("process {number}: {line}"));
        }
        if role {
            let links = std::fs::read_dir(entry.path().join("fd"));
            let links = links.into_iter().flatten().flatten();
            let targets = links.filter_map(|link| std::fs::read_link(link.path()).ok());
            let spaces = targets.filter(|to| to.to_string_lossy().starts_with("net:"));
            // The launcher that runs has one made ahead, which nobody was in.
            let ahead = !stray && line.starts_with("tornod-launcher ");
            let spaces = spaces.skip(usize::from(ahead));
            left.extend(spaces.map(|to| format!("namespace {} of {line}", to.display())));
        }
    }
    Ok(left)
}

fn cgroups(at: &Path, depth: usize, ours: &dyn Fn(&str) -> bool, left: &mut Vec<String>) {
    if depth > DEPTH_MAX {
        return;
    }
    for entry in std::fs::read_dir(at).into_iter().flatten().flatten() {
        if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        if ours(&entry.file_name().to_string_lossy()) {
            left.push(format!("cgroup: {}", entry.path().display()));
        }
        cgroups(&entry.path(), depth + 1, ours, left);
    }
}

fn names_in(directory: &Path) -> Result<BTreeSet<PathBuf>> {
    let entries = std::fs::read_dir(directory)
        .with_context(|| format!("cannot list {}", directory.display()))?;
    Ok(entries.flatten().map(|entry| entry.path()).collect())
}
