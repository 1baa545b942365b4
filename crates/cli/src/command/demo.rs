// SPDX-License-Identifier: Apache-2.0
//! `torno demo`: becomes `torno-demo`, which lies beside this binary.

use crate::context::Context;
use crate::daemon;
use crate::stop::{Outcome, Stop};

/// Watch a hostile program use a credential, fail to see it, and fail to send it anywhere
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: torno demo")]
pub(crate) struct Demo {
    /// Arguments for the demo
    #[arg(last = true)]
    arguments: Vec<String>,
}

/// Runs it.
pub(crate) fn run(demo: &Demo, context: &Context) -> Outcome<u8> {
    match daemon::beside(context, "torno-demo") {
        Some(program) => Err(daemon::become_program(&program, &demo.arguments)),
        None => Err(Stop::new("`torno-demo` is not beside this binary")
            .next("in a checkout of the project, run `cargo xtask demo`")),
    }
}
