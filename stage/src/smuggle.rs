// SPDX-License-Identifier: Apache-2.0
//! The smuggling matrix: payloads that two readers could read in two ways × real servers behind the
//! gate × the ways in which bytes can arrive. What is asked each time: did a far end see a request
//! that was not judged? What was judged, what left and what was seen are three lists, made in three
//! places, and compared here.

mod bodies;
mod check;
mod frames;
mod grammar;
mod payload;

pub mod book;
pub mod origins;
pub mod tee;
pub mod wire;

pub use check::{Counts, Judged, TOLD_MAX};
pub use frames::PREFACE;
pub use payload::{Payload, Speaks, Split, payloads};
