// SPDX-License-Identifier: Apache-2.0
//! A sandbox's life, held by the launcher: its first process to watch, its group to end.

use crate::cgroup::{Census, Cgroup};
use crate::keeper::Keeper;
use crate::spec::SandboxId;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;

/// A sandbox's life. Dropped, it ends the sandbox and removes what belongs to it.
#[derive(Debug)]
pub struct Handle {
    pub(crate) id: SandboxId,
    pub(crate) process: OwnedFd,
    // Dropped in this order: the group dies, then its keeper has nothing left to do.
    pub(crate) cgroup: Cgroup,
    pub(crate) keeper: Option<Keeper>,
    /// A census found nobody: nobody can come any more either.
    pub(crate) dead: bool,
}

impl Handle {
    /// Whose life.
    #[must_use]
    pub fn id(&self) -> &SandboxId {
        &self.id
    }

    /// Readable once the first process (gVisor: the kernel's process) has ended.
    #[must_use]
    pub fn process(&self) -> BorrowedFd<'_> {
        self.process.as_fd()
    }

    /// Readable once one has ended that the sandbox can't be without: its first process, or its
    /// keeper, since nobody else would end it when the launcher dies.
    ///
    /// # Errors
    /// When the kernel has no descriptor left.
    pub fn vital(&self) -> io::Result<Vec<OwnedFd>> {
        let vital = self.lives().map(|life| life.try_clone_to_owned());
        vital.collect()
    }

    /// Whether it has ended, or has lost what it can't be without.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        let mut watched: Vec<_> = self
            .lives()
            .map(|life| PollFd::from_borrowed_fd(life, PollFlags::IN))
            .collect();
        !matches!(poll(&mut watched, Some(&AT_ONCE)), Ok(0))
    }

    fn lives(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let keeper = self.keeper.as_ref().map(Keeper::process);
        std::iter::once(self.process.as_fd()).chain(keeper)
    }

    /// Processes of the sandbox on the host, by pid.
    #[must_use]
    pub fn members(&self) -> BTreeSet<i32> {
        self.cgroup.members()
    }

    /// The directories of its group, for whoever must be able to end it when this process can't.
    #[must_use]
    pub fn directories(&self) -> Vec<PathBuf> {
        self.cgroup.directories()
    }

    /// Processes that were killed because the sandbox was out of memory.
    #[must_use]
    pub fn memory_kills(&self) -> u64 {
        self.cgroup.memory_kills()
    }

    /// Bytes of memory that the sandbox holds.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        self.cgroup.memory_bytes()
    }

    /// Stops or continues every process inside. Once this has stopped them, none of them does
    /// anything.
    ///
    /// # Errors
    /// When the kernel has no freezer for the group, or not all of it stood still in time.
    pub fn set_frozen(&mut self, frozen: bool) -> io::Result<()> {
        self.cgroup.set_frozen(frozen)
    }

    /// Ends every process and counts. The first process is waited for too: while it reaps the
    /// others
    /// in the kernel, its group already counts as empty.
    pub fn kill(&mut self) -> Census {
        if self.dead {
            return Census {
                alive_before: 0,
                alive_after: 0,
            };
        }
        let mut census = self.cgroup.kill();
        let mut watched = [PollFd::new(&self.process, PollFlags::IN)];
        if !matches!(poll(&mut watched, Some(&EXIT_WAIT)), Ok(1..)) {
            census.alive_after = census.alive_after.max(1);
        }
        self.cgroup.reap();
        self.dead = census.alive_after == 0;
        if let (true, Some(keeper)) = (self.dead, &mut self.keeper) {
            keeper.dismiss();
        }
        census
    }

    /// Ends what lives and removes the group; the rest of the sandbox was in its own namespaces.
    ///
    /// # Errors
    /// When the kernel still holds the group.
    pub fn remove(mut self) -> io::Result<()> {
        if self.kill().alive_after > 0 {
            return Err(io::Error::other("a process of the sandbox can't be ended"));
        }
        let Self { cgroup, keeper, .. } = self;
        cgroup.remove()?;
        drop(keeper);
        Ok(())
    }
}

const AT_ONCE: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 0,
};

/// LIMIT: a killed process that is still there after this is stuck in the kernel.
const EXIT_WAIT: Timespec = Timespec {
    tv_sec: 10,
    tv_nsec: 0,
};
