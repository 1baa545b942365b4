// SPDX-License-Identifier: Apache-2.0
//! `torno completions`: a shell's completion script.

use crate::stop::Outcome;
use clap::CommandFactory;

/// Print a shell's completion script
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example: torno completions bash > ~/.local/share/bash-completion/completions/torno"
)]
pub(crate) struct Completions {
    /// The shell
    shell: clap_complete::Shell,
}

/// Runs it.
pub(crate) fn run(completions: &Completions) -> Outcome<u8> {
    let mut command = crate::Torno::command();
    let mut script = Vec::new();
    clap_complete::generate(completions.shell, &mut command, "torno", &mut script);
    crate::context::say(&String::from_utf8_lossy(&script))?;
    Ok(0)
}
