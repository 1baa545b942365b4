// SPDX-License-Identifier: Apache-2.0
//! cgroups that an administrator hands to a user: one directory in each hierarchy that limits need,
//! the user's own with its `cgroup.procs` (cgroups(7), "Delegation").

use super::about;
use std::fmt::Write as _;
use std::io;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// What limits need, in v1 or in v2.
const CONTROLLERS: [&str; 3] = ["memory", "pids", "cpu"];
/// LIMIT: how long a group may hold processes that were already killed.
const EMPTY_WAIT: Duration = Duration::from_secs(5);

/// The directories. Dropped, they go.
#[derive(Debug)]
pub struct Groups {
    directories: Vec<PathBuf>,
}

impl Groups {
    /// Makes them: below the caller's own in v1, at the top in v2 alone, since no controller can be
    /// handed on past a group that holds processes.
    pub(super) fn make(name: &str, owner: u32) -> io::Result<Self> {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let hierarchies = hierarchies(&read("/proc/self/mountinfo"), &read("/proc/self/cgroup"));
        let is_v1 = hierarchies.iter().any(|found| !found.unified);
        let mut groups = Self {
            directories: Vec::new(),
        };
        for found in &hierarchies {
            let parent = if is_v1 {
                found.own.clone()
            } else {
                hand_on(&found.mount)?;
                found.mount.clone()
            };
            let directory = parent.join(name);
            std::fs::create_dir(&directory).map_err(about(&directory))?;
            groups.directories.push(directory.clone());
            for file in [
                "",
                "cgroup.procs",
                "cgroup.subtree_control",
                "cgroup.threads",
            ] {
                let path = directory.join(file);
                if path.exists() {
                    chown(&path, Some(owner), Some(owner)).map_err(about(&path))?;
                }
            }
        }
        Ok(groups)
    }

    /// Those of a program that shares them with nobody, for the caller to start.
    ///
    /// # Errors
    /// When one can't be made.
    pub fn of_its_own(name: &str) -> io::Result<Self> {
        Self::make(&format!("torno-stage-{name}-{}", std::process::id()), 0)
    }

    /// Where this process is, in each hierarchy that limits need.
    #[must_use]
    pub fn present() -> Vec<PathBuf> {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let all = hierarchies(&read("/proc/self/mountinfo"), &read("/proc/self/cgroup"));
        // With v2 alone a daemon's groups lie beside ours (`own_groups`).
        let is_v1 = all.iter().any(|found| !found.unified);
        let place = |found: Hierarchy| if is_v1 { found.own } else { found.mount };
        all.into_iter().map(place).collect()
    }

    /// A program in each of them.
    #[must_use]
    pub fn command(&self, program: &Path) -> Command {
        let mut command = Command::new("/bin/sh");
        let script = format!("{}exec \"$@\"", self.join());
        command.args(["-c", &script, "sh"]).arg(program);
        command
    }

    /// Puts the shell that runs this into each.
    pub(super) fn join(&self) -> String {
        let mut script = String::new();
        for directory in &self.directories {
            // Writing to a string can't fail.
            let _ = writeln!(
                script,
                "echo $$ >'{}/cgroup.procs' || exit 1",
                directory.display()
            );
        }
        script
    }
}

impl Drop for Groups {
    fn drop(&mut self) {
        let end = Instant::now() + EMPTY_WAIT;
        for directory in &self.directories {
            remove(directory, end);
        }
    }
}

/// Removes a group and those below it; one whose dead are not gone in time stays, empty.
fn remove(directory: &Path, end: Instant) {
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove(&entry.path(), end);
        }
    }
    while std::fs::remove_dir(directory).is_err() && directory.exists() && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A mounted hierarchy that limits need.
struct Hierarchy {
    unified: bool,
    mount: PathBuf,
    /// The caller's own group in it.
    own: PathBuf,
}

/// v1: those of the controllers, the freezer's where there is no v2 beside them. v2: the one.
fn hierarchies(mountinfo: &str, own: &str) -> Vec<Hierarchy> {
    let mut found: Vec<(Vec<String>, Hierarchy)> = Vec::new();
    for line in mountinfo.lines() {
        let Some((left, right)) = line.split_once(" - ") else {
            continue;
        };
        let left: Vec<&str> = left.split(' ').collect();
        let right: Vec<&str> = right.split(' ').collect();
        let (&[_, _, _, root, mount, ..], &[kind, _, options, ..]) = (&*left, &*right) else {
            continue;
        };
        let unified = match kind {
            "cgroup2" => true,
            "cgroup" => false,
            _ => continue,
        };
        let words: Vec<String> = options.split(',').map(str::to_owned).collect();
        let path = own.lines().find_map(|line| {
            let (_, rest) = line.split_once(':')?;
            let (names, path) = rest.split_once(':')?;
            let is_this = if unified {
                names.is_empty()
            } else {
                let mut names = names.split(',');
                names.any(|name| words.iter().any(|word| word == name))
            };
            is_this.then_some(path)
        });
        let Some(below) = path.and_then(|path| Path::new(path).strip_prefix(root).ok()) else {
            continue;
        };
        let hierarchy = Hierarchy {
            unified,
            mount: PathBuf::from(mount),
            own: Path::new(mount).join(below),
        };
        found.push((words, hierarchy));
    }
    let is_unified = found.iter().any(|(_, hierarchy)| hierarchy.unified);
    found.retain(|(words, hierarchy)| {
        let has = |name: &str| words.iter().any(|word| word == name);
        hierarchy.unified
            || CONTROLLERS.iter().any(|name| has(name))
            || (!is_unified && has("freezer"))
    });
    found.into_iter().map(|(_, hierarchy)| hierarchy).collect()
}

/// v2: the controllers must be handed on to the groups of this directory.
fn hand_on(top: &Path) -> io::Result<()> {
    let file = top.join("cgroup.subtree_control");
    let has_all = || {
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        CONTROLLERS
            .iter()
            .all(|name| text.split_whitespace().any(|word| word == *name))
    };
    if !has_all() {
        // Whether it worked is read below.
        let _ = std::fs::write(&file, CONTROLLERS.map(|name| format!("+{name}")).join(" "));
    }
    if has_all() {
        return Ok(());
    }
    let refused = io::Error::other("hands on no controllers for limits");
    Err(about(&file)(refused))
}
