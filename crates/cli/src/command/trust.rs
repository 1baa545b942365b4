// SPDX-License-Identifier: Apache-2.0
//! `torno trust`: a person reads what a policy document grants and accepts exactly these bytes.

use crate::command::secret::shown;
use crate::context::{Context, note};
use crate::document::{self, Document};
use crate::notary::{Notary, hex};
use crate::printable;
use crate::stop::{Outcome, Stop};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use torno_policy::document::widens;
use torno_policy::names::CredentialName;

/// Read what a torno.toml grants, and accept it
///
/// A policy file counts by its digest: any change of it asks again, and what widens is shown.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: torno trust")]
pub(crate) struct Trust {
    /// The file; `torno.toml` of the working directory when left out
    file: Option<PathBuf>,
    /// Accept without asking (you have read it)
    #[arg(long, short)]
    yes: bool,
}

/// Runs it.
pub(crate) async fn run(trust: &Trust, context: &Context) -> Outcome<u8> {
    let file = document::named(context, trust.file.as_deref());
    let document = Document::read(&file)?;
    let notary = Notary::open(context).await?;
    let document = document.with_presets(&notary).await?;
    let digest = document.digest;
    let accepted = notary.accepted(digest).await?;
    let wider = wider(&notary, &document, &file, context).await?;
    let places = shown::places(&credentials(&document), &notary).await?;
    if !context.json {
        note(&text(&file, &document, &places, wider.as_deref()));
    }
    if !accepted {
        let question = "Accept it?";
        if !trust.yes && !context.confirm(question)? {
            return Err(Stop::new("it was not accepted")
                .code("document_not_accepted")
                .next("answer `y` at a terminal, or say `--yes` after reading it"));
        }
        notary.accept(digest).await?;
    }
    if document::keep_accepted(context, &file, &document).is_err() {
        note("torno: the text can't be kept, so the next change will be shown whole\n");
    }
    let value = serde_json::json!({
        "file": file, "digest": hex(digest), "grants": document.lines(), "bindings": places,
        "widens": wider,
        "accepted_before": accepted,
    });
    let said = if accepted {
        "accepted before\n"
    } else {
        "accepted\n"
    };
    context.show(&value, said)?;
    Ok(0)
}

/// What it gives beyond the text that was accepted before, where that is known and still counts.
async fn wider(
    notary: &Notary,
    document: &Document,
    file: &Path,
    context: &Context,
) -> Outcome<Option<Vec<String>>> {
    let Some(before) = document::accepted_before(context, file) else {
        return Ok(None);
    };
    let Some((digest, before)) = before.read() else {
        return Ok(None);
    };
    if !notary.accepted(digest).await? {
        return Ok(None);
    }
    let lines = widens(&before, &document.grant);
    Ok(Some(
        lines.iter().map(|line| printable::line(line)).collect(),
    ))
}

/// The credentials that it names.
fn credentials(document: &Document) -> BTreeSet<CredentialName> {
    let of_secrets = document
        .grant
        .secrets
        .iter()
        .map(|secret| &secret.credential);
    let of_git = document
        .grant
        .git
        .iter()
        .filter_map(|git| git.secret.as_ref());
    of_secrets.chain(of_git).cloned().collect()
}

fn text(file: &Path, document: &Document, places: &[String], wider: Option<&[String]>) -> String {
    let name = printable::line(&file.display().to_string());
    let mut text = format!("{name} grants:\n");
    for line in document.lines() {
        text.push_str(&format!("  {line}\n"));
    }
    if !places.is_empty() {
        text.push_str("bound in the vault, now:\n");
    }
    for place in places {
        text.push_str(&format!("  {place}\n"));
    }
    match wider {
        None => {}
        Some([]) => text.push_str("nothing wider than what was accepted before\n"),
        Some(wider) => {
            text.push_str("WIDER than what was accepted before:\n");
            for line in wider {
                text.push_str(&format!("  + {line}\n"));
            }
        }
    }
    text
}
