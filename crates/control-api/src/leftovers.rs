// SPDX-License-Identifier: Apache-2.0
//! What lies about and belongs to nobody, as an operator is told of it.

use serde::{Deserialize, Serialize};

/// Something of Torno's that belongs to nobody.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Leftover {
    /// What it is.
    pub kind: LeftoverKind,
    /// Where.
    pub place: String,
    /// It was removed by this request, or is being emptied where nobody finds it.
    pub gone: bool,
    /// Why it stays, though it was to go.
    pub why: Option<String>,
}

/// What lies about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LeftoverKind {
    /// A control group of a sandbox, and what runs in it.
    Group,
    /// An entry in the journal of sandboxes made ahead.
    Journal,
    /// The directory of a session.
    Session,
    /// A tree whose removal did not come to its end.
    Removal,
    /// What lay in a workspace whose copy is gone.
    Baseline,
    /// A checkpoint that was not finished.
    Unfinished,
    /// A checkpoint that is older than it is kept for.
    Checkpoint,
    /// What a broken-off `torno image` left.
    Image,
    /// A mount in a directory of ours.
    Mount,
}
