// SPDX-License-Identifier: Apache-2.0
//! Whole exchanges over loopback: a client, the pipeline with fake ports, and a scripted origin.

mod ahead;
mod entries;
mod framing;
mod grpc;
mod http2;
mod http2_frames;
mod injection;
mod life;
mod places;
mod signatures;
mod stage;
mod websocket;
