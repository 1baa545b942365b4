// SPDX-License-Identifier: Apache-2.0
//! Transcripts of the real `torno` against a fake desk and notary that speak the real protocols.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

mod arguments;
mod documents;
mod fake;
mod home;
mod operations;
mod running;
mod starting;
mod terminal;
mod vault;
