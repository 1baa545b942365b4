// SPDX-License-Identifier: Apache-2.0
//! The answer: decide, record, unlock.
//!
//! **Purpose.** Answer *may this happen?* from the notary's own rows, write the answer down, and
//! only then hand out a receipt or a credential.
//!
//! **Trust.** Fed by gates (hostile once their session's bytes took them over), by the desk and by
//! the owner's CLI, each over its own socket; the role's main reads the sockets and names the gate.
//! It reaches its own store and record and nothing else. It is synchronous: one call at a time.
//!
//! **Invariants.** No answer before its record; no credential before its release is on disk. What a
//! gate may do follows from the socket it was registered on, never from what it says. Standing is
//! durable before anybody is told.
//!
//! **Not here.** Sockets, clocks and processes (`torno-control`), rules (`torno-policy`), keys
//! (`torno-vault`), segments (`torno-audit`).
//!
//! **Start reading at** `answer.rs`.

mod answer;
mod desk;
mod frames;
mod gates;
mod history;
mod minted;
mod notary;
mod operator;
mod receipts;
mod refusals;
mod sessions;
mod store;
mod watch;

pub use frames::ToGate;
pub use gates::GateId;
pub use notary::{Config, Effect, Notary, Now, OpenError, Reaction};
pub use store::{SqliteStore, StoreError};
