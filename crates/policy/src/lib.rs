// SPDX-License-Identifier: Apache-2.0
//! Names, documents, facts → decision.
//!
//! **Purpose.** Answer one question, purely: may this act happen, and if so under which binding?
//!
//! **Trust.** Fed by the notary (facts from a gate, rows of its own store) and, for display, by the
//! CLI. It touches no file, socket, clock, random source or async runtime: time arrives as an
//! argument.
//!
//! **Invariants.** A [`Permit`] is made in [`decide()`] and nowhere else. Layers are met on the
//! lattice `Deny < Ask < Allow`; absent, unknown or failed is deny. Names have one canonical
//! spelling.
//!
//! **Not here.** Bytes of a request (`torno-egress`), secrets (`torno-vault`), stores
//! (`torno-notary`).
//!
//! **Start reading at** [`mod@decide`], then [`decision`] and [`facts`].

pub mod binding;
pub mod decide;
pub mod decision;
pub mod document;
pub mod facts;
pub mod grant;
pub mod names;
pub mod organisation;
pub mod placeholder;
pub mod postgres;
pub mod registry;
pub mod standing;
pub mod tool;
pub mod tripwire;

pub use decide::decide;
pub use decision::{Decision, Layer, Permit, Reason, Refusal};
