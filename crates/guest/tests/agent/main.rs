// SPDX-License-Identifier: Apache-2.0
//! Drives the real agent over a socket pair, as the gate does: programs, terminals, files, kills, and
//! hosts that break the protocol.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests fail by panicking"
)]

mod files;
mod kill;
mod link;
mod programs;
mod rig;
