// SPDX-License-Identifier: Apache-2.0
//! `torno secret`: put credentials into the vault and say where each may go. Values go in, from a
//! file, standard input or a silent prompt; there is no command that brings one out.

use crate::context::{Context, note};
use crate::notary::{Notary, unexpected};
use crate::secret_input::{self, Typed};
use crate::stop::Outcome;
use crate::values;
use std::path::PathBuf;
use torno_notary_protocol::operator::{OperatorReply, OperatorRequest};
use torno_policy::names::{BindingId, CredentialName};

mod bind;
mod probe;
pub(crate) mod shown;

/// Put credentials into the vault, and say where each may go
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Secret {
    /// Store a new credential, from a file, standard input, or a prompt without echo
    ///
    /// One newline at its end is dropped. The value is never an argument: those are seen by others.
    #[command(after_help = "Examples:
  torno secret put github --shape ghp_
  pass show api | torno secret put api --shape sk-")]
    Put {
        /// Its name
        #[arg(value_parser = values::credential)]
        name: CredentialName,
        /// How it begins, so that tools take the placeholder for a real one (`ghp_`, `sk-`)
        #[arg(long, default_value = "", value_name = "PREFIX")]
        shape: String,
        /// Read it from this file
        #[arg(long, value_name = "FILE")]
        file: Option<PathBuf>,
    },
    Bind(Box<bind::Bind>),
    Probe(probe::Probe),
    /// Remove a binding
    #[command(after_help = "Example: torno secret unbind github-api.github.example")]
    Unbind {
        /// The binding (`torno secret list`)
        #[arg(value_parser = values::binding)]
        id: BindingId,
    },
    /// Names, versions and bindings; never values
    #[command(after_help = "Example: torno secret list --output json")]
    List,
    /// All of a credential's bindings, with every path and what each denies; never its value
    #[command(after_help = "Example: torno secret show github")]
    Show {
        /// Its name
        #[arg(value_parser = values::credential)]
        name: CredentialName,
    },
    /// Store a new value for a credential; bindings and placeholders stay
    #[command(after_help = "Example: torno secret rotate github --file ./new-token")]
    Rotate {
        /// Its name
        #[arg(value_parser = values::credential)]
        name: CredentialName,
        /// Read it from this file
        #[arg(long, value_name = "FILE")]
        file: Option<PathBuf>,
    },
    /// No use from now on; live streams that carry it are cut
    #[command(after_help = "Example: torno secret revoke github")]
    Revoke {
        /// Its name
        #[arg(value_parser = values::credential)]
        name: CredentialName,
    },
    /// Remove a credential and its bindings
    #[command(after_help = "Example: torno secret remove github")]
    Remove {
        /// Its name
        #[arg(value_parser = values::credential)]
        name: CredentialName,
    },
}

/// Runs it.
pub(crate) async fn run(command: &Secret, context: &Context) -> Outcome<u8> {
    let done = match command {
        Secret::Put { name, shape, file } => {
            let value = value(name, file.as_ref())?;
            let is_shaped = value.begins_with(shape);
            let request = OperatorRequest::Put {
                name: name.clone(),
                shape: shape.clone(),
            };
            send(&request, value, context).await?;
            if !is_shaped && !context.json {
                note(&format!(
                    "torno: the value does not begin with `{shape}`; where that is a mistake, \
                     `torno secret rotate {name}` stores another\n"
                ));
            }
            format!("stored {name}; `torno secret bind {name} --host HOST` says where it may go")
        }
        Secret::Rotate { name, file } => {
            let value = value(name, file.as_ref())?;
            let request = OperatorRequest::Rotate { name: name.clone() };
            send(&request, value, context).await?;
            format!("{name} has a new value")
        }
        Secret::Bind(bind) => {
            let binding = bind.binding(context.now)?;
            let request = OperatorRequest::Bind(Box::new(binding.clone()));
            Notary::open(context).await?.done(&request).await?;
            shown::line(&binding)
        }
        Secret::Unbind { id } => {
            let request = OperatorRequest::Unbind { id: id.clone() };
            Notary::open(context).await?.done(&request).await?;
            format!("removed binding {id}")
        }
        Secret::Revoke { name } => {
            let request = OperatorRequest::Revoke { name: name.clone() };
            Notary::open(context).await?.done(&request).await?;
            format!("revoked {name}; also revoke it where it was issued")
        }
        Secret::Remove { name } => {
            let request = OperatorRequest::Remove { name: name.clone() };
            Notary::open(context).await?.done(&request).await?;
            format!("removed {name} and its bindings")
        }
        Secret::Probe(probe) => return probe::run(probe, context).await,
        Secret::List => {
            shown::list(context).await?;
            return Ok(0);
        }
        Secret::Show { name } => {
            shown::show(name, context).await?;
            return Ok(0);
        }
    };
    context.show(&serde_json::json!({ "done": done }), &format!("{done}\n"))?;
    Ok(0)
}

fn value(name: &CredentialName, file: Option<&PathBuf>) -> Outcome<Typed> {
    let typed = match file {
        Some(file) => secret_input::from_file(file)?,
        None => secret_input::from_stdin(&format!("Value of {name}: "))?,
    };
    typed.without_newline().not_empty("value")
}

async fn send(request: &OperatorRequest, value: Typed, context: &Context) -> Outcome {
    let notary = Notary::open(context).await?;
    match notary.ask_with(request, value.into_transit()).await? {
        OperatorReply::Done => Ok(()),
        _ => Err(unexpected()),
    }
}
