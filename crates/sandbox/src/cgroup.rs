// SPDX-License-Identifier: Apache-2.0
//! The sandbox's own group in each cgroup hierarchy: v2 alone, or v1 for limits with a v2 directory
//! for the kill on hybrid hosts. The launcher makes it, writes the limits at its top, starts the
//! runtime inside, and takes it down again.

mod delegation;
mod kill;
mod watch;

pub use kill::Census;

use crate::spec::SandboxId;
use crate::sys::Entrances;
use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// The limits as cgroup files hold them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CgroupValues {
    /// Memory, page cache and kernel memory in bytes; no swap besides.
    pub memory_bytes: u64,
    /// Processes and threads.
    pub pids: u64,
    /// CPU time in microseconds per period.
    pub cpu_quota_us: u64,
    /// The period in microseconds.
    pub cpu_period_us: u64,
}

/// How many v1 hierarchies a group spans.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// Those that hold limits.
    Limits,
    /// All, for a runtime (runc) that makes groups of its own in each: they lie below ours and go
    /// with them.
    Every,
}

/// The launcher's own directories in the hierarchies that count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CgroupHost {
    /// v2: the directory under which groups are made.
    pub unified: Option<PathBuf>,
    /// Where the v2 hierarchy is mounted beside v1 ones; hidden from a runtime that refuses
    /// hybrid hosts.
    pub hybrid_mount: Option<PathBuf>,
    /// v1: each controller or named hierarchy, and the directory in it.
    pub v1: Vec<(String, PathBuf)>,
}

/// Why a group could not be made.
#[derive(Debug, Error)]
pub enum CgroupError {
    /// No way to hold a limit: refused, never unlimited by accident.
    #[error("no cgroup controller for {0}: delegate it to the launcher (systemd: `Delegate=yes`)")]
    NoController(&'static str),
    /// A file or directory.
    #[error("`{path}` could not be made or written")]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// v2: limits for a part of a group can't be had while the rest of it runs in the group itself.
    #[error(
        "the cgroup `{0}` holds processes that are not Torno's: start tornod in one of its own, \
         `systemd-run --scope -p Delegate=yes tornod`"
    )]
    Shared(PathBuf),
    /// The kernel holds another value than the one written.
    #[error("`{0}` does not hold the limit that was written")]
    NotHeld(PathBuf),
}

const CONTROLLERS: [&str; 3] = ["memory", "pids", "cpu"];

impl CgroupHost {
    /// Reads the hierarchies and the caller's own place in them.
    #[must_use]
    pub fn discover() -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        Self::parse(&read("/proc/self/mountinfo"), &read("/proc/self/cgroup"))
    }

    fn parse(mountinfo: &str, own: &str) -> Self {
        let mut host = Self {
            unified: None,
            hybrid_mount: None,
            v1: Vec::new(),
        };
        for line in mountinfo.lines() {
            let Some((left, right)) = line.split_once(" - ") else {
                continue;
            };
            let mut fields = left.split(' ').skip(3);
            let (Some(root), Some(mount)) = (fields.next(), fields.next()) else {
                continue;
            };
            let mut kind = right.split(' ');
            let (kind, options) = (
                kind.next().unwrap_or_default(),
                kind.nth(1).unwrap_or_default(),
            );
            match kind {
                "cgroup2" => {
                    host.unified = own_directory(own, "", root, mount);
                    host.hybrid_mount = Some(PathBuf::from(mount));
                }
                "cgroup" => {
                    let all = own
                        .lines()
                        .filter_map(|line| line.split(':').nth(1))
                        .flat_map(|names| names.split(','));
                    for name in all.filter(|name| {
                        !name.is_empty() && options.split(',').any(|word| word == *name)
                    }) {
                        if let Some(directory) = own_directory(own, name, root, mount) {
                            host.v1.push((name.to_owned(), directory));
                        }
                    }
                }
                _ => {}
            }
        }
        if host.v1.is_empty() {
            host.hybrid_mount = None;
        }
        host
    }

    /// Where a sandbox's group lies, or would.
    #[must_use]
    pub fn groups_of(&self, id: &SandboxId) -> Vec<PathBuf> {
        let parents = self.unified.iter();
        let parents = parents.chain(self.v1.iter().map(|(_, parent)| parent));
        parents.map(|parent| parent.join(group_name(id))).collect()
    }

    /// Makes the group and writes the limits.
    ///
    /// # Errors
    /// [`CgroupError`]; what was made is removed again.
    pub fn make(
        &self,
        name: &str,
        values: CgroupValues,
        reach: Reach,
    ) -> Result<Cgroup, CgroupError> {
        let mut group = Cgroup {
            unified: None,
            v1: Vec::new(),
        };
        let group_needs_freezer = self.unified.is_none();
        if let Some(parent) = &self.unified {
            if self.v1.is_empty() {
                delegation::hand_on(parent)?;
            }
            let directory = parent.join(name);
            make_directory(&directory)?;
            group.unified = Some(directory);
        }
        let is_needed = |controller: &str| {
            CONTROLLERS.contains(&controller) || (controller == "freezer" && group_needs_freezer)
        };
        for (controller, parent) in &self.v1 {
            if reach == Reach::Limits && !is_needed(controller) {
                continue;
            }
            let directory = parent.join(name);
            if !group.v1.iter().any(|(_, made)| *made == directory) {
                make_directory(&directory)?;
            }
            if controller == "cpuset" {
                // A new group of this one holds no CPU until it is told which.
                for file in ["cpuset.cpus", "cpuset.mems"] {
                    let parents = fs::read_to_string(parent.join(file)).unwrap_or_default();
                    write(&directory.join(file), &parents)?;
                }
            }
            group.v1.push((controller.clone(), directory));
        }
        group.limit(values)?;
        Ok(group)
    }
}

/// Ends the sandboxes that an earlier launcher left behind, except those that `keep` names: for the
/// launcher, when it starts. Answers which.
///
/// # Errors
/// When a group can't be ended or removed.
pub fn sweep(host: &CgroupHost, keep: impl Fn(&SandboxId) -> bool) -> io::Result<Vec<SandboxId>> {
    let parents = host
        .unified
        .iter()
        .chain(host.v1.iter().map(|(_, parent)| parent));
    let names: BTreeSet<SandboxId> = parents
        .flat_map(|parent| fs::read_dir(parent).into_iter().flatten().flatten())
        .filter_map(|entry| {
            SandboxId::parse(entry.file_name().to_str()?.strip_prefix(PREFIX)?).ok()
        })
        .filter(|id| !keep(id))
        .collect();
    for id in &names {
        let made = host.groups_of(id).into_iter().filter(|path| path.exists());
        let group = Cgroup::of_directories(made.collect());
        if group.kill().alive_after > 0 {
            return Err(io::Error::other(
                "a process of a left-over sandbox can't be ended",
            ));
        }
        group.remove()?;
    }
    Ok(names.into_iter().collect())
}

/// Ends what runs in one directory of a left-over group, and removes it: for who knows that it is
/// nobody's.
///
/// # Errors
/// When a process in it can't be ended, or it can't be removed.
pub fn end_group(directory: &Path) -> io::Result<()> {
    let group = Cgroup::of_directories(vec![directory.to_owned()]);
    if group.kill().alive_after > 0 {
        return Err(io::Error::other("a process in it can't be ended"));
    }
    group.remove()
}

const PREFIX: &str = "torno-";

/// The group's name in every hierarchy.
pub(crate) fn group_name(id: &SandboxId) -> String {
    format!("{PREFIX}{id}")
}

/// The caller's directory in one hierarchy: its path in `/proc/self/cgroup` below the mounted root.
fn own_directory(own: &str, controller: &str, root: &str, mount: &str) -> Option<PathBuf> {
    let path = own.lines().find_map(|line| {
        let (_, rest) = line.split_once(':')?;
        let (names, path) = rest.split_once(':')?;
        names
            .split(',')
            .any(|name| name == controller)
            .then_some(path)
    })?;
    let below = Path::new(path).strip_prefix(root).ok()?;
    Some(if below.as_os_str().is_empty() {
        PathBuf::from(mount)
    } else {
        Path::new(mount).join(below)
    })
}

fn make_directory(path: &Path) -> Result<(), CgroupError> {
    fs::create_dir(path).map_err(|source| CgroupError::File {
        path: path.to_owned(),
        source,
    })
}

fn write(path: &Path, value: &str) -> Result<(), CgroupError> {
    fs::write(path, value).map_err(|source| CgroupError::File {
        path: path.to_owned(),
        source,
    })
}

/// Writes a limit and reads it back: the kernel may round it down to whole pages, never up.
fn hold(path: &Path, value: u64) -> Result<(), CgroupError> {
    write(path, &value.to_string())?;
    let held = fs::read_to_string(path)
        .ok()
        .and_then(|text| text.trim().parse::<u64>().ok());
    match held {
        Some(held) if held <= value && value - held < PAGE_BYTES_MAX => Ok(()),
        _ => Err(CgroupError::NotHeld(path.to_owned())),
    }
}

/// LIMIT: the largest page of a supported machine (aarch64 with 64 KiB pages).
const PAGE_BYTES_MAX: u64 = 65_536;

/// A sandbox's group. Dropped, it kills what is left inside and is removed.
#[derive(Debug)]
pub struct Cgroup {
    unified: Option<PathBuf>,
    v1: Vec<(String, PathBuf)>,
}

impl Cgroup {
    fn limit(&self, values: CgroupValues) -> Result<(), CgroupError> {
        if self.v1.is_empty() {
            let group = self
                .unified
                .as_deref()
                .ok_or(CgroupError::NoController("anything"))?;
            for (controller, file) in [
                ("memory", "memory.max"),
                ("pids", "pids.max"),
                ("cpu", "cpu.max"),
            ] {
                if !group.join(file).exists() {
                    return Err(CgroupError::NoController(controller));
                }
            }
            hold(&group.join("memory.max"), values.memory_bytes)?;
            write_if_there(&group.join("memory.swap.max"), "0")?;
            write_if_there(&group.join("memory.oom.group"), "0")?;
            hold(&group.join("pids.max"), values.pids)?;
            return write(
                &group.join("cpu.max"),
                &format!("{} {}", values.cpu_quota_us, values.cpu_period_us),
            );
        }
        let memory = self.directory("memory")?;
        hold(&memory.join("memory.limit_in_bytes"), values.memory_bytes)?;
        write_if_there(
            &memory.join("memory.memsw.limit_in_bytes"),
            &values.memory_bytes.to_string(),
        )?;
        hold(&self.directory("pids")?.join("pids.max"), values.pids)?;
        let cpu = self.directory("cpu")?;
        hold(&cpu.join("cpu.cfs_period_us"), values.cpu_period_us)?;
        hold(&cpu.join("cpu.cfs_quota_us"), values.cpu_quota_us)
    }

    fn directory(&self, controller: &'static str) -> Result<&Path, CgroupError> {
        self.v1
            .iter()
            .find(|(name, _)| name == controller)
            .map(|(_, directory)| directory.as_path())
            .ok_or(CgroupError::NoController(controller))
    }

    /// Every directory of the group, for a keeper.
    #[must_use]
    pub fn directories(&self) -> Vec<PathBuf> {
        let mut all: Vec<PathBuf> = self.unified.iter().cloned().collect();
        all.extend(self.v1.iter().map(|(_, directory)| directory.clone()));
        all.dedup();
        all
    }

    /// The group that a keeper was told of.
    #[must_use]
    pub(crate) fn of_directories(directories: Vec<PathBuf>) -> Self {
        let mut group = Self {
            unified: None,
            v1: Vec::new(),
        };
        for directory in directories {
            if directory.join("cgroup.events").exists() {
                group.unified = Some(directory);
            } else {
                let freezer = directory.join("freezer.state").exists();
                group
                    .v1
                    .push((if freezer { "freezer" } else { "v1" }.to_owned(), directory));
            }
        }
        group
    }

    /// Opens the ways in, for a program that is started inside.
    pub(crate) fn open(&self) -> io::Result<Entrances> {
        let unified = self.unified.as_ref().map(File::open).transpose()?;
        let v1: BTreeSet<&PathBuf> = self.v1.iter().map(|(_, directory)| directory).collect();
        let tasks = v1
            .into_iter()
            .map(|directory| OpenOptions::new().write(true).open(directory.join("tasks")))
            .collect::<io::Result<_>>()?;
        Ok(Entrances {
            unified: unified.map(OwnedFd::from),
            tasks,
        })
    }
}

fn write_if_there(path: &Path, value: &str) -> Result<(), CgroupError> {
    if path.exists() {
        write(path, value)
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests;
