// SPDX-License-Identifier: Apache-2.0
//! A sandbox's life, held by the launcher: its first process to watch, its group to end.

use crate::cgroup::{Census, Cgroup};
use crate::keeper::Keeper;
use crate::spec::SandboxId;
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

    /// Ends every process and counts.
    pub fn kill(&mut self) -> Census {
        self.cgroup.kill()
    }

    /// Ends what lives and removes the group; the rest of the sandbox was in its own namespaces.
    ///
    /// # Errors
    /// When the kernel still holds the group.
    pub fn remove(self) -> io::Result<()> {
        let Self {
            cgroup,
            keeper,
            process,
            ..
        } = self;
        drop(process);
        if !cgroup.is_empty() {
            cgroup.kill();
        }
        cgroup.remove()?;
        drop(keeper);
        Ok(())
    }
}
