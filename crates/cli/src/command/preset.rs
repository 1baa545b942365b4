// SPDX-License-Identifier: Apache-2.0
//! `torno preset`: the hosts that package clients of this machine ask for, learnt by running them
//! sealed and confirmed by the operator. Presets are rows of the notary; no workspace sets one.

mod asked;
mod learn;

use crate::context::{Context, note};
use crate::document;
use crate::notary::Notary;
use crate::printable;
use crate::stop::{Outcome, Stop};
use crate::values;
use std::path::{Path, PathBuf};
use torno_notary_protocol::operator::OperatorRequest;
use torno_policy::document::Preset as Hosts;
use torno_policy::names::PresetName;

/// Learn which hosts a package client asks for, and confirm them under a name
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Preset {
    Learn(learn::Learn),
    /// The presets that were confirmed
    #[command(after_help = "Example: torno preset list")]
    List,
    /// What a preset allows
    #[command(after_help = "Example: torno preset show pip")]
    Show {
        /// Its name
        #[arg(value_parser = values::preset)]
        name: PresetName,
    },
    /// Confirm what was learnt, or the rules of a file (`[[allow]]` with host, methods and paths)
    #[command(after_help = "Examples:
  torno preset confirm pip
  torno preset confirm pip edited.toml")]
    Confirm {
        /// Its name
        #[arg(value_parser = values::preset)]
        name: PresetName,
        /// A file with its rules; what `learn` saw last when left out
        file: Option<PathBuf>,
        /// Confirm without asking (you have read it)
        #[arg(long, short)]
        yes: bool,
    },
    /// Forget a preset; policies that name it start no session until it is learnt again
    #[command(after_help = "Example: torno preset remove pip")]
    Remove {
        /// Its name
        #[arg(value_parser = values::preset)]
        name: PresetName,
    },
}

/// Runs it.
pub(crate) async fn run(command: &Preset, context: &Context) -> Outcome<u8> {
    match command {
        Preset::Learn(command) => learn::run(command, context).await,
        Preset::List => list(context).await,
        Preset::Show { name } => show(name, context).await,
        Preset::Confirm { name, file, yes } => {
            let file = match file {
                Some(file) => context.directory.join(file),
                None => learnt(name, context),
            };
            let notary = Notary::open(context).await?;
            confirm(name, &read(&file)?, *yes, &notary, context).await?;
            Ok(0)
        }
        Preset::Remove { name } => {
            let notary = Notary::open(context).await?;
            let request = OperatorRequest::RemovePreset { name: name.clone() };
            notary.done(&request).await?;
            context.show(&serde_json::json!({ "removed": name }), "removed\n")?;
            Ok(0)
        }
    }
}

async fn list(context: &Context) -> Outcome<u8> {
    let known = Notary::open(context).await?.presets().await?;
    let mut human = String::new();
    let mut rows = Vec::new();
    for (name, preset) in known.all() {
        human.push_str(&format!("{name}\n"));
        for line in preset.lines() {
            human.push_str(&format!("  {line}\n"));
        }
        rows.push(serde_json::json!({ "name": name, "text": preset.text() }));
    }
    if rows.is_empty() {
        human.push_str("no preset; `torno preset learn NAME -- CMD…` learns one\n");
    }
    context.show(&rows, &human)?;
    Ok(0)
}

async fn show(name: &PresetName, context: &Context) -> Outcome<u8> {
    let known = Notary::open(context).await?.presets().await?;
    let preset = known.preset(name).ok_or_else(|| {
        Stop::new(format!("there is no preset `{name}`"))
            .code("preset_unknown")
            .next(format!("learn it with `torno preset learn {name} -- CMD…`"))
    })?;
    let value = serde_json::json!({ "name": name, "text": preset.text() });
    context.show(&value, &preset.text())?;
    Ok(0)
}

/// Shows a preset and, when a person says so, makes it the one of that name.
async fn confirm(
    name: &PresetName,
    preset: &Hosts,
    yes: bool,
    notary: &Notary,
    context: &Context,
) -> Outcome {
    if !context.json {
        let lines = preset.lines();
        let shown: String = lines.iter().map(|line| format!("  {line}\n")).collect();
        note(&format!("preset {name}:\n{shown}"));
    }
    if !yes && !context.confirm("Confirm it?")? {
        return Err(Stop::new("it was not confirmed")
            .code("preset_not_confirmed")
            .next(format!(
                "answer `y` at a terminal, or `torno preset confirm {name} FILE --yes` after \
                 reading FILE (what was learnt: `{}`)",
                learnt(name, context).display()
            )));
    }
    let request = OperatorRequest::SetPreset {
        name: name.clone(),
        text: preset.text(),
    };
    notary.done(&request).await?;
    let value = serde_json::json!({ "name": name, "text": preset.text() });
    let said = "confirmed; policies that name it need `torno trust` again\n";
    context.show(&value, said)
}

/// Where `learn` puts what it saw, until somebody confirms it.
fn learnt(name: &PresetName, context: &Context) -> PathBuf {
    let file = format!("{name}.toml");
    context.paths.state().join("learnt").join(file)
}

fn read(file: &Path) -> Outcome<Hosts> {
    let text = document::read_text(file).map_err(|stop| {
        stop.next("name a file that is there, or learn it with `torno preset learn`")
    })?;
    Hosts::parse(&text).map_err(|error| {
        let name = printable::line(&file.display().to_string());
        let mut stop = Stop::new(format!("`{name}` is no preset")).code("preset_invalid");
        stop.causes = vec![printable::lines(&torno_policy::document::render(
            &error, &text,
        ))];
        stop.next("correct it, then confirm it again")
    })
}
