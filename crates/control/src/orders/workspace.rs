// SPDX-License-Identifier: Apache-2.0
//! Desk → gate and launcher: a machine's workspace on its way in or out.

use serde::{Deserialize, Serialize};
use torno_policy::grant::FileRules;
use torno_policy::names::SessionId;
use torno_policy::standing::Phase;

/// One transfer. Its number comes from the row of the session's commands.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct WorkspaceOrder {
    pub(crate) transfer: u64,
    pub(crate) way: WorkspaceWay,
}

/// Which way.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum WorkspaceWay {
    /// Into the machine, before anything runs there.
    In {
        /// What programs may write, and what is hidden.
        files: FileRules,
    },
    /// Into the machine, before anything runs there: not the workspace but a further directory,
    /// which nobody writes to.
    Show {
        /// Where it appears.
        inside: String,
        /// More is refused.
        bytes_max: u64,
    },
    /// Out of it.
    Out {
        /// More is refused.
        bytes_max: u64,
        /// Nothing runs in it any more.
        last: bool,
    },
}

/// What a return is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Returned {
    /// To be looked at while the session runs.
    Seen,
    /// To stay.
    Last,
}

/// Desk → launcher: the directories for what comes out.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum ReturnOrder {
    /// Make an empty one. The reply carries it, owned by `owner`.
    Prepare {
        session: SessionId,
        returned: Returned,
        /// The caller's uid, so that the porter may fill it.
        owner: u32,
    },
    /// The last is whole: it takes the place of the phase's workspace copy.
    Take { session: SessionId, phase: Phase },
    /// One is not wanted any more.
    Drop {
        session: SessionId,
        returned: Returned,
    },
}
