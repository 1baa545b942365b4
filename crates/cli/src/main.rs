// SPDX-License-Identifier: Apache-2.0
//! `torno`, the operator's command line.
//!
//! **Purpose.** Turn what a person types into calls of the desk and the notary, and their answers
//! into text.
//!
//! **Trust.** Runs as the person. Text of guests, records and repositories is hostile and made
//! inert before it is shown; a workload's output passes a filter before a terminal.
//!
//! **Invariants.** A secret goes from file, standard input or a silent prompt to the notary's own
//! socket, and nowhere else. No descriptor of ours goes into a sandbox. This crate can't link the
//! vault.
//!
//! **Not here.** Deciding, sessions, the vault: the daemon's. Only `policy check` and `audit
//! verify` judge, with the same crates.
//!
//! **Start reading at** [`command::run`], then [`execution`] and [`relay`].

mod banner;
mod changes;
mod clock;
mod command;
mod context;
mod daemon;
mod desk;
mod document;
mod execution;
mod notary;
mod printable;
mod relay;
mod screen;
mod secret_input;
mod stop;
mod terminal;
mod values;

use clap::{CommandFactory, FromArgMatches};
use context::{Context, note};
use std::io::IsTerminal;
use std::process::ExitCode;
use stop::{Outcome, REFUSED, Stop};
use torno_control_api::paths::{Paths, Surroundings};

/// Run code that you don't trust, with credentials that it can use and never see
///
/// First steps: `torno doctor` (what works here), `torno demo` (see it work), then
/// `torno run -- CMD` in a directory of yours.
#[derive(Debug, clap::Parser)]
#[command(name = "torno", version, subcommand_required = true)]
struct Torno {
    /// How to answer
    #[arg(long, global = true, value_enum, default_value_t, value_name = "FORM")]
    output: values::Output,
    /// Do not start tornod when it is not running (also: TORNO_NO_START=1)
    #[arg(long, global = true)]
    no_start: bool,
    #[command(subcommand)]
    command: command::Command,
}

fn main() -> ExitCode {
    let matches = Torno::command().try_get_matches();
    let torno = match matches.and_then(|matches| Torno::from_arg_matches(&matches)) {
        Ok(torno) => torno,
        Err(error) => {
            let arguments: Vec<_> = std::env::args_os()
                .map(|argument| argument.to_string_lossy().into_owned())
                .collect();
            return said_by_clap(&error, &arguments);
        }
    };
    let exit = match prepare(&torno) {
        Ok((context, runtime)) => match runtime.block_on(torno.command.run(&context)) {
            Ok(exit) => exit,
            Err(stop) => {
                report(&stop, &context);
                stop.exit
            }
        },
        Err(stop) => {
            report_as(&stop, torno.output == values::Output::Json);
            stop.exit
        }
    };
    ExitCode::from(exit)
}

/// Help and version are answers; wrong arguments are a refusal like any other, so that a
/// workload's own 2 is never mistaken for them.
fn said_by_clap(error: &clap::Error, arguments: &[String]) -> ExitCode {
    if error.kind() == clap::error::ErrorKind::UnknownArgument && gives_a_secret(arguments) {
        // What was typed there may be the value, so it is not repeated.
        let stop =
            Stop::new("a secret's value is never an argument: other users and logs see those")
                .next(
                    "use standard input or `--file FILE`; if you typed the value, issue a new one",
                );
        report_as(&stop, false);
        return ExitCode::from(REFUSED);
    }
    // Nobody to read it, nobody to tell.
    let _ = error.print();
    if error.use_stderr() {
        ExitCode::from(REFUSED)
    } else {
        ExitCode::SUCCESS
    }
}

/// `torno secret put` or `rotate`.
fn gives_a_secret(arguments: &[String]) -> bool {
    let mut words = arguments.iter().map(String::as_str);
    words.any(|word| word == "secret") && words.any(|word| matches!(word, "put" | "rotate"))
}

#[expect(
    clippy::disallowed_methods,
    reason = "the clock is read here, once, and handed on as an argument"
)]
fn prepare(torno: &Torno) -> Outcome<(Context, tokio::runtime::Runtime)> {
    let paths = Paths::new(&Surroundings::of_process())
        .map_err(|error| Stop::new("there is no place for sockets and stores").because(&error))?;
    let directory = std::env::current_dir().map_err(|error| {
        Stop::new("the working directory can't be used")
            .because(&error)
            .next("change to a directory that exists")
    })?;
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let context = Context {
        paths,
        json: torno.output == values::Output::Json,
        may_start: !torno.no_start && set("TORNO_NO_START").is_none(),
        color: set("NO_COLOR").is_none() && std::io::stderr().is_terminal(),
        color_out: set("NO_COLOR").is_none() && std::io::stdout().is_terminal(),
        directory,
        home: set("HOME").map(Into::into),
        credentials: set("CREDENTIALS_DIRECTORY").map(Into::into),
        search_path: set("PATH"),
        executable: std::env::current_exe().ok(),
        now: now.map_or(0, |now| now.as_secs()),
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Stop::new("the event loop can't be made").because(&error))?;
    Ok((context, runtime))
}

/// Says why a command stopped: once, with its causes and what to do next.
pub(crate) fn report(stop: &Stop, context: &Context) {
    report_as(stop, context.json);
}

fn report_as(stop: &Stop, json: bool) {
    if json {
        let value = serde_json::json!({ "error": {
            "code": stop.code, "message": stop.message, "causes": stop.causes,
            "next": stop.next, "exit": stop.exit,
        }});
        note(&format!("{}\n", printable::json(&value.to_string())));
        return;
    }
    let mut text = format!("torno: {}\n", stop.message);
    for cause in &stop.causes {
        for line in cause.lines() {
            text.push_str(&format!("  {}\n", printable::line(line)));
        }
    }
    if let Some(next) = &stop.next {
        text.push_str(&format!("next: {next}\n"));
    }
    note(&text);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arguments_are_well_formed_and_every_command_has_an_example() {
        Torno::command().debug_assert();
        fn check(command: &clap::Command, path: &str) {
            let path = format!("{path} {}", command.get_name());
            assert!(command.get_about().is_some(), "{path} has no text");
            if command.get_subcommands().next().is_none() {
                let example = command.get_after_help().map(ToString::to_string);
                assert!(
                    example.is_some_and(|text| text.contains("torno ")),
                    "{path} has no example"
                );
            }
            for below in command.get_subcommands() {
                check(below, &path);
            }
        }
        check(&Torno::command(), "");
    }
}
