// SPDX-License-Identifier: Apache-2.0
//! `torno preset learn`: the client runs in a real sandbox that reaches nothing but what was
//! confirmed before. What it was refused, as the record has it, is what it asks for; the operator
//! confirms or narrows it, and it runs again until it is refused nothing.

use super::asked::{Asked, proposal};
use super::{confirm, learnt};
use crate::command::run::{self, Beginning, Shape};
use crate::context::{Context, note};
use crate::desk::Desk;
use crate::document::Document;
use crate::execution::{self, Wanted};
use crate::notary::{Notary, unexpected};
use crate::stop::{Outcome, Stop};
use crate::values;
use torno_audit::{Event, Records};
use torno_control_api::request::ApiRequest;
use torno_notary_protocol::operator::{OperatorReply, OperatorRequest};
use torno_policy::document::Preset;
use torno_policy::names::{PresetName, SessionId};

/// LIMIT: a client asks an index, then files, then perhaps a mirror; more rounds are a loop.
const ROUNDS_MAX: usize = 8;

/// Run a package client sealed, and note which hosts it asks for
///
/// Each round reaches what was confirmed so far and nothing else. Without a terminal one round is
/// run, and what it asked for waits for `torno preset confirm NAME`; then learn again. The client
/// works on a copy of this directory.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  torno preset learn pip -- pip download --no-deps six
  torno preset learn npm --whole-hosts -- npm install --ignore-scripts left-pad")]
pub(crate) struct Learn {
    /// The preset's name
    #[arg(value_parser = values::preset)]
    name: PresetName,
    #[command(flatten)]
    shape: Shape,
    /// Propose all paths of each host for reading, not only the places that were asked for
    #[arg(long)]
    whole_hosts: bool,
    /// Confirm whatever it asks for without asking (for a client and arguments that you trust)
    #[arg(long, short)]
    yes: bool,
    /// The client and its arguments, after `--`
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<String>,
}

/// What one round showed.
struct Round {
    asked: Vec<Asked>,
    /// Refused for another reason than that nobody granted it.
    odd: Vec<String>,
    exit: u8,
}

/// Runs it.
pub(super) async fn run(learn: &Learn, context: &Context) -> Outcome<u8> {
    let notary = Notary::open(context).await?;
    let known = notary.presets().await?;
    let mut confirmed = known.preset(&learn.name).cloned();
    for _ in 0..ROUNDS_MAX {
        let round = round(learn, confirmed.as_ref(), &notary, context).await?;
        for line in &round.odd {
            note(&format!(
                "torno: refused, and no preset allows it: {line}\n"
            ));
        }
        if round.asked.is_empty() {
            return finished(learn, confirmed.as_ref(), &round, context);
        }
        let wanted = proposal(confirmed.as_ref(), &round.asked, learn.whole_hosts)
            .map_err(|error| Stop::new(format!("it asks for too much: {error}")))?;
        keep(learn, &wanted, context)?;
        confirm(&learn.name, &wanted, learn.yes, &notary, context).await?;
        confirmed = Some(wanted);
    }
    Err(Stop::new(format!(
        "after {ROUNDS_MAX} rounds it still asks for new places"
    ))
    .next("look at `torno preset show`, and write the rest yourself: `torno preset confirm`"))
}

fn finished(
    learn: &Learn,
    confirmed: Option<&Preset>,
    round: &Round,
    context: &Context,
) -> Outcome<u8> {
    if round.exit != 0 {
        note(&format!(
            "torno: the client ended with {}, though it asked for nothing that was not confirmed\n",
            round.exit
        ));
        return Ok(round.exit);
    }
    let name = &learn.name;
    let said = match confirmed {
        Some(_) => format!("learnt; a policy says `allow = [{{ preset = \"{name}\" }}]`\n"),
        None => "it asked for nothing outside, so there is nothing to learn\n".to_owned(),
    };
    let text = confirmed.map(Preset::text);
    context.show(&serde_json::json!({ "name": name, "text": text }), &said)?;
    Ok(0)
}

/// Runs the client once, with what was confirmed and nothing else.
async fn round(
    learn: &Learn,
    confirmed: Option<&Preset>,
    notary: &Notary,
    context: &Context,
) -> Outcome<Round> {
    let OperatorReply::RecordHead { size: from, .. } =
        notary.ask(&OperatorRequest::RecordHead).await?
    else {
        return Err(unexpected());
    };
    let mut text = learn.shape.text();
    text.push_str(&confirmed.map(Preset::text).unwrap_or_default());
    let document = run::admit(Document::typed(text)?, context).await?;
    let desk = Desk::open(context).await?;
    let started = run::start(
        &learn.shape,
        Beginning::default(),
        &document,
        &desk,
        context,
    )
    .await?;
    let wanted = Wanted {
        argv: learn.command.clone(),
        env: Vec::new(),
        cwd: None,
        raw: false,
    };
    let exit = execution::execute(&desk, &started.session, wanted).await;
    let session = started.session.clone();
    desk.ask(&ApiRequest::Stop { session }, &[]).await?;
    let (asked, odd) = refused(from, &started.session, context)?;
    Ok(Round {
        asked,
        odd,
        exit: exit?,
    })
}

/// What the record says that the session was refused.
fn refused(
    from: u64,
    session: &SessionId,
    context: &Context,
) -> Outcome<(Vec<Asked>, Vec<String>)> {
    let unreadable = |error: torno_audit::reader::ReadError| {
        Stop::new("the record can't be read")
            .because(&error)
            .next("run this as the user that runs tornod")
    };
    let (mut asked, mut odd) = (Vec::new(), Vec::new());
    for record in Records::open(&context.paths.record(), from).map_err(unreadable)? {
        let entry = record.map_err(unreadable)?.entry;
        if entry.session.as_ref() != Some(session) {
            continue;
        }
        if let Event::RequestDecided(decided) = &entry.event {
            match Asked::of(decided) {
                Some(one) if !asked.contains(&one) => asked.push(one),
                Some(_) => {}
                None if decided.reason.is_some() => odd.push(super::asked::shown(decided)),
                None => {}
            }
        } else if let Event::RequestRefused(refused) = &entry.event {
            let (target, reason) = (refused.target.as_str(), refused.reason.code());
            odd.push(format!("{target} ({reason})"));
        }
    }
    odd.dedup();
    let odd = odd
        .iter()
        .map(|line| crate::printable::line(line))
        .collect();
    Ok((asked, odd))
}

/// Keeps what was seen, for `confirm` and for an editor.
fn keep(learn: &Learn, wanted: &Preset, context: &Context) -> Outcome {
    use std::os::unix::fs::DirBuilderExt;
    let place = learnt(&learn.name, context);
    let made = place.parent().map_or(Ok(()), |directory| {
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(directory)
    });
    made.and_then(|()| std::fs::write(&place, wanted.text()))
        .map_err(|error| {
            Stop::new(format!("`{}` can't be written", place.display())).because(&error)
        })
}
