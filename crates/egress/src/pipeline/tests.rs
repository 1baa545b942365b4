// SPDX-License-Identifier: Apache-2.0
//! Whole exchanges over loopback: a client, the pipeline with fake ports, and a scripted origin.

mod ahead;
mod answers;
mod bodies;
mod entries;
mod every_entry;
mod framing;
mod grpc;
mod hiding;
mod http2;
mod http2_frames;
mod http2_list;
mod injection;
mod judge;
mod life;
mod places;
mod postgres;
mod signatures;
mod slow;
mod spots;
mod stage;
mod tripwires;
mod websocket;
mod websocket_list;
mod websocket_slot;
