// SPDX-License-Identifier: Apache-2.0
//! An ordinary user's launcher becomes root of a user namespace of its own: there it may make
//! mounts, networks and the sandboxes' namespaces, with the ids that the system's owner gave the
//! user (subuid(5)) and nothing else of the host.

use crate::facts::Paths;
use crate::rights::{Refusal, SUBORDINATE_MAX, SUBORDINATE_MIN, SubordinateIds};
use crate::sys;
use rustix::process::Pid;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Enters the namespace, with mounts and a network of its own. For the launcher, before it has a
/// second thread, and while its files in /proc still belong to the user (dumpable). Root keeps the
/// host's users and mounts, and leaves its network.
///
/// # Errors
/// [`Refusal`] says what is missing and the command that brings it.
pub fn enter_user_namespace(paths: &Paths) -> Result<(), Refusal> {
    let uid = rustix::process::geteuid();
    if uid.is_root() {
        return sys::leave_network_namespace().map_err(|error| Refusal {
            part: format!("the launcher can't leave the host's network: {error}"),
            fix: "give tornod CAP_SYS_ADMIN, or start it as an ordinary user".to_owned(),
        });
    }
    let (uid, gid) = (uid.as_raw(), rustix::process::getegid().as_raw());
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let user = User {
        uid,
        name: name_of(&read("/etc/passwd"), uid),
    };
    let (subuid, subgid) = (read("/etc/subuid"), read("/etc/subgid"));
    let tool = |name: &str| {
        paths.find(name).ok_or_else(|| Refusal {
            part: format!("{name} is not installed"),
            fix: "apt-get install uidmap".to_owned(),
        })
    };
    let (map_uids, map_gids) = (tool("newuidmap")?, tool("newgidmap")?);
    let ids = user.ranges(&subuid, &subgid)?;
    let namespace = sys::user_namespace(|child| {
        run_map(&map_uids, child, uid, ids.uid, ids.count)?;
        run_map(&map_gids, child, gid, ids.gid, ids.count)
    });
    let namespace = namespace.map_err(|error| refused(&error))?;
    let enter = || -> io::Result<()> {
        move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::User))?;
        rustix::thread::set_thread_groups(&[])?;
        sys::leave_mount_namespace()?;
        sys::leave_network_namespace()
    };
    enter().map_err(|error| refused(&error))
}

/// Who starts the launcher.
struct User {
    uid: u32,
    name: Option<String>,
}

/// Where the user's subordinate ids begin, and how many there are of each kind.
#[derive(Debug, PartialEq, Eq)]
struct Ranges {
    uid: u32,
    gid: u32,
    count: u32,
}

impl User {
    fn ranges(&self, subuid: &str, subgid: &str) -> Result<Ranges, Refusal> {
        let found = self.largest(subuid).zip(self.largest(subgid));
        let ranges = found.map(|((uid, uids), (gid, gids))| (uid, gid, uids.min(gids)));
        if let Some((uid, gid, count)) = ranges
            && let Some(ids) = SubordinateIds::of(count)
        {
            let count = ids.count();
            return Ok(Ranges { uid, gid, count });
        }
        let uid = self.uid.to_string();
        let user = self.name.as_deref().unwrap_or(&uid);
        let start = free_start(subuid).max(free_start(subgid));
        let range = format!("{start}-{}", start.saturating_add(SUBORDINATE_MAX - 1));
        Err(Refusal {
            part: format!(
                "`{user}` has fewer than {SUBORDINATE_MIN} ids in a row in /etc/subuid and \
                 /etc/subgid"
            ),
            fix: format!("usermod --add-subuids {range} --add-subgids {range} {user}"),
        })
    }

    fn largest(&self, table: &str) -> Option<(u32, u32)> {
        let uid = self.uid.to_string();
        let own = |owner: &str| owner == uid || self.name.as_deref() == Some(owner);
        rows(table)
            .filter(|(owner, ..)| own(owner))
            .map(|(_, start, count)| (start, count))
            .max_by_key(|(_, count)| *count)
    }
}

/// The rows of subuid(5) that can be read: owner, first id, number of ids. None holds root's.
fn rows(table: &str) -> impl Iterator<Item = (&str, u32, u32)> {
    table.lines().filter_map(|line| {
        let mut words = line.split(':');
        let owner = words.next()?;
        let start: u32 = words.next()?.parse().ok()?;
        let count: u32 = words.next()?.trim().parse().ok()?;
        (start > 0 && start.checked_add(count).is_some()).then_some((owner, start, count))
    })
}

/// Where distributions begin to hand out subordinate ids.
const SUBORDINATE_FIRST: u32 = 100_000;

/// The first id behind everybody's.
fn free_start(table: &str) -> u32 {
    let ends = rows(table).map(|(_, start, count)| start.saturating_add(count));
    ends.max().unwrap_or_default().max(SUBORDINATE_FIRST)
}

/// The user's name in passwd(5); a directory service's users go by their number.
fn name_of(passwd: &str, uid: u32) -> Option<String> {
    let uid = uid.to_string();
    passwd.lines().find_map(|line| {
        let mut words = line.split(':');
        let name = words.next()?;
        (words.nth(1)? == uid).then(|| name.to_owned())
    })
}

/// LIMIT: a tool's complaint in an error.
const MESSAGE_CHARACTERS_MAX: usize = 300;

/// newuidmap(1) or newgidmap(1): the user's own id becomes root's, the others follow.
fn run_map(tool: &Path, child: Pid, own: u32, start: u32, count: u32) -> io::Result<()> {
    let words = [
        child.as_raw_nonzero().to_string(),
        "0".to_owned(),
        own.to_string(),
        "1".to_owned(),
        "1".to_owned(),
        start.to_string(),
        count.to_string(),
    ];
    let output = Command::new(tool)
        .args(words)
        .env_clear()
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .output()?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    let text = text
        .trim()
        .replace(|c: char| c.is_control() || c == '`', " ");
    Err(io::Error::other(
        text.chars()
            .take(MESSAGE_CHARACTERS_MAX)
            .collect::<String>(),
    ))
}

/// Switches by which kernels and distributions keep user namespaces for root: file, the value that
/// does, the command that changes it.
const SWITCHES: [(&str, &str, &str); 3] = [
    (
        "kernel/apparmor_restrict_unprivileged_userns",
        "1",
        "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0",
    ),
    (
        "kernel/unprivileged_userns_clone",
        "0",
        "sysctl -w kernel.unprivileged_userns_clone=1",
    ),
    (
        "user/max_user_namespaces",
        "0",
        "sysctl -w user.max_user_namespaces=15000",
    ),
];

fn refused(error: &io::Error) -> Refusal {
    let set = |(file, value, _): &&(&str, &str, &str)| {
        let path = PathBuf::from("/proc/sys").join(file);
        fs::read_to_string(path).is_ok_and(|text| text.trim() == *value)
    };
    let fix = SWITCHES.iter().find(set).map(|(.., fix)| *fix);
    Refusal {
        part: format!("a user namespace of the launcher's own could not be made: {error}"),
        // Without a switch it is the set-user-id bit of the tools that is missing.
        fix: fix
            .unwrap_or("apt-get install --reinstall uidmap")
            .to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(name: Option<&str>) -> User {
        User {
            uid: 1000,
            name: name.map(str::to_owned),
        }
    }

    #[test]
    fn the_largest_range_of_the_user_is_taken_by_name_or_number() {
        let uids = "other:100000:65536\n1000:300000:70000\nme:165536:5000\nme:bad:1\n";
        let gids = "me:165536:65536\n";
        let found = user(Some("me")).ranges(uids, gids);
        let wanted = Ranges {
            uid: 300_000,
            gid: 165_536,
            count: 65_536,
        };
        assert_eq!(found, Ok(wanted));
    }

    #[test]
    fn without_a_range_the_command_names_one_that_is_free() {
        let taken = "other:100000:65536\n";
        let refusal = user(Some("me")).ranges(taken, "").unwrap_err();
        assert_eq!(
            refusal.fix,
            "usermod --add-subuids 165536-231071 --add-subgids 165536-231071 me"
        );
        let refusal = user(None).ranges("1000:100000:100\n", "").unwrap_err();
        assert_eq!(
            refusal.fix,
            "usermod --add-subuids 100100-165635 --add-subgids 100100-165635 1000"
        );
    }

    #[test]
    fn a_row_that_reaches_root_or_over_the_end_is_none() {
        assert_eq!(rows("me:0:65536\nme:4294967295:2\nme:1\n\n").count(), 0);
    }

    #[test]
    fn a_name_is_found_by_its_number() {
        let passwd = "root:x:0:0::/root:/bin/sh\nme:x:1000:1000::/home/me:/bin/sh\n";
        assert_eq!(name_of(passwd, 1000).as_deref(), Some("me"));
        assert_eq!(name_of(passwd, 7), None);
    }
}
