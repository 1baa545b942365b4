// SPDX-License-Identifier: Apache-2.0
//! The gate's pipeline: hostile bytes in, one decided, recorded and scrubbed exchange out.
//!
//! **Purpose.** Carry each HTTP request of one session from the link to the far end, in the one
//! order of DESIGN §5, and its answer back.
//!
//! **Trust.** Fed by a workload and by far ends, both hostile. It reaches the notary and the dialer
//! through [`Ask`] and [`Dial`] and makes no socket, file, process or decision of its own.
//!
//! **Invariants.** Every entry meets in one pipeline. Nothing is sent before the notary said yes,
//! and no credential before the peer is verified. A credential is exposed in `inject` alone. What
//! comes back is scrubbed of every secret released in the session. Every refusal leaves by
//! `refuse`.
//!
//! **Not here.** Rules (`torno-policy`), secrets at rest (`torno-vault`), resolving and dialling
//! (`tornod`), the sandbox's network (`torno-sandbox`).
//!
//! **Start reading at** `pipeline.rs`, then `ports.rs`.

mod accept;
mod ask;
mod connect;
mod cookies;
mod forward;
pub mod fuzz;
mod head;
mod http2;
mod identify;
mod inject;
mod normalize;
mod pipeline;
mod ports;
mod postgres;
mod refuse;
mod report;
mod revoke;
mod scrub;
mod terminate;
mod wire;

pub use accept::{HostLimits, Limits};
pub use connect::PinnedRoots;
pub use identify::AskedDestination;
pub use pipeline::{Pipeline, PipelineError, SessionConfig};
pub use ports::{Answered, Ask, AtHand, Clock, Dial, Dialed, Granted, Pending, Ports, Unlocked};
pub use wire::Peer;
