// SPDX-License-Identifier: Apache-2.0
//! Purpose: Torno's shipped binaries and their peers, measured side by side in one run.
//!
//! Trust: everything runs on loopback in a network namespace of its own, with a throw-away vault,
//! authority and secret; it links nothing that decides or holds a credential.
//!
//! Invariants: a figure counts only when the work behind it was done: all statuses 200, all body
//! bytes as expected, the real secret at the far end each time, and, for Torno, exactly as many
//! decisions in the record. Otherwise its row says `invalid` and why.
//!
//! Not here: installing peers (`cargo xtask bench` does it), and tuning of anybody.
//!
//! Start reading at [`egress`], [`start`], [`cost`] and [`growth`].

pub mod bare_machine;
pub mod bundle;
pub mod cost;
pub mod density;
pub mod egress;
pub mod growth;
pub mod load_report;
pub mod machines;
pub mod memory;
pub mod peer;
pub mod raw_runtime;
pub mod rows;
pub mod sandboxed;
pub mod site;
pub mod start;
pub mod statistics;
