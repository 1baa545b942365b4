// SPDX-License-Identifier: Apache-2.0
//! Protocols on the way, one by one, and what each does on every entry and at every spot.

mod budgets;
mod cookies;
mod every_entry;
mod every_framing;
mod grpc;
mod hiding;
mod keyed;
mod offered;
mod postgres;
mod postgres_begun;
mod postgres_standing;
mod postgres_told;
mod signatures;
mod spots;
mod websocket_slot;

use super::{http2, http2_frames, judge, stage, websocket};
