// SPDX-License-Identifier: Apache-2.0
//! Real sandboxes on this machine, one module per story. Skipped loudly where a runtime is missing.

#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

/// The stage's own: how an administrator makes a user, told once.
#[path = "../../../../stage/src/account.rs"]
#[expect(
    dead_code,
    unreachable_pub,
    reason = "the stage uses the rest, from elsewhere"
)]
mod account;
mod agent;
mod harness;
mod inside;
mod lifetime;
mod machines;
mod monitors;
mod network;
mod rootless;
mod spare;
mod workspace;
