// SPDX-License-Identifier: Apache-2.0
//! Desk → launcher: checkpoints of sessions' workspaces.

use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use torno_control_api::request::Checkpoint;
use torno_policy::names::CheckpointName;

/// Where checkpoints lie, and how much of them is kept.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Keeping {
    pub(crate) directory: PathBuf,
    /// How many.
    pub(crate) most: usize,
    /// Bytes of all of them.
    pub(crate) bytes: u64,
    /// Seconds after which one counts as forgotten.
    pub(crate) age: u64,
}

/// One step of a checkpoint's life.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum CheckpointOrder {
    /// Make its directory, owned by `owner`, where nobody finds it yet.
    Begin {
        name: CheckpointName,
        /// The uid, so that the porter may fill it.
        owner: u32,
    },
    /// It is whole: from here on it is found. The message carries the baseline of the session.
    Keep(Checkpoint),
    /// It is not wanted after all.
    GiveUp { name: CheckpointName },
    /// All of them.
    List,
    /// One, with its directory.
    Open { name: CheckpointName },
    /// One, with the baseline that was kept with it.
    OpenBaseline { name: CheckpointName },
    /// One goes.
    Remove { name: CheckpointName },
    /// One goes that was found to be forgotten, if it is that one still.
    RemoveFound(Checkpoint),
}
