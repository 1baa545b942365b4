// SPDX-License-Identifier: Apache-2.0
//! Whose word a record is.

use serde::{Deserialize, Serialize};

/// Whose word a record is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// The host saw it.
    HostObserved,
    /// The guest says so.
    GuestReported,
}
