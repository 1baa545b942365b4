// SPDX-License-Identifier: Apache-2.0
//! Who is started with what. Every role is this binary again, with one inherited descriptor: its
//! channel to the supervisor, as standard input. Everything else it may touch arrives on that
//! channel as a descriptor, in the order written here. A gate is started before anybody knows whose
//! it will be: it gets its four when a session takes it, and has none before.
//!
//! Each standing role also holds a share of the roles' lock while it is alive: the next daemon of
//! the same state waits for it.
//!
//! | role | descriptors | user (with root) | must never have |
//! |---|---|---|---|
//! | desk | API listener, notary, launcher | its own | workload bytes, plaintext, root |
//! | notary | operators' listener, desk, dialer | its own | network, children, files but its own |
//! | dialer | notary | its own | credentials, plaintext, workload bytes |
//! | launcher | desk | root | network, credentials, session data |
//! | gate | notary, dialer, launcher, desk | one a gate | sockets or files of its own making |
//! | porter | the job's own | the caller's | network, everything but the job's directories |

use std::fmt;

/// A role of `tornod`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Role {
    /// The people's side.
    Desk,
    /// Decides, records, unlocks.
    Notary,
    /// Resolves, checks, dials.
    Dialer,
    /// Applies sandbox plans.
    Launcher,
    /// One session's egress and guest.
    Gate,
    /// One job on files.
    Porter,
}

impl Role {
    /// Every role, in the order in which the standing ones are started.
    pub(crate) const ALL: [Self; 6] = [
        Self::Notary,
        Self::Dialer,
        Self::Launcher,
        Self::Desk,
        Self::Gate,
        Self::Porter,
    ];

    /// Its name on the command line and in `ps`.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Desk => "desk",
            Self::Notary => "notary",
            Self::Dialer => "dialer",
            Self::Launcher => "launcher",
            Self::Gate => "gate",
            Self::Porter => "porter",
        }
    }

    /// The role of that name.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.name() == name)
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// User ids for roles and sandboxes when the daemon runs as root: from the part of the 31-bit
/// range that no distribution and no container manager hands out (1879048192 to 2147483647, see
/// systemd's "Users, Groups, UIDs and GIDs").
pub(crate) mod uids {
    /// First id of the sandboxes: ranges of 65,536 ids from here.
    pub(crate) const SANDBOXES: u32 = 0x7000_0000;
    /// Ranges before they come round again; a live range is never given twice.
    pub(crate) const SANDBOX_RANGES: u32 = 0x0f00;
    const ROLES: u32 = 0x7fff_0000;
    /// The desk's id.
    pub(crate) const DESK: u32 = ROLES + 1;
    /// The notary's id.
    pub(crate) const NOTARY: u32 = ROLES + 2;
    /// The dialer's id.
    pub(crate) const DIALER: u32 = ROLES + 3;
    const GATES: u32 = ROLES + 0x100;
    const GATE_IDS: u32 = 0xfe00;

    /// The id of the n-th gate since the daemon's start.
    pub(crate) const fn gate(number: u32) -> u32 {
        GATES + number % GATE_IDS
    }
}
