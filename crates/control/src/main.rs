// SPDX-License-Identifier: Apache-2.0
//! `tornod`: one binary, several roles.
//!
//! **Purpose.** The roles of the design as processes: supervisor, desk, notary, dialer, launcher,
//! gate, porter; their composition and confinement.
//!
//! **Trust.** Each role reads only what its row in [`roles`] says. The gate alone reads hostile
//! bytes of a workload; the dialer alone makes connections; the launcher alone is root,
//! of the host or of a user namespace of its own.
//!
//! **Invariants.** A role inherits one descriptor. What it may touch arrives on that channel. The
//! death of any role is noticed and nothing leaves after it.
//!
//! **Not here.** The decision (`torno-policy`, `torno-notary`), the pipeline (`torno-egress`),
//! plans (`torno-sandbox`).
//!
//! **Start reading at** [`roles`], then `supervisor`.

mod confine;
mod desk;
mod dialer;
mod found;
mod front_door;
mod gate;
mod launcher;
mod notary;
mod orders;
mod porter;
mod role_channel;
mod roles;
mod settings;
mod spawn;
mod supervisor;
mod upstreams;

use anyhow::{Context, bail};
use clap::{Parser, Subcommand};
use roles::Role;
use std::process::ExitCode;
use torno_control_api::paths::{Paths, Surroundings};

/// The Torno daemon. `torno` starts it on demand; a server runs it under systemd.
#[derive(Debug, Parser)]
#[command(name = "tornod", version, about)]
struct Arguments {
    #[command(subcommand)]
    part: Option<Part>,
}

#[derive(Debug, Subcommand)]
enum Part {
    /// Run one role; only the supervisor starts these.
    #[command(hide = true)]
    Role {
        /// Its name.
        name: String,
    },
    /// Kill a sandbox when the launcher dies; only the launcher starts this.
    #[command(hide = true)]
    Keeper {
        /// What to watch and kill.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
}

fn main() -> ExitCode {
    // Whoever starts us may have left descriptors open: no role and no sandbox gets them.
    if let Err(error) = torno_sandbox::close_inherited() {
        eprintln!(
            "tornod: can't close inherited descriptors: {error}; Linux 5.9 has what it needs"
        );
        return ExitCode::FAILURE;
    }
    let arguments = Arguments::parse();
    let log = std::env::var("TORNO_LOG").unwrap_or_else(|_| "warn".to_owned());
    tracing_subscriber::fmt()
        .with_env_filter(tracing_subscriber::EnvFilter::new(&log))
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .init();
    if let Some(Part::Keeper { arguments }) = arguments.part {
        return launcher::keeper(arguments);
    }
    match run(arguments, log) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("tornod: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: Arguments, log: String) -> anyhow::Result<()> {
    match arguments.part {
        Some(Part::Role { name }) => {
            let Some(role) = Role::parse(&name) else {
                bail!("no role `{name}`")
            };
            let rights = match role {
                Role::Launcher => launcher::take_rights(),
                _ => Ok(()),
            };
            confine::before_anything(role)?;
            let tasks = tokio::task::LocalSet::new();
            tasks
                .block_on(&runtime()?, run_role(role, rights))
                .with_context(|| format!("{role}"))
        }
        None | Some(Part::Keeper { .. }) => {
            let paths = Paths::new(&Surroundings::of_process())?;
            runtime()?.block_on(supervisor::run(&paths, log))
        }
    }
}

/// Every role is one thread of events (its tasks are local to it); the dialer alone adds a few
/// threads for the resolver.
fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(16)
        .build()
        .context("no event loop")
}

async fn run_role(role: Role, rights: Result<(), torno_sandbox::Refusal>) -> anyhow::Result<()> {
    let supervisor = role_channel::supervisor()?;
    match role {
        Role::Desk => desk::run(supervisor).await,
        Role::Notary => notary::run(supervisor).await,
        Role::Dialer => dialer::run(supervisor).await,
        Role::Launcher => launcher::run(supervisor, rights).await,
        Role::Gate => gate::run(supervisor).await,
        Role::Porter => porter::run(supervisor).await,
    }
}
