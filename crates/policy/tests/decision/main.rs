// SPDX-License-Identifier: Apache-2.0
//! `decide` from outside: a corpus that people read, random worlds against a slow reference, and
//! properties.

mod comparison;
mod corpus;
mod faults;
mod properties;
mod reference;
mod world;
