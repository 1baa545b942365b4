// SPDX-License-Identifier: Apache-2.0
//! The second wall: the thread that unpacks can write into one directory and read another, whatever
//! an archive makes it do (landlock(7)). A kernel without it has the first wall alone.

use super::UnpackError;
use landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, PathBeneath, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetError, Scope,
};
use std::io;
use std::os::fd::{AsFd, OwnedFd};

/// Rights that are taken where the kernel knows them.
const WANTED: ABI = ABI::V6;

/// Runs work on a thread of its own that reaches one directory to read and one to write, no TCP and
/// no socket of others.
///
/// # Errors
/// [`UnpackError::Thread`] when there is no thread or no wall; else the work's own.
pub fn behind_a_wall<T: Send>(
    read: &OwnedFd,
    write: &OwnedFd,
    work: impl FnOnce() -> Result<T, UnpackError> + Send,
) -> Result<T, UnpackError> {
    let broken = |_| UnpackError::Thread(io::Error::other("the thread broke"));
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("unpack".to_owned());
        let walled = || {
            let raised = raise(read, write);
            raised.map_err(|error| UnpackError::Thread(io::Error::other(error)))?;
            work()
        };
        let running = thread.spawn_scoped(scope, walled);
        running
            .map_err(UnpackError::Thread)?
            .join()
            .map_err(broken)?
    })
}

fn raise(read: &OwnedFd, write: &OwnedFd) -> Result<(), RulesetError> {
    let files = AccessFs::from_all(WANTED);
    let ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(files)?
        .handle_access(AccessNet::from_all(WANTED))?
        .scope(Scope::from_all(WANTED))?
        .create()?
        .add_rule(PathBeneath::new(read.as_fd(), AccessFs::from_read(WANTED)))?
        .add_rule(PathBeneath::new(write.as_fd(), files))?;
    ruleset.restrict_self()?;
    Ok(())
}
