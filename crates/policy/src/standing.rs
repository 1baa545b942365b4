// SPDX-License-Identifier: Apache-2.0
//! A session's standing, as a state machine.
//!
//! ```text
//!            register (desk)                 end (desk)
//!   (none) ───────────────▶ Running ─────────────────────▶ Ended
//!                              │  kill (desk, supervisor)     ▲
//!                              └────────▶ Killed ─────────────┘ never: Killed is final
//!                              ╎                 ▲
//!                              ├─ tripwire ─▶ Frozen (notary): may nothing, ends or is killed
//!                              ╎                 ▲ tripwire
//!                              └─ pause (desk) ─▶ Paused ─ resume (desk) ─▶ Running
//! ```
//! Raising the generation fences what belonged to an earlier life. Killed and Ended are final.

use crate::names::{Generation, SessionId};
use serde::{Deserialize, Serialize};

/// The part of a session's life in which an act happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Dependencies are fetched; nothing of the agent has run.
    Install,
    /// The agent runs. One-way.
    Locked,
}

impl Phase {
    /// The other one.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::Install => Self::Locked,
            Self::Locked => Self::Install,
        }
    }
}

/// Whether a session may act at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// It may.
    Running,
    /// It ended by itself.
    Ended,
    /// It was killed.
    Killed,
    /// A tripwire of its own was seen on its way out: it lives and may do nothing any more.
    Frozen,
    /// A person holds it still: it lives and may do nothing until it is resumed.
    Paused,
}

/// The row of one session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Standing {
    /// Which session.
    pub session: SessionId,
    /// Its generation.
    pub generation: Generation,
    /// Its state.
    pub state: State,
    /// Its phase.
    pub phase: Phase,
}
