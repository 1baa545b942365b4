// SPDX-License-Identifier: Apache-2.0
//! What the supervisor reads: an order, in a packet of fixed size.

use serde::{Deserialize, Serialize};
use torno_policy::names::{Generation, SessionId};

/// One gate among all that the supervisor ever gave a session: its install phase has one of its
/// own, at the same generation. Never used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct GateNumber(pub(crate) u64);

/// What the desk orders of the supervisor, and the last of them the notary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Order {
    /// Start a gate.
    SpawnGate {
        /// For this session.
        session: SessionId,
        /// At this generation.
        generation: Generation,
    },
    /// End a gate's process at once.
    EndGate {
        /// Whose.
        session: SessionId,
    },
    /// Start a porter as this user; the packet carries its descriptors.
    SpawnPorter {
        /// Whose files it works on.
        session: SessionId,
        /// The user.
        uid: u32,
        /// The group.
        gid: u32,
    },
    /// End the porters of a session that is killed, at once.
    EndPorters {
        /// Whose.
        session: SessionId,
    },
    /// End this very gate's process at once: it has no notary any more.
    EndLostGate {
        /// Whose.
        session: SessionId,
        number: GateNumber,
    },
}

/// Bytes of an order on the wire: kind, 26 of session (zero-filled), two numbers.
pub(super) const ORDER_BYTES: usize = 1 + SESSION_BYTES + 8 + 4;
const SESSION_BYTES: usize = 26;

impl Order {
    /// Writes the packet.
    pub(crate) fn encode(&self) -> [u8; ORDER_BYTES] {
        let (kind, session, first, second) = match self {
            Self::SpawnGate {
                session,
                generation,
            } => (1, session, generation.0, 0),
            Self::EndGate { session } => (2, session, 0, 0),
            Self::SpawnPorter { session, uid, gid } => (3, session, u64::from(*uid), *gid),
            Self::EndPorters { session } => (4, session, 0, 0),
            Self::EndLostGate { session, number } => (5, session, number.0, 0),
        };
        let mut packet = [0_u8; ORDER_BYTES];
        let name = session.as_str().as_bytes();
        let fields = [kind]
            .into_iter()
            .chain(
                name.iter()
                    .copied()
                    .chain(std::iter::repeat(0))
                    .take(SESSION_BYTES),
            )
            .chain(first.to_le_bytes())
            .chain(second.to_le_bytes());
        for (to, from) in packet.iter_mut().zip(fields) {
            *to = from;
        }
        packet
    }

    /// Reads a packet of exactly [`ORDER_BYTES`].
    pub(crate) fn decode(packet: &[u8]) -> Option<Self> {
        let packet: &[u8; ORDER_BYTES] = packet.try_into().ok()?;
        let (&kind, rest) = packet.split_first()?;
        let (name, rest) = rest.split_at_checked(SESSION_BYTES)?;
        let (first, second) = rest.split_first_chunk::<8>()?;
        let first = u64::from_le_bytes(*first);
        let second = u32::from_le_bytes(second.try_into().ok()?);
        let name = std::str::from_utf8(name).ok()?.trim_end_matches('\0');
        let session = || SessionId::parse(name).ok();
        match kind {
            1 => Some(Self::SpawnGate {
                session: session()?,
                generation: Generation(first),
            }),
            2 => Some(Self::EndGate {
                session: session()?,
            }),
            3 => Some(Self::SpawnPorter {
                session: session()?,
                uid: u32::try_from(first).ok()?,
                gid: second,
            }),
            4 => Some(Self::EndPorters {
                session: session()?,
            }),
            5 => Some(Self::EndLostGate {
                session: session()?,
                number: GateNumber(first),
            }),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_is_read_back_and_nothing_else_is_an_order() {
        let session = SessionId::parse("abcdefghijklmnopqrstuvwxyz").unwrap();
        for order in [
            Order::SpawnGate {
                session: session.clone(),
                generation: Generation(u64::MAX),
            },
            Order::EndGate {
                session: session.clone(),
            },
            Order::EndPorters {
                session: session.clone(),
            },
            Order::EndLostGate {
                session: session.clone(),
                number: GateNumber(7),
            },
            Order::SpawnPorter {
                session,
                uid: 1000,
                gid: u32::MAX,
            },
        ] {
            let packet = order.encode();
            assert_eq!(Order::decode(&packet), Some(order));
            assert_eq!(Order::decode(&packet[1..]), None);
        }
        assert_eq!(Order::decode(&[0; ORDER_BYTES]), None);
        assert_eq!(Order::decode(&[2; ORDER_BYTES]), None);
    }
}
