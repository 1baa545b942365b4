// SPDX-License-Identifier: Apache-2.0
//! `torno secret`: put credentials into the vault and say where each may go. Values go in, from a
//! file, standard input or a silent prompt; there is no command that brings one out.

use crate::clock;
use crate::context::{Context, say};
use crate::notary::{Notary, unexpected};
use crate::secret_input::{self, Typed};
use crate::stop::Outcome;
use crate::values;
use std::path::PathBuf;
use torno_notary_protocol::operator::{OperatorReply, OperatorRequest};
use torno_policy::binding::{Binding, Slot};
use torno_policy::names::{BindingId, CredentialName};

mod bind;

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
    Bind(bind::Bind),
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
            let request = OperatorRequest::Put {
                name: name.clone(),
                shape: shape.clone(),
            };
            send(&request, value, context).await?;
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
            line(&binding)
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
        Secret::List => {
            list(context).await?;
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

async fn list(context: &Context) -> Outcome {
    let reply = Notary::open(context)
        .await?
        .ask(&OperatorRequest::List)
        .await?;
    let OperatorReply::Listed {
        credentials,
        bindings,
    } = reply
    else {
        return Err(unexpected());
    };
    if context.json {
        let value = serde_json::json!({ "credentials": credentials, "bindings": bindings });
        return context.show(&value, "");
    }
    let mut text = String::new();
    for row in &credentials {
        let revoked = if row.revoked { "  revoked" } else { "" };
        text.push_str(&format!(
            "{}  version {}  {}{revoked}\n",
            row.name,
            row.version,
            clock::seconds(row.changed_at)
        ));
        let own = bindings
            .iter()
            .filter(|binding| binding.credential == row.name);
        for binding in own {
            text.push_str(&format!("  {}\n", line(binding)));
        }
    }
    if credentials.is_empty() {
        text.push_str("the vault holds nothing; `torno secret put NAME` stores a credential\n");
    }
    say(&text)
}

/// A binding in one line.
fn line(binding: &Binding) -> String {
    let words = |items: Vec<String>| items.join(" ");
    let place = match &binding.slot {
        Slot::Header { name, scheme } => match scheme {
            Some(scheme) => format!("in {name}: {scheme} …"),
            None => format!("in {name}: …"),
        },
        Slot::Basic { user } => format!("as Basic of {user}"),
    };
    let until = binding.expires_at.map(clock::seconds);
    crate::printable::line(&format!(
        "{}: {} {} {} {place}{}",
        binding.id,
        binding.endpoint,
        words(binding.methods.iter().map(ToString::to_string).collect()),
        words(binding.paths.iter().map(ToString::to_string).collect()),
        until
            .map(|until| format!(" until {until}"))
            .unwrap_or_default()
    ))
}
