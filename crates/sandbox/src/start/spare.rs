// SPDX-License-Identifier: Apache-2.0
//! A sandbox made ahead of the session that gets it: booted, or a machine restored, with nothing in
//! it but the agent. It
//! is claimed once, by one session, whose plan must be its own but for what the session brings.
//!
//! ```text
//!  make ──▶ waiting ──claim──▶ a session's, like any other
//!              │
//!              └─ dropped, dead, or made from another host: ended
//! ```

use super::{StartError, StartInputs, Started, Watch, start_open};
use crate::plan::{Plan, TreeStep};
use crate::stage::{self, Doors};
use crate::vm::{Machine, Renewal, Template};
use rustix::fs::{FileType, Stat, fstat, stat};
use std::io;
use std::os::fd::BorrowedFd;
use std::path::Path;
use thiserror::Error;

/// Why a sandbox that was made ahead is not the session's. It is gone then.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ClaimError {
    /// The plans differ in more than what a session brings.
    #[error("the sandbox made ahead has another shape than the session's")]
    Shape,
    /// Its first process, or the kernel that runs it, has ended.
    #[error("the sandbox made ahead has ended")]
    Ended,
    /// A runtime or directory was replaced since it was made.
    #[error("the host has changed since the sandbox was made ahead")]
    Host,
    /// The directory given is not the one that it was made with.
    #[error("the sandbox made ahead has another workspace")]
    Workspace,
    /// A file or the workspace's owner could not be written.
    #[error("what the session brings could not be written")]
    Write(#[source] io::Error),
}

/// A sandbox that waits. Dropped, it ends.
#[derive(Debug)]
pub struct Spare {
    plan: Plan,
    started: Started,
    doors: Doors,
    /// Of the directory that it was given as workspace.
    workspace: Option<Identity>,
    host: Host,
}

impl Spare {
    /// Makes one by a plan without anything of a session. The agent must be told to wait for its
    /// host.
    ///
    /// # Errors
    /// [`StartError`]; whatever was made is gone again.
    pub fn make(
        plan: Plan,
        inputs: StartInputs,
        watch: &mut dyn Watch,
    ) -> Result<Self, StartError> {
        // First: what is replaced while it is made counts as changed.
        let host = Host::of(&plan);
        let workspace = inputs.workspace.as_ref();
        let workspace = workspace.and_then(|directory| fstat(directory).ok());
        let workspace = workspace.map(|found| Identity::of(&found));
        let (started, doors) = start_open(&plan, inputs, watch)?;
        Ok(Self {
            plan,
            started,
            doors,
            workspace,
            host,
        })
    }

    /// Makes one by restoring the machine of a plan that the template fits.
    ///
    /// # Errors
    /// [`StartError`]; whatever was made is gone again.
    pub fn restore(
        template: &Template,
        plan: Plan,
        inputs: StartInputs,
        watch: &mut dyn Watch,
    ) -> Result<Self, StartError> {
        let plan = plan.restored();
        let host = Host::of(&plan);
        let (started, doors) = template.restore_open(&plan, inputs, watch)?;
        Ok(Self {
            plan,
            started,
            doors,
            workspace: None,
            host,
        })
    }

    /// Whether a session could still have it.
    ///
    /// # Errors
    /// [`ClaimError`] says why not.
    pub fn check(&self) -> Result<(), ClaimError> {
        if self.started.handle.has_ended() {
            return Err(ClaimError::Ended);
        }
        if self.host != Host::of(&self.plan) {
            return Err(ClaimError::Host);
        }
        Ok(())
    }

    /// Bytes of memory that it holds while it waits.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        self.started.handle.memory_bytes()
    }

    /// Makes it the sandbox of the session with that plan: what the session brings is written, and
    /// the workspace, which was filled meanwhile, given to the sandbox's ids. Until then nobody but
    /// the agent has run in it; it runs nothing before its host speaks.
    ///
    /// # Errors
    /// [`ClaimError`]; the sandbox is gone.
    pub fn claim(
        self,
        wanted: &Plan,
        workspace: Option<BorrowedFd<'_>>,
    ) -> Result<Started, ClaimError> {
        self.check()?;
        let restored = self.plan.is_restored().then(|| wanted.clone().restored());
        let wanted = restored.as_ref().unwrap_or(wanted);
        let brought = self.plan.brought(wanted).ok_or(ClaimError::Shape)?;
        let given = workspace.map(fstat).transpose();
        let given = given.map_err(|error| ClaimError::Write(error.into()))?;
        if given.map(|found| Identity::of(&found)) != self.workspace {
            return Err(ClaimError::Workspace);
        }
        if let Some(workspace) = workspace {
            let owner = self.plan.ids.agent();
            stage::give_to(workspace, owner).map_err(ClaimError::Write)?;
        }
        for (path, content) in brought {
            self.doors
                .rewrite(path, content)
                .map_err(ClaimError::Write)?;
        }
        Ok(Started {
            renewal: Renewal::of(wanted),
            ..self.started
        })
    }
}

/// Which file or directory something is. A directory is bound as it is, and what it holds may
/// change; a file may be written in place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Identity {
    device: u64,
    inode: u64,
    /// Of files: when it was last changed.
    changed: Option<(i64, u64)>,
}

impl Identity {
    fn of(found: &Stat) -> Self {
        let is_directory = FileType::from_raw_mode(found.st_mode) == FileType::Directory;
        Self {
            device: found.st_dev,
            inode: found.st_ino,
            changed: (!is_directory).then_some((found.st_ctime, found.st_ctime_nsec)),
        }
    }
}

/// What a plan takes of the host: the runtime, everything that it binds, and QEMU.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Host(Vec<Option<Identity>>);

impl Host {
    /// As it is now.
    pub(crate) fn of(plan: &Plan) -> Self {
        let bound = plan.tree.iter().filter_map(|step| match step {
            TreeStep::Bind { host, .. } => Some(host.as_path()),
            _ => None,
        });
        let first = [plan.runtime.path.as_path()].into_iter();
        let all = first.chain(plan.machine.as_ref().and_then(Machine::host));
        Self(all.chain(bound).map(identity).collect())
    }
}

fn identity(path: &Path) -> Option<Identity> {
    Some(Identity::of(&stat(path).ok()?))
}
