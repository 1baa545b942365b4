// SPDX-License-Identifier: Apache-2.0
//! Whole exchanges over loopback: a client, the pipeline with fake ports, and a scripted origin.

mod ahead;
mod answers;
mod entries;
mod every_entry;
mod framing;
mod grpc;
mod http2;
mod http2_frames;
mod http2_list;
mod injection;
mod life;
mod places;
mod stage;
mod websocket;
mod websocket_list;
