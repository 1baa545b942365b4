// SPDX-License-Identifier: Apache-2.0
//! Drives the real agent over a socket pair, as the gate does: programs, terminals, files, kills, and
//! hosts that break the protocol.

mod files;
mod kill;
mod link;
mod programs;
mod rig;
