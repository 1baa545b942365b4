// SPDX-License-Identifier: Apache-2.0
//! The commands, one file each.

use crate::context::Context;
use crate::stop::Outcome;

pub(crate) mod audit;
mod completions;
mod demo;
mod doctor;
mod gc;
mod image;
mod init;
mod kill;
mod metrics;
mod policy;
mod preset;
pub(crate) mod run;
mod secret;
mod session;
mod trust;
mod vault;

/// What may be asked of `torno`.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    Run(run::Run),
    Init(init::Init),
    Trust(trust::Trust),
    #[command(subcommand)]
    Session(session::Session),
    #[command(subcommand)]
    Secret(secret::Secret),
    #[command(subcommand)]
    Vault(vault::Vault),
    #[command(subcommand)]
    Policy(policy::Policy),
    #[command(subcommand)]
    Preset(preset::Preset),
    #[command(subcommand)]
    Audit(audit::Audit),
    Kill(kill::Kill),
    Doctor(doctor::Doctor),
    Gc(gc::Gc),
    Demo(demo::Demo),
    Completions(completions::Completions),
    Metrics(metrics::Metrics),
    #[command(subcommand)]
    Image(image::Image),
}

impl Command {
    /// Runs the command; gives the exit code.
    pub(crate) async fn run(&self, context: &Context) -> Outcome<u8> {
        match self {
            Self::Run(command) => run::run(command, context).await,
            Self::Init(command) => init::run(command, context),
            Self::Trust(command) => trust::run(command, context).await,
            Self::Session(command) => session::run(command, context).await,
            Self::Secret(command) => secret::run(command, context).await,
            Self::Vault(command) => vault::run(command, context).await,
            Self::Policy(command) => policy::run(command, context).await,
            Self::Preset(command) => preset::run(command, context).await,
            Self::Audit(command) => audit::run(command, context).await,
            Self::Kill(command) => kill::run(command, context).await,
            Self::Doctor(command) => doctor::run(command, context).await,
            Self::Gc(command) => gc::run(command, context).await,
            Self::Demo(command) => demo::run(command, context),
            Self::Completions(command) => completions::run(command),
            Self::Metrics(command) => metrics::run(command, context),
            Self::Image(command) => image::run(command, context),
        }
    }
}
