// SPDX-License-Identifier: Apache-2.0
//! What comes out of a machine: unpacked by a porter into a directory of its own, which takes the
//! place of the workspace copy once it is whole. Nothing in it is read here.

use super::{Failed, Places, make_directory, name_of, open_directory};
use crate::orders::Returned;
use rustix::fs::{Mode, RenameFlags, Uid};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use torno_policy::names::SessionId;
use torno_policy::standing::Phase;

impl Places {
    /// Makes an empty directory for it, owned by the caller.
    pub(in super::super) fn prepare_return(
        &self,
        session: &SessionId,
        returned: Returned,
        owner: u32,
    ) -> Result<OwnedFd, Failed> {
        self.check_fence(session)?;
        self.drop_return(session, returned)?;
        let make = || -> anyhow::Result<OwnedFd> {
            let all = open_directory(&self.directory)?;
            let own = make_directory(all.as_fd(), session.as_str())?;
            let made = make_directory(own.as_fd(), directory_of(returned))?;
            rustix::fs::fchmod(&made, Mode::from_raw_mode(0o700))?;
            rustix::fs::fchown(&made, Some(Uid::from_raw(self.seen(owner))), None)?;
            Ok(made)
        };
        make().map_err(|e| Failed::internal(&format!("{e:#}")))
    }

    /// Puts the last that came out in the place of a phase's copy.
    pub(in super::super) fn take_return(
        &self,
        session: &SessionId,
        phase: Phase,
    ) -> Result<(), Failed> {
        self.check_fence(session)?;
        let take = || -> anyhow::Result<()> {
            let own = open_directory(&self.directory.join(session.as_str()))?;
            let last = directory_of(Returned::Last);
            // In one step: there is always a whole copy in the place.
            let exchange = RenameFlags::EXCHANGE;
            rustix::fs::renameat_with(&own, last, &own, name_of(phase), exchange)?;
            Ok(())
        };
        take().map_err(|e| Failed::internal(&format!("what came out of the machine: {e:#}")))?;
        self.drop_return(session, Returned::Last)
    }

    /// Removes one, beside us: its size is the guest's choice.
    pub(in super::super) fn drop_return(
        &self,
        session: &SessionId,
        returned: Returned,
    ) -> Result<(), Failed> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let name = directory_of(returned);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let aside = format!(".removed-{session}-{name}-{number}");
        let from = self.directory.join(session.as_str()).join(name);
        self.remove_aside(&from, &aside)
    }
}

/// Its directory, in the session's.
fn directory_of(returned: Returned) -> &'static str {
    match returned {
        Returned::Seen => "seen",
        Returned::Last => "returned",
    }
}
