// SPDX-License-Identifier: Apache-2.0
//! What people and brains may ask of the desk: types, authority, client.
//!
//! **Purpose.** The closed set of API requests and replies, who may make which, and the client
//! that the CLI and the harness use.
//!
//! **Trust.** The desk reads [`request`] from anyone who holds a token; the client reads replies
//! from the desk. The byte stream of a command ([`attach`]) comes from a gate and carries a
//! workload's output: hostile text.
//!
//! **Invariants.** No reply carries a credential. A descriptor travels only where a message's doc
//! says so. Every frame is bounded before it is read.
//!
//! **Not here.** Sessions, policy, vault: the desk and the notary.
//!
//! **Start reading at** [`request`], then [`authority`].

pub mod attach;
pub mod authority;
pub mod channel;
pub mod client;
pub mod commits;
pub mod images;
pub mod kill_only;
pub mod leftovers;
pub mod paths;
pub mod places;
pub mod request;
