// SPDX-License-Identifier: Apache-2.0
//! What the launcher may do here: everything, as root of the host; what an ordinary user may, as
//! root of a user namespace of its own ([`crate::enter_user_namespace`]); or nothing, with the
//! command that changes it.

use crate::cgroup::CgroupHost;
use std::fs;
use thiserror::Error;

/// As whom sandboxes are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rights {
    /// Root with every id of the host: each sandbox has 65,536 of its own.
    Root,
    /// Root of a user namespace: each sandbox has the three ids that are in use inside, from the
    /// subordinate ones.
    Namespace(SubordinateIds),
}

/// Nothing can be started, and what changes that.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{part}: run `{fix}`")]
pub struct Refusal {
    /// What is missing, in words.
    pub part: String,
    /// The command.
    pub fix: String,
}

/// The user's subordinate ids: 1 to `count` in the launcher's namespace, as uids and as gids.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SubordinateIds {
    count: u32,
}

/// Ids of one sandbox: its root's, the agent's and nobody's.
const IDS_OF_ONE: u32 = 3;
/// LIMIT: fewer ids than this wouldn't do for the sandboxes of one busy day without reuse.
pub(crate) const SUBORDINATE_MIN: u32 = 4096;
/// LIMIT: what distributions hand out; more is left to the user's other containers.
pub(crate) const SUBORDINATE_MAX: u32 = 65_536;

impl SubordinateIds {
    /// That many, if they are enough.
    pub(crate) fn of(count: u32) -> Option<Self> {
        (count >= SUBORDINATE_MIN).then(|| Self {
            count: count.min(SUBORDINATE_MAX),
        })
    }

    pub(crate) fn count(self) -> u32 {
        self.count
    }

    /// The first id for sandboxes: other container managers of the same user begin at the bottom.
    fn first(self) -> u32 {
        1 + self.count / 2
    }

    /// How many sandboxes can have ids of their own; one more range, at this index, is for probes.
    #[must_use]
    pub fn ranges(self) -> u32 {
        (self.count - self.count / 2) / IDS_OF_ONE - 1
    }

    /// The first id of the n-th sandbox, in the launcher's namespace.
    #[must_use]
    pub fn base(self, range: u32) -> u32 {
        self.first() + range * IDS_OF_ONE
    }

    /// Whether a sandbox's ids from here on are among them.
    pub(crate) fn hold(self, base: u32) -> bool {
        (self.first()..=self.count + 1 - IDS_OF_ONE).contains(&base)
    }
}

impl Rights {
    /// Reads them from the process's own ids and maps, and the groups it was given.
    ///
    /// # Errors
    /// [`Refusal`] where nothing can be started.
    pub(crate) fn discover(cgroups: &CgroupHost) -> Result<Self, Refusal> {
        if !rustix::process::geteuid().is_root() {
            return Err(Refusal {
                part: "the launcher is neither root nor in a user namespace of its own".to_owned(),
                fix: "torno doctor".to_owned(),
            });
        }
        let read = |file: &str| fs::read_to_string(file).unwrap_or_default();
        let (uids, gids) = (read("/proc/self/uid_map"), read("/proc/self/gid_map"));
        if is_whole(&uids) && is_whole(&gids) {
            return Ok(Self::Root);
        }
        let count = mapped(&uids).min(mapped(&gids));
        let ids = SubordinateIds::of(count).ok_or_else(|| Refusal {
            part: format!(
                "the launcher's user namespace maps {count} ids besides its own; \
                 {SUBORDINATE_MIN} are needed"
            ),
            fix: "torno doctor".to_owned(),
        })?;
        match cgroups.undelegated() {
            None => Ok(Self::Namespace(ids)),
            Some(refusal) => Err(refusal),
        }
    }
}

/// Every id of the host.
fn is_whole(map: &str) -> bool {
    map.split_whitespace().eq(["0", "0", "4294967295"])
}

/// Ids from 1 on that are mapped in one piece.
fn mapped(map: &str) -> u32 {
    let counts = map.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        let inside = words.next()?;
        let count: u32 = words.nth(1)?.parse().ok()?;
        match inside {
            "1" => Some(count),
            "0" => Some(count.saturating_sub(1)),
            _ => None,
        }
    });
    counts.max().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_is_whole_only_if_it_is_the_hosts_own() {
        assert!(is_whole("         0          0 4294967295\n"));
        assert!(!is_whole("         0       1000          1\n"));
        assert!(!is_whole("0 100000 65536\n"));
        assert!(!is_whole(""));
    }

    #[test]
    fn ids_are_counted_from_the_map() {
        assert_eq!(mapped("0 1000 1\n1 100000 65536\n"), 65_536);
        assert_eq!(mapped("0 100000 65536\n"), 65_535);
        assert_eq!(mapped("0 1000 1\n"), 0);
    }

    #[test]
    fn sandboxes_have_ids_of_their_own_in_the_upper_half() {
        for count in [SUBORDINATE_MIN, 10_001, SUBORDINATE_MAX] {
            let ids = SubordinateIds::of(count).unwrap();
            let last = ids.base(ids.ranges());
            assert!(ids.base(0) > count / 2);
            assert!(ids.hold(ids.base(0)) && ids.hold(last));
            assert!(last + IDS_OF_ONE - 1 <= count);
            assert_eq!(ids.base(1), ids.base(0) + IDS_OF_ONE);
            assert!(!ids.hold(0) && !ids.hold(1) && !ids.hold(count));
        }
        assert_eq!(SubordinateIds::of(SUBORDINATE_MIN - 1), None);
    }
}
