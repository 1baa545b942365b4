// SPDX-License-Identifier: Apache-2.0
//! Whole exchanges over loopback: a client, the pipeline with fake ports, and a scripted origin.

mod ahead;
mod answers;
mod bodies;
mod entries;
mod framing;
mod http2;
mod http2_frames;
mod http2_list;
mod injection;
mod judge;
mod life;
mod places;
mod protocols;
mod slow;
mod stage;
mod tripwires;
mod websocket;
mod websocket_list;
