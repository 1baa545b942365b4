// SPDX-License-Identifier: Apache-2.0
//! Real sandboxes on this machine, one module per story. Skipped loudly where a runtime is missing.

#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod agent;
mod harness;
mod inside;
mod lifetime;
mod network;
mod workspace;
