// SPDX-License-Identifier: Apache-2.0
//! `torno gc`: what lies about on this machine and belongs to nobody.

use crate::context::Context;
use crate::desk::{Desk, unexpected};
use crate::printable;
use crate::stop::{FOUND_WANTING, Outcome};
use torno_control_api::request::{ApiReply, ApiRequest, Leftover, LeftoverKind};

/// What lies about on this machine and belongs to nobody
///
/// Reports only, unless you say `--apply`. Nothing of a session that lives or whose copy is kept is
/// named, and nothing that this daemon did not make.
///
/// Exit code: 0 when nothing lies about, 1 when something does.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: torno gc --apply")]
pub(crate) struct Gc {
    /// Remove it
    #[arg(long)]
    apply: bool,
}

/// Runs it.
pub(crate) async fn run(gc: &Gc, context: &Context) -> Outcome<u8> {
    let desk = Desk::open(context).await?;
    let all = leftovers(&desk, gc.apply).await?;
    context.show(&all, &lines(&all, gc.apply))?;
    Ok(if all.iter().all(|one| one.gone) {
        0
    } else {
        FOUND_WANTING
    })
}

/// Asks for them, and has them removed where that is wanted.
pub(super) async fn leftovers(desk: &Desk, remove: bool) -> Outcome<Vec<Leftover>> {
    match desk.ask(&ApiRequest::Leftovers { remove }, &[]).await?.0 {
        ApiReply::Leftovers(all) => Ok(all),
        other => Err(unexpected(&other)),
    }
}

fn lines(all: &[Leftover], apply: bool) -> String {
    if all.is_empty() {
        return "nothing lies about\n".to_owned();
    }
    let mut text: String = all.iter().map(line).collect();
    if !apply {
        text.push_str("remove it with `torno gc --apply`\n");
    }
    text
}

fn line(one: &Leftover) -> String {
    let state = if one.gone { "removed" } else { "found" };
    let place = printable::line(&one.place);
    let why = one.why.as_deref().map(printable::line);
    let why = why.map(|why| format!(": stays: {why}")).unwrap_or_default();
    format!("{state:7}  {:22}  {place}{why}\n", word(one.kind))
}

const fn word(kind: LeftoverKind) -> &'static str {
    match kind {
        LeftoverKind::Group => "control group",
        LeftoverKind::Journal => "journal entry",
        LeftoverKind::Session => "session's directory",
        LeftoverKind::Removal => "unfinished removal",
        LeftoverKind::Baseline => "baseline",
        LeftoverKind::Unfinished => "unfinished checkpoint",
        LeftoverKind::Checkpoint => "forgotten checkpoint",
        LeftoverKind::Image => "unfinished image",
        LeftoverKind::Mount => "mount",
    }
}
