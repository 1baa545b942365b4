// SPDX-License-Identifier: Apache-2.0
//! Gate ↔ dialer, and what the dialer tells the notary. The dialer knows a gate's session from the
//! socket, opens the receipt with the shared key, and hands a connected socket over by descriptor.

use crate::gate::Ticket;
use crate::receipt::Receipt;
use serde::{Deserialize, Serialize};
use torno_policy::decision::{Reason, Refusal};
use torno_policy::names::{Generation, SessionId};

/// What a gate may send to the dialer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dial {
    /// Pairs the reply.
    pub ticket: Ticket,
    /// Names the one endpoint.
    pub receipt: Receipt,
}

/// What the dialer replies. `Dialed` comes with exactly one descriptor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum DialReply {
    /// Connected; the socket comes with this message.
    Dialed {
        /// From the request.
        ticket: Ticket,
        /// The address that was checked and dialled, `ip:port`.
        address: String,
        /// Set when a company proxy stands between and resolved the name.
        resolved_by_proxy: bool,
    },
    /// Not connected.
    DialRefused {
        /// From the request.
        ticket: Ticket,
        /// Why.
        refusal: Refusal,
    },
}

/// What the dialer tells the notary so that it is recorded: an attempt that no honest gate makes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DialAlarm {
    /// The gate's session, from its socket.
    pub session: SessionId,
    /// Its generation.
    pub generation: Generation,
    /// What was wrong.
    pub reason: Reason,
}
