// SPDX-License-Identifier: Apache-2.0
//! `torno policy learn`: the requests that the record holds of a session, turned into the narrowest
//! rules that allow exactly those, for a person to read. Each is tried out by the function that
//! decides in earnest before it is printed. Nothing is accepted, and no credential is granted.

mod observed;
mod rules;

use super::in_force;
use crate::context::{Context, note, say};
use crate::document;
use crate::printable;
use crate::stop::{Outcome, Stop};
use crate::values;
use observed::{Learnt, Observed};
use std::io::Write;
use std::path::PathBuf;
use torno_audit::Records;
use torno_policy::Decision;
use torno_policy::decide::{Layers, decide};
use torno_policy::document::Presets;
use torno_policy::facts::Act;
use torno_policy::names::{Generation, SessionId};
use torno_policy::organisation::Organisation;
use torno_policy::standing::{Phase, Standing, State};

/// The narrowest rules for what a session asked for, for a person to read
///
/// Learnt is what was allowed without a credential, and what was refused because no rule named it.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  torno policy learn 4kq2…
  torno policy learn 4kq2… --stars 3 --write torno.learnt.toml")]
pub(crate) struct Learn {
    /// The session, as it stands in the record
    #[arg(value_parser = values::session)]
    session: SessionId,
    /// So many different values at one place of a path become `*`; 0 for never
    #[arg(long, default_value_t = 5)]
    stars: usize,
    /// Write the rules to a new file
    #[arg(long, value_name = "FILE")]
    write: Option<PathBuf>,
}

/// Runs it.
pub(super) fn run(learn: &Learn, context: &Context) -> Outcome<u8> {
    let observed = read(learn, context)?;
    let text = in_force(context)?;
    let organisation = Organisation::parse(&text)
        .map_err(|error| document::invalid(&context.paths.organisation(), &text, &error))?;
    let learnt = permitted(observed.learnt, &organisation, context)?;
    let mut text = rules::text(&learnt.kept, learn.stars);
    check(&text, &learnt.kept, &organisation, context)?;
    let mut left = observed.left;
    left.extend(learnt.left);
    for line in &left {
        text.push_str(&format!("# {}\n", printable::line(line)));
    }
    match &learn.write {
        None => say(&text)?,
        Some(file) => {
            let file = context.directory.join(file);
            let written =
                std::fs::File::create_new(&file).and_then(|mut new| new.write_all(text.as_bytes()));
            written.map_err(|error| {
                Stop::new(format!("`{}` can't be written", file.display()))
                    .because(&error)
                    .next("name a file that does not exist yet")
            })?;
            note(&format!(
                "torno: read {}, take what you want into torno.toml, and run `torno trust`\n",
                file.display()
            ));
        }
    }
    Ok(0)
}

fn read(learn: &Learn, context: &Context) -> Outcome<Observed> {
    let damaged = |error: torno_audit::reader::ReadError| {
        Stop::new("the record can't be read")
            .because(&error)
            .next("run this as the user that runs tornod")
    };
    let mut observed = Observed::default();
    for record in Records::open(&context.paths.record(), 0).map_err(damaged)? {
        let record = record.map_err(damaged)?;
        if record.entry.session.as_ref() == Some(&learn.session) {
            observed.take(&record.entry.event);
        }
    }
    if observed.is_empty() {
        return Err(
            Stop::new(format!("the record has no request of {}", learn.session))
                .next("look at `torno session list`"),
        );
    }
    Ok(observed)
}

struct Permitted {
    kept: Vec<Learnt>,
    left: Vec<String>,
}

/// What the organisation's policy permits: the rest no grant can allow.
fn permitted(
    learnt: Vec<Learnt>,
    organisation: &Organisation,
    context: &Context,
) -> Outcome<Permitted> {
    let (mut kept, mut left) = (Vec::new(), Vec::new());
    for one in learnt {
        let text = rules::text(std::slice::from_ref(&one), 0);
        if is_allowed(&text, &one, organisation, context)? {
            kept.push(one);
        } else {
            left.push(format!("not learnt, no grant can allow it: {one}"));
        }
    }
    Ok(Permitted { kept, left })
}

/// Every learnt request is allowed by the learnt rules.
fn check(text: &str, learnt: &[Learnt], organisation: &Organisation, context: &Context) -> Outcome {
    for one in learnt {
        if !is_allowed(text, one, organisation, context)? {
            return Err(Stop::new(format!("the rules would refuse {one}"))
                .next("this is a fault of torno: tell its makers"));
        }
    }
    Ok(())
}

fn is_allowed(
    text: &str,
    one: &Learnt,
    organisation: &Organisation,
    context: &Context,
) -> Outcome<bool> {
    let grant = torno_policy::document::parse(text, &Presets::shipped())
        .map_err(|error| Stop::new("the rules that were learnt are no document").because(&error))?;
    let standing = Standing {
        session: SessionId::parse("learnt")
            .map_err(|error| Stop::new("no session's name").because(&error))?,
        generation: Generation(1),
        state: State::Running,
        phase: Phase::Locked,
    };
    let layers = Layers {
        standing: Some(&standing),
        asker: standing.generation,
        organisation,
        grant: &grant,
        bindings: &[],
        placeholders: &[],
        tripwires: &[],
        now: context.now,
    };
    let decision = decide(&layers, &Act::Request(one.facts()));
    Ok(matches!(decision, Decision::Allow(_) | Decision::Ask(_)))
}
