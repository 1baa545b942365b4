// SPDX-License-Identifier: Apache-2.0
//! What a host has at one moment that a session could leave behind: processes, mounts, cgroups,
//! packet filters, network devices and namespaces, sockets, shared memory, files. Two pictures are
//! compared; nothing is looked for by name, so a leak that nobody thought of is a difference too.
//! That needs a host to itself: [`alone`] makes one of namespaces.

use crate::account::Groups;
use anyhow::{Context, Result, ensure};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// LIMIT: how deep directories are looked through; a workspace copy is within it.
const DEPTH_MAX: usize = 24;
/// Below these the host itself keeps what runtimes and tools lay down.
const SHARED: [(&str, usize); 2] = [("/run", 2), ("/dev/shm", 1)];
/// LIMIT: between two pictures of a host that is coming to rest.
const LOOK_STEP: Duration = Duration::from_millis(100);

/// What pictures are taken of.
#[derive(Debug)]
pub struct Host {
    groups: Vec<PathBuf>,
    files: Vec<PathBuf>,
}

/// A line for each thing that there was.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Picture(BTreeSet<String>);

/// A program in process, mount, network and IPC namespaces and cgroups of its own, in which it can
/// call all that it sees its own. Its parent there reaps orphans, as an init does.
///
/// # Errors
/// When the groups can't be made.
pub fn alone(program: &Path, words: &[OsString]) -> Result<(Groups, Command)> {
    let groups = Groups::of_its_own("alone").context("no cgroups of our own")?;
    let mut command = groups.command(Path::new("unshare"));
    command
        .args(["--pid", "--fork", "--kill-child", "--mount", "--mount-proc"])
        .args(["--net", "--ipc", "--propagation", "private", "--"])
        // A second command keeps the shell: it is the namespace's init.
        .args(["sh", "-c", "ip link set lo up && \"$@\"; exit $?", "init"])
        .arg(program)
        .args(words);
    Ok((groups, command))
}

impl Host {
    /// This process's groups, and these directories besides what everybody shares.
    #[must_use]
    pub fn new(files: &[&Path]) -> Self {
        Self {
            groups: Groups::present(),
            files: files.iter().map(|path| (*path).to_owned()).collect(),
        }
    }

    /// Takes a picture.
    ///
    /// # Errors
    /// When one of its parts can't be read.
    pub fn picture(&self) -> Result<Picture> {
        let mut lines = BTreeSet::new();
        processes(&mut lines)?;
        for line in read("/proc/self/mountinfo")?.lines() {
            // Number and parent's number change with what else is mounted.
            let words: Vec<&str> = line.splitn(4, ' ').collect();
            lines.insert(format!("mount: {}", words.last().unwrap_or(&line)));
        }
        for group in &self.groups {
            tree("cgroup", group, DEPTH_MAX, true, &mut lines);
        }
        for line in spoken("nft", &["list", "ruleset"])?.lines() {
            lines.insert(format!("packet filter: {}", line.trim()));
        }
        for line in read("/proc/net/dev")?.lines().skip(2) {
            let name = line.split(':').next().unwrap_or_default().trim();
            lines.insert(format!("network device: {name}"));
        }
        for line in read("/proc/net/unix")?.lines().skip(1) {
            if let Some(path) = line.split_whitespace().nth(7) {
                lines.insert(format!("socket: {path}"));
            }
        }
        for line in read("/proc/sysvipc/shm")?.lines().skip(1) {
            lines.insert(format!("shared memory: {}", line.trim()));
        }
        for (path, depth) in SHARED {
            tree("file", Path::new(path), depth, false, &mut lines);
        }
        for path in &self.files {
            tree("file", path, DEPTH_MAX, false, &mut lines);
        }
        Ok(Picture(lines))
    }

    /// Waits until there is nothing that there wasn't before; what there still is after this time.
    ///
    /// # Errors
    /// As [`Self::picture`].
    pub fn at_rest(&self, before: &Picture, limit: Duration) -> Result<Vec<String>> {
        let end = Instant::now() + limit;
        loop {
            let gained = before.gained(&self.picture()?);
            if gained.is_empty() || Instant::now() > end {
                return Ok(gained);
            }
            std::thread::sleep(LOOK_STEP);
        }
    }
}

impl Picture {
    /// What a later one has and this one has not.
    #[must_use]
    pub fn gained(&self, later: &Self) -> Vec<String> {
        later.0.difference(&self.0).cloned().collect()
    }
}

/// Processes, the dead that nobody reaped too, and the network namespaces that they keep alive.
fn processes(lines: &mut BTreeSet<String>) -> Result<()> {
    for entry in std::fs::read_dir("/proc").context("/proc")?.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        // The looker's own children come and go.
        let is_own = name.parse() == Ok(std::process::id());
        if is_own || name.parse::<u32>().is_err() {
            continue;
        }
        let stat = std::fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        let after_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
        let words: Vec<&str> = after_name.split_whitespace().collect();
        let (Some(state), Some(born)) = (words.first(), words.get(19)) else {
            continue;
        };
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        let dead = if *state == "Z" { "dead " } else { "" };
        lines.insert(format!("{dead}process {name}, born {born}: {line}"));
        let mut kept = vec![entry.path().join("ns/net")];
        let open = std::fs::read_dir(entry.path().join("fd"));
        kept.extend(open.into_iter().flatten().flatten().map(|fd| fd.path()));
        for link in kept {
            let to = std::fs::read_link(link).unwrap_or_default();
            if to.to_string_lossy().starts_with("net:") {
                lines.insert(format!("network namespace: {}", to.display()));
            }
        }
    }
    Ok(())
}

/// What lies below a directory, no deeper than so many levels; links are not followed.
fn tree(kind: &str, at: &Path, depth: usize, groups: bool, lines: &mut BTreeSet<String>) {
    // What goes away meanwhile is not there.
    for entry in std::fs::read_dir(at).into_iter().flatten().flatten() {
        let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if is_directory || !groups {
            lines.insert(format!("{kind}: {}", entry.path().display()));
        }
        if is_directory && depth > 1 {
            tree(kind, &entry.path(), depth - 1, groups, lines);
        }
    }
}

fn read(path: &str) -> Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("cannot read {path}"))
}

fn spoken(program: &str, words: &[&str]) -> Result<String> {
    let output = Command::new(program)
        .args(words)
        .stdin(Stdio::null())
        .output();
    let output = output.with_context(|| format!("cannot start {program}"))?;
    ensure!(
        output.status.success(),
        "{program} ended with {}",
        output.status
    );
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
