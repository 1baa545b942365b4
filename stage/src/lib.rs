// SPDX-License-Identifier: Apache-2.0
//! Purpose: the world around Torno, for tests, demo and benchmarks, made of real parts: a
//! certificate authority, HTTPS origins that demand a credential, a real git backend, a sink that
//! belongs to the attacker, and the shipped binaries driven as a person drives them.
//!
//! Trust: everything here is on loopback and thrown away; it links nothing that decides or holds a
//! credential, so what it sees is what any far end would see.
//!
//! Invariants: a far end keeps every connection, name and request that reached it, so that an
//! absence can be shown there and need not be believed.
//!
//! Not here: fakes of Torno's own parts, and test seams in the product. Operator-pinned upstreams
//! are the one way by which Torno reaches these origins.
//!
//! Start reading at [`world`].

pub mod account;
pub mod attempt;
pub mod attempts;
pub mod canary;
pub mod clones;
pub mod crash;
pub mod daemon;
pub mod escape;
pub mod leftovers;
pub mod props;
pub mod smuggle;
pub mod table;
pub mod trial;
pub mod unwalled;
pub mod witness;
pub mod work;
pub mod world;
