// SPDX-License-Identifier: Apache-2.0
//! Purpose: `torno-guest`, the agent inside the sandbox: its init, which runs programs and handles
//! files for the host over one link.
//!
//! Trust: the link's other end is the session's gate, which is trusted; once the workload runs,
//! this process counts as hostile like everything in here, and nothing outside depends on it. It
//! reaches only what the sandbox holds.
//!
//! Invariants:
//! - No crate of ours is linked but `torno-guest-protocol`; the binary is static and asks no name
//!   service.
//! - No program gets a descriptor but its own three streams.
//! - A program runs only behind the walls that were asked for: own uid, no capability, no new
//!   privileges, landlock.
//! - When the link ends, every process ends.
//! - A machine serves nobody before it is its session's (`machine/renewal.rs`).
//! - `unsafe` is in `sys`.
//!
//! Not here: the sandbox's own walls (namespaces, mounts, seccomp, cgroups: the launcher), and any
//! decision.
//!
//! Start reading at [`agent`], then [`exec`], [`keeper`], [`files`].

mod agent;
mod courier;
mod exec;
mod files;
mod handover;
mod keeper;
mod link;
mod machine;
mod nursery;
mod place;
mod settings;
mod stream;
#[expect(
    unsafe_code,
    reason = "the one order to the kernel that has no safe binding"
)]
mod sys;
mod terminal;
mod tree;
mod verbs;
mod walls;
mod workspace;

use std::process::ExitCode;

use settings::{Role, Settings};
use torno_guest_protocol::MACHINE_INIT;

fn main() -> ExitCode {
    let mut words = std::env::args();
    let name = words.next();
    let mut words = words.peekable();
    let outcome = if name.as_deref() == Some(MACHINE_INIT) {
        agent::run_machine()
    } else if words.peek().is_some_and(|word| word == machine::REHEARSAL) {
        Ok(())
    } else {
        Settings::parse(words).and_then(|(role, settings)| match role {
            Role::Init => agent::run(settings),
            Role::Keep => keeper::run(&settings),
        })
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("torno-guest: {error:#}");
            ExitCode::FAILURE
        }
    }
}
