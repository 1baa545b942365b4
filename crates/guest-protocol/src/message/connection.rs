// SPDX-License-Identifier: Apache-2.0
//! What is said about a connection of the workload's that its agent carries over the link, where
//! the workload has a network stack of its own. Its bytes are [`super::Stream::Outward`] and
//! [`super::Stream::Inward`] of its channel; these channels have numbers of their own, chosen by
//! the guest.
//!
//! ```text
//!   guest                                   host
//!   ConnectionOpened ───────────────────▶   serves it as if one of its sockets had been dialled
//!   Outward data, end ──────────────────▶   ◀────────────────────── Inward data, end
//!                    ◀───────────────────   CloseConnection: nothing more is wanted
//!   ConnectionClosed ───────────────────▶   the last word; the number is over
//! ```

use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

// LIMIT: what the egress pipeline serves at once by default. With a window each way the gate is
// ready to hold 128 MiB for a guest that fills all of them.
/// The most connections that are carried at once; one more breaks the protocol.
pub const CONNECTIONS_MAX: usize = 512;

/// One connection; the guest's numbers rise, and none comes twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ConnectionId(pub u32);

impl From<ConnectionId> for super::ChannelId {
    fn from(connection: ConnectionId) -> Self {
        Self(connection.0)
    }
}

/// Where a connection landed. It is the guest's word, and a hint: what may be reached is decided by
/// what the connection itself says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Entry {
    /// It was dialled to this address and caught.
    Captured {
        /// Where to.
        destination: SocketAddr,
    },
    /// It was dialled to the proxy on loopback.
    Proxy {},
    /// It asks for names: one question and its answer, each behind its length.
    NameServer {},
}
