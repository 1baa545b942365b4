// SPDX-License-Identifier: Apache-2.0
//! Groups that an ordinary user's launcher was given, or the command by which root gives them.

use super::{CONTROLLERS, CgroupHost};
use crate::rights::Refusal;
use rustix::fs::{Access, AtFlags, CWD, accessat};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

/// Starts the daemon in a group of its own that belongs to the user.
const SYSTEMD_SCOPE: &str = "systemd-run --user --unit=tornod -p Delegate=yes tornod";
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
}
