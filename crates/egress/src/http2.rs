// SPDX-License-Identifier: Apache-2.0
//! HTTP/2 as an edge on either side: streams become requests in the gate's own HTTP/1.1 and back,
//! so that the one parser and the one pipeline judge them. Nothing is decided here.
//!
//! ```text
//! client ─h2─▶ server ▶ stream ─h1 bytes─▶ pipeline ─h1 bytes─▶ client ─h2─▶ far end
//! ```
//!
//! The `h2` crate reads and writes frames and HPACK; what it does not bound is bounded by `meter`,
//! and what a client does wrong is named by `faults`, by the code that its RFC has for it.

mod answer;
mod carry;
pub(crate) mod client;
pub(crate) mod faults;
pub(crate) mod frames;
mod meter;
mod packed;
pub(crate) mod request;
pub(crate) mod server;
pub(crate) mod stream;

#[cfg(test)]
mod tests;

use std::time::Duration;

/// LIMIT: streams of one connection that are open at once; RFC 9113 §6.5.2 asks for no fewer. Each
/// takes a place among the session's connections too.
const STREAMS_MAX: u32 = 100;
/// LIMIT: fields of one block, unpacked: as much as a head of HTTP/1.1 may have.
const FIELD_BYTES_MAX: u32 = 64 * 1024;
/// LIMIT: HPACK's table for each direction, the protocol's default.
const TABLE_BYTES: u32 = 4096;
/// LIMIT: what may be on its way to us on one stream, the protocol's default.
const STREAM_WINDOW: u32 = 65_535;
/// LIMIT: and on one connection: a few streams at full speed, and one that stands still holds no
/// other up.
const CONNECTION_WINDOW: u32 = 1 << 20;
/// LIMIT: what one stream may have queued to be written.
const SEND_BYTES_MAX: usize = 64 * 1024;
/// LIMIT: streams that were reset and are remembered, so that late frames are no fault.
const RESET_STREAMS_MAX: usize = 64;
/// LIMIT: streams that a peer opened and reset before they were looked at.
const UNSEEN_RESETS_MAX: usize = 32;
/// LIMIT: streams that we reset because of what a peer sent on them, in a connection's life.
const FAULTY_STREAMS_MAX: usize = 256;
/// LIMIT: what waits between an edge and the pipeline, each way, for each stream.
const PIPE_BYTES: usize = 32 * 1024;
/// LIMIT: a connection of a client takes new streams for an hour; then it is asked to make another.
const LIFE: Duration = Duration::from_secs(3600);
/// LIMIT: how long a connection that is told to go away may take to do so when nothing is open.
const FAREWELL: Duration = Duration::from_secs(2);
