// SPDX-License-Identifier: Apache-2.0
//! `decide` from outside: a corpus that people read, random worlds against a slow reference, and
//! properties.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "tests"
)]

mod comparison;
mod corpus;
mod faults;
mod hints;
mod keeping;
mod modes;
mod properties;
mod reference;
mod world;
