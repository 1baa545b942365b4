// SPDX-License-Identifier: Apache-2.0
//! `torno policy simulate`: a request tried out on a document that nobody has accepted yet, by the
//! function that decides in earnest. Nothing is started, sent or recorded.

use super::{Target, in_force, show_explanation, target};
use crate::context::{Context, note};
use crate::document::{self, Document};
use crate::notary::Notary;
use crate::stop::{Outcome, Stop};
use crate::values;
use std::path::PathBuf;
use torno_notary_protocol::operator::{OperatorReply, OperatorRequest};
use torno_policy::Decision;
use torno_policy::binding::{Binding, Held, Slot};
use torno_policy::decide::{IssuedPlaceholder, Layers, decide, explain};
use torno_policy::facts::{Act, BodySlot, Location, Presented, RequestFacts};
use torno_policy::grant::{Grant, Verdict};
use torno_policy::names::{CredentialName, Generation, Method, SessionId};
use torno_policy::organisation::Organisation;
use torno_policy::placeholder::PlaceholderDigest;
use torno_policy::standing::{Phase, Standing, State};

/// Which layer and rule would decide this request under a document, without a session
///
/// Bindings are the vault's when tornod runs; without it no credential is known.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  torno policy simulate GET https://docs.example.org/
  torno policy simulate --with github POST https://api.github.example/repos/acme/app/issues")]
pub(crate) struct Simulate {
    /// The document; `torno.toml` of the working directory when left out
    #[arg(long, value_name = "FILE")]
    document: Option<PathBuf>,
    /// The request carries this credential's placeholder where its binding has it; in a query or
    /// path write `{credential}` there
    #[arg(long, value_name = "NAME", value_parser = values::credential)]
    with: Option<CredentialName>,
    /// In the install phase
    #[arg(long)]
    install: bool,
    /// The method
    #[arg(value_parser = values::method)]
    method: Method,
    /// The URL, http or https; ws or wss asks for a WebSocket
    #[arg(value_parser = target)]
    url: Target,
}

/// Runs it.
pub(super) async fn run(simulate: &Simulate, context: &Context) -> Outcome<u8> {
    let file = document::named(context, simulate.document.as_deref());
    let mut document = Document::read(&file)?;
    if !document.presets.is_empty() {
        document = document.with_presets(&Notary::open(context).await?).await?;
    }
    let policy = in_force(context)?;
    let organisation = Organisation::parse(&policy)
        .map_err(|error| document::invalid(&context.paths.organisation(), &policy, &error))?;
    let bindings = bindings(context).await?;
    let standing = Standing {
        session: SessionId::parse("simulated")
            .map_err(|error| Stop::new("no session's name").because(&error))?,
        generation: Generation(1),
        state: State::Running,
        phase: if simulate.install {
            Phase::Install
        } else {
            Phase::Locked
        },
    };
    let issued = issued(&document.grant);
    let mut facts = simulate.url.facts(&simulate.method);
    if let Some(name) = &simulate.with {
        present(name, &issued, &bindings, &mut facts)?;
    }
    let layers = Layers {
        standing: Some(&standing),
        asker: standing.generation,
        organisation: &organisation,
        grant: &document.grant,
        bindings: &bindings,
        placeholders: &issued,
        tripwires: &[],
        now: context.now,
    };
    let act = Act::Request(facts);
    let opinions = explain(&layers, &act).layers;
    let lines: Vec<_> = opinions
        .iter()
        .map(|said| {
            (
                said.layer,
                word(said.verdict()).to_owned(),
                said.rule.to_string(),
            )
        })
        .collect();
    match decide(&layers, &act) {
        Decision::Allow(_) => show_explanation("allow", &lines, None, context),
        Decision::Ask(_) => show_explanation("ask", &lines, None, context),
        Decision::Deny(refusal) => show_explanation("deny", &lines, Some(&refusal), context),
    }
}

fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Allow => "allow",
        Verdict::Ask => "ask",
        Verdict::Deny => "deny",
    }
}

/// The vault's bindings, when somebody can be asked; simulating starts nothing.
async fn bindings(context: &Context) -> Outcome<Vec<Binding>> {
    if !crate::daemon::answers(&context.paths.notary_socket()) {
        if !context.json {
            note("torno: tornod is not running, so no binding is known here\n");
        }
        return Ok(Vec::new());
    }
    match Notary::connect(context)?
        .ask(&OperatorRequest::List)
        .await?
    {
        OperatorReply::Listed { bindings, .. } => Ok(bindings),
        _ => Err(crate::notary::unexpected()),
    }
}

/// A placeholder for each credential of the grant, as a session would be given. None has a text.
fn issued(grant: &Grant) -> Vec<IssuedPlaceholder> {
    let of_secrets = grant.secrets.iter().map(|secret| &secret.credential);
    let of_git = grant.git.iter().filter_map(|git| git.secret.as_ref());
    let mut names: Vec<_> = of_secrets.chain(of_git).cloned().collect();
    names.sort();
    names.dedup();
    let digest = |at: usize| {
        let mut digest = [0; 32];
        for (to, from) in digest.iter_mut().zip(at.to_le_bytes()) {
            *to = from;
        }
        PlaceholderDigest(digest)
    };
    names
        .into_iter()
        .enumerate()
        .map(|(at, credential)| IssuedPlaceholder {
            digest: digest(at),
            credential,
        })
        .collect()
}

fn header(name: Option<&str>) -> Location {
    Location::Header(name.unwrap_or("authorization").to_owned())
}

fn present(
    name: &CredentialName,
    issued: &[IssuedPlaceholder],
    bindings: &[Binding],
    facts: &mut RequestFacts,
) -> Outcome {
    let placeholder = issued.iter().find(|issued| issued.credential == *name);
    let placeholder = placeholder.ok_or_else(|| {
        Stop::new(format!("the document grants no secret `{name}`"))
            .next(format!("add [secret.{name}] to it"))
    })?;
    let here =
        |binding: &&Binding| binding.credential == *name && binding.endpoint == facts.endpoint;
    let is_for = |binding: &&Binding| {
        here(binding) && binding.paths.iter().any(|path| path.is_match(&facts.path))
    };
    let mut bindings = bindings.iter();
    let binding = bindings
        .clone()
        .find(is_for)
        .or_else(|| bindings.find(here));
    let location = match binding.map(|binding| &binding.slot) {
        Some(Slot::Query { .. }) => Location::Query,
        Some(Slot::Path { .. }) => Location::Path,
        Some(slot @ (Slot::Header { .. } | Slot::Basic { .. } | Slot::Sigv4(_))) => {
            header(slot.header_name())
        }
        Some(slot @ Slot::Jwt(_)) => header(slot.header_name()),
        Some(slot @ Slot::Hmac(hmac)) => {
            if hmac.text.reads_body() {
                facts.body = Some(Box::new(BodySlot {
                    slot: slot.clone(),
                    held: Held::Nothing,
                }));
            }
            header(slot.header_name())
        }
        Some(slot @ (Slot::Form { .. } | Slot::Json { .. } | Slot::Multipart { .. })) => {
            facts.body = Some(Box::new(BodySlot {
                slot: slot.clone(),
                held: Held::Placeholder,
            }));
            Location::Slot
        }
        // What is said later is not part of the handshake.
        Some(Slot::WebsocketJson { .. }) => return Ok(()),
        // The gate holds the placeholder against what the client proves, before it asks.
        Some(Slot::Postgres { .. }) => return Ok(()),
        None => header(None),
    };
    facts.presented.push(Presented {
        location,
        digest: placeholder.digest,
    });
    Ok(())
}
