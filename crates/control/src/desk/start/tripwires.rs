// SPDX-License-Identifier: Apache-2.0
//! The session's tripwires, laid into its sandbox: files of the home directory and one variable.
//! They stand in memory and never in the workspace, so no diff shows them.

use std::path::PathBuf;
use torno_policy::tripwire::{Tripwire, VARIABLE, Wire};

/// Their files, below the home directory.
pub(super) fn files(tripwires: &[Tripwire]) -> Vec<(PathBuf, String)> {
    let file = |tripwire: &Tripwire| Some((tripwire.wire.file()?.into(), tripwire.text()));
    tripwires.iter().filter_map(file).collect()
}

/// Their variable, where nobody set it.
pub(super) fn variable(
    tripwires: &[Tripwire],
    env: &[(String, String)],
) -> Option<(String, String)> {
    let is_free = env.iter().all(|(name, _)| name != VARIABLE);
    let wire = tripwires.iter().find(|t| t.wire == Wire::Environment)?;
    is_free.then(|| (VARIABLE.to_owned(), wire.value.clone()))
}
