// SPDX-License-Identifier: Apache-2.0
//! Protocols on the way, one by one, and what each does on every entry and at every spot.

mod every_entry;
mod grpc;
mod hiding;
mod postgres;
mod postgres_standing;
mod signatures;
mod spots;
mod websocket_slot;

use super::{http2, http2_frames, judge, stage, websocket};
