// SPDX-License-Identifier: Apache-2.0
//! What may be asked of the notary, by whom, and what it answers.
//!
//! **Purpose.** The closed message sets between gate, dialer, desk, CLI and the notary; the
//! receipt; the credential in transit.
//!
//! **Trust.** The notary reads [`gate`] messages from a process that a workload may have taken
//! over, so every field is a canonical type or bounded. Who asks is known from the socket, never
//! from a field: no message of a gate names its session.
//!
//! **Invariants.** A credential crosses only as raw bytes behind a frame, never as JSON; it has no
//! Debug, Display, Clone or Serialize.
//!
//! **Not here.** Sockets and stores. PURE: no file, socket, clock, random source.
//!
//! **Start reading at** [`gate`].

pub mod desk;
pub mod dial;
pub mod gate;
pub mod operator;
pub mod receipt;
pub mod transit;

/// LIMIT: one message on a role's socket; well under the default socket buffer of 208 KiB, and a
/// credential is at most 64 KiB.
pub const MESSAGE_BYTES_MAX: usize = 128 * 1024;
