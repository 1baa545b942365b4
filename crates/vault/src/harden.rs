// SPDX-License-Identifier: Apache-2.0
//! What a process that holds credentials does first: no core dump, no debugger of the same uid.

use rustix::process::{self, DumpableBehavior, Resource, Rlimit};
use thiserror::Error;

/// Why the process can't hold credentials.
#[derive(Debug, Error)]
#[error("the process can't be kept out of core dumps; it must not hold credentials")]
pub struct HardenError(#[from] rustix::io::Errno);

/// Makes this process undumpable (which also closes /proc/self/mem and ptrace to its own uid) and
/// sets its core limit to zero for itself and its children.
///
/// # Errors
/// [`HardenError`] when the kernel refuses.
pub fn harden_process() -> Result<(), HardenError> {
    let nothing = Rlimit {
        current: Some(0),
        maximum: Some(0),
    };
    process::setrlimit(Resource::Core, nothing)?;
    process::set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    Ok(())
}
