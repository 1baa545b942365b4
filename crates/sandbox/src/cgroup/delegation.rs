// SPDX-License-Identifier: Apache-2.0
//! Groups that the launcher was given, or the command by which root gives them; and, in v2, how
//! the controllers of such a group are handed on.

use super::{CONTROLLERS, CgroupError, CgroupHost, write};
use crate::rights::Refusal;
use rustix::fs::{Access, AtFlags, CWD, accessat};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

/// Starts the daemon in a group of its own that belongs to the user.
const SYSTEMD_SCOPE: &str = "systemd-run --user --scope -p Delegate=yes tornod";
/// Lets users' service managers hand on every controller that limits need; older systemd keeps cpu.
const SYSTEMD_CONTROLLERS: &str = "sudo sh -c 'mkdir -p /etc/systemd/system/user@.service.d && \
     printf \"[Service]\\nDelegate=cpu memory pids\\n\" \
     >/etc/systemd/system/user@.service.d/torno.conf && systemctl daemon-reload'";

impl CgroupHost {
    /// What is missing to make groups here as an ordinary user; nothing, if they can be made.
    pub(crate) fn undelegated(&self) -> Option<Refusal> {
        let refusal = |part: String, fix: String| Some(Refusal { part, fix });
        let Some(own) = self.needed().into_iter().find(|path| !is_own(path)) else {
            let available = self
                .unified
                .as_ref()
                .map(|own| own.join("cgroup.controllers"));
            let available = available
                .map(|file| fs::read_to_string(file).unwrap_or_default())
                .unwrap_or_default();
            let has = |name: &&&str| !available.split_whitespace().any(|word| word == **name);
            return match CONTROLLERS.iter().find(has) {
                Some(missing) if self.v1.is_empty() => refusal(
                    format!("no cgroup controller for {missing} was delegated to you"),
                    SYSTEMD_CONTROLLERS.to_owned(),
                ),
                _ => None,
            };
        };
        let part = format!("the cgroup `{}` was not delegated to you", own.display());
        if self.v1.is_empty() {
            return refusal(part, SYSTEMD_SCOPE.to_owned());
        }
        refusal(part, self.hand_over())
    }

    /// The caller's directories in which groups are made.
    fn needed(&self) -> Vec<PathBuf> {
        let is_needed = |name: &str| {
            CONTROLLERS.contains(&name) || (name == "freezer" && self.unified.is_none())
        };
        let v1 = self.v1.iter().filter(|(name, _)| is_needed(name));
        let mut all: Vec<PathBuf> = v1.map(|(_, own)| own.clone()).collect();
        all.extend(self.unified.clone());
        all.sort();
        all.dedup();
        all
    }

    /// For v1 and hybrid hosts, where nobody delegates: directories for the user below its own, and
    /// the shell moved there, from which the daemon is then started.
    fn hand_over(&self) -> String {
        let mut groups = String::new();
        for own in self.needed() {
            // Writing to a string can't fail.
            let _ = write!(groups, " {}", own.join("torno-user").display());
        }
        format!(
            "sudo sh -c \"for d in{groups}; do mkdir -p \\$d && chown $(id -u) \\$d \
             \\$d/cgroup.procs && echo $$ >\\$d/cgroup.procs; done\" && tornod"
        )
    }
}

/// Whether groups can be made in a directory and processes of it be moved into them.
fn is_own(directory: &Path) -> bool {
    let may = |path: &Path| accessat(CWD, path, Access::WRITE_OK, AtFlags::EACCESS).is_ok();
    may(directory) && may(&directory.join("cgroup.procs"))
}

/// Where the daemon's own processes run in a v2 group whose controllers go to sandboxes.
const DAEMON: &str = "daemon";
/// LIMIT: a process can be started while others are moved; each round leaves only those.
const ROUNDS_MAX: usize = 20;

/// v2: a group that holds processes can't hand on controllers (cgroups(7), "no internal
/// processes"), so all of the daemon's move into a leaf first. They are the supervisor, its roles
/// and what these have started; anybody else in there is not ours to move.
pub(super) fn hand_on(parent: &Path) -> Result<(), CgroupError> {
    let control = parent.join("cgroup.subtree_control");
    let wanted = CONTROLLERS.map(|name| format!("+{name}")).join(" ");
    let Err(mut refused) = write(&control, &wanted) else {
        return Ok(());
    };
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| CgroupError::File { path, source }
    };
    let supervisor = rustix::process::getppid().map_or(0, |pid| pid.as_raw_nonzero().get());
    let leaf = parent.join(DAEMON);
    fs::create_dir_all(&leaf).map_err(failed(&leaf))?;
    for _ in 0..ROUNDS_MAX {
        let procs = parent.join("cgroup.procs");
        let text = fs::read_to_string(&procs).map_err(failed(&procs))?;
        let all: Vec<i32> = text.lines().filter_map(|line| line.parse().ok()).collect();
        if !all
            .iter()
            .all(|pid| descends_from(*pid, supervisor, parent_of))
        {
            return Err(CgroupError::Shared(parent.to_owned()));
        }
        for pid in all {
            match write(&leaf.join("cgroup.procs"), &pid.to_string()) {
                // It has ended meanwhile.
                Err(CgroupError::File { source, .. })
                    if source.raw_os_error() == Some(libc::ESRCH) => {}
                moved => moved?,
            }
        }
        match write(&control, &wanted) {
            Ok(()) => return Ok(()),
            Err(error) => refused = error,
        }
    }
    Err(refused)
}

/// LIMIT: generations between the supervisor and what its roles start; more is no descent.
const GENERATIONS_MAX: usize = 16;

/// Whether a process is another or comes from it.
fn descends_from(pid: i32, ancestor: i32, parent_of: impl Fn(i32) -> Option<i32>) -> bool {
    let mut line = std::iter::successors(Some(pid), |pid| parent_of(*pid));
    line.by_ref()
        .take(GENERATIONS_MAX)
        .any(|pid| pid == ancestor)
}

fn parent_of(pid: i32) -> Option<i32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("PPid:"))?;
    line.trim().parse().ok().filter(|parent| *parent > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_hands_over_each_hierarchy_that_is_needed() {
        let at = |name: &str| PathBuf::from("/nowhere").join(name);
        let mut host = CgroupHost {
            unified: Some(at("unified")),
            hybrid_mount: Some(at("unified")),
            v1: ["memory", "pids", "cpu", "cpuacct", "freezer"]
                .map(|name| (name.to_owned(), at(name)))
                .into(),
        };
        let refusal = host.undelegated().unwrap();
        assert_eq!(
            refusal.fix,
            "sudo sh -c \"for d in /nowhere/cpu/torno-user /nowhere/memory/torno-user \
             /nowhere/pids/torno-user /nowhere/unified/torno-user; do mkdir -p \\$d && \
             chown $(id -u) \\$d \\$d/cgroup.procs && echo $$ >\\$d/cgroup.procs; done\" && tornod"
        );
        host.unified = None;
        assert!(host.needed().contains(&at("freezer")));
    }

    #[test]
    fn on_v2_alone_a_group_or_a_controller_is_missing() {
        let directory = tempfile::tempdir().unwrap();
        let host = |unified: &Path| CgroupHost {
            unified: Some(unified.to_owned()),
            hybrid_mount: None,
            v1: vec![],
        };
        let refusal = host(Path::new("/nowhere")).undelegated().unwrap();
        assert_eq!(refusal.fix, SYSTEMD_SCOPE);
        let write = |name: &str, text: &str| fs::write(directory.path().join(name), text).unwrap();
        write("cgroup.procs", "");
        write("cgroup.controllers", "memory pids");
        let refusal = host(directory.path()).undelegated().unwrap();
        assert!(refusal.part.contains("controller for cpu"), "{refusal}");
        write("cgroup.controllers", "cpu memory pids");
        assert_eq!(host(directory.path()).undelegated(), None);
    }

    #[test]
    fn a_process_of_somebody_else_is_not_moved() {
        let parents = |pid| {
            [(5, 4), (4, 1), (7, 6), (6, 1)]
                .iter()
                .find(|(own, _)| *own == pid)
                .map(|(_, parent)| *parent)
        };
        assert!(descends_from(5, 4, parents) && descends_from(4, 4, parents));
        assert!(!descends_from(7, 4, parents) && !descends_from(1, 4, parents));
        // A plain directory takes no controllers, and holds a process that is not the test's.
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("cgroup.subtree_control")).unwrap();
        fs::write(directory.path().join("cgroup.procs"), "1\n").unwrap();
        let error = hand_on(directory.path()).unwrap_err();
        assert!(matches!(error, CgroupError::Shared(_)), "{error}");
    }
}
