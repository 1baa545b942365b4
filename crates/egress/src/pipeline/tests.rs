// SPDX-License-Identifier: Apache-2.0
//! Whole exchanges over loopback: a client, the pipeline with fake ports, and a scripted origin.

mod entries;
mod framing;
mod injection;
mod life;
mod places;
mod stage;
