// SPDX-License-Identifier: Apache-2.0
//! The steps of a start by name, who may watch them, and why one failed.

use crate::cgroup::CgroupError;
use crate::network::NetworkError;
use crate::vm::{MonitorError, QmpError};
use std::fmt;
use std::io;
use thiserror::Error;

/// The steps of a start, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum StartStep {
    /// The network namespace, its rules and sockets.
    Network,
    /// The workspace given to the sandbox's ids.
    Ownership,
    /// Detached copies of the host's mounts.
    Sources,
    /// The group with its limits.
    Cgroup,
    /// The keeper beside it.
    Keeper,
    /// The staging mount namespace.
    Stage,
    /// The root directory.
    Tree,
    /// File rules.
    Rules,
    /// The bundle.
    Configuration,
    /// The runtime.
    Runtime,
    /// The first process, found again from outside.
    Process,
}

impl StartStep {
    /// Every step, in order.
    pub const ALL: [Self; 11] = [
        Self::Network,
        Self::Ownership,
        Self::Sources,
        Self::Cgroup,
        Self::Keeper,
        Self::Stage,
        Self::Tree,
        Self::Rules,
        Self::Configuration,
        Self::Runtime,
        Self::Process,
    ];
}

impl fmt::Display for StartStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Network => "network",
            Self::Ownership => "workspace ownership",
            Self::Sources => "host mounts",
            Self::Cgroup => "cgroup",
            Self::Keeper => "keeper",
            Self::Stage => "staging namespace",
            Self::Tree => "root directory",
            Self::Rules => "file rules",
            Self::Configuration => "configuration",
            Self::Runtime => "runtime",
            Self::Process => "first process",
        })
    }
}

/// Sees each step before it is taken, and may stop the start there: a launcher's progress and
/// timings, a test's faults.
pub trait Watch: Send {
    /// Called before `step`.
    ///
    /// # Errors
    /// Whatever should fail the start at this step.
    fn before(&mut self, step: StartStep) -> io::Result<()>;
}

/// Watches nothing.
#[derive(Debug, Clone, Copy)]
pub struct Unwatched;

impl Watch for Unwatched {
    fn before(&mut self, _: StartStep) -> io::Result<()> {
        Ok(())
    }
}

/// Why a start failed; nothing of it is left.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StartError {
    /// A step's own act.
    #[error("the start failed at the {step}")]
    Step {
        /// Which.
        step: StartStep,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The network.
    #[error("the network could not be sealed")]
    Network(#[from] NetworkError),
    /// The group.
    #[error("the sandbox's limits could not be set")]
    Cgroup(#[from] CgroupError),
    /// The runtime said no.
    #[error("{runtime} did not start the sandbox: `{message}`")]
    Runtime {
        /// Which.
        runtime: &'static str,
        /// Its words, bounded.
        message: String,
    },
    /// The program that makes the machine.
    #[error("no machine started")]
    Monitor(#[from] MonitorError),
    /// The workspace's descriptor is missing, or one was given that the plan has no use for.
    #[error("the plan and the descriptors given for the workspace don't agree")]
    WorkspaceDescriptor,
    /// A template could not be given to it.
    #[error("the machine could not be given its template")]
    Template(#[source] io::Error),
    /// QEMU did not make a machine of its template.
    #[error("the machine could not be restored")]
    Restore(#[source] QmpError),
}
