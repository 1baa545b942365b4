// SPDX-License-Identifier: Apache-2.0
//! `torno doctor`: which levels work on this machine, what is missing, and the one command that
//! fixes each.

use crate::context::Context;
use crate::desk::{Desk, unexpected};
use crate::printable;
use crate::stop::{FOUND_WANTING, Outcome};
use crate::values::level_word;
use torno_control_api::request::{ApiReply, ApiRequest, LevelReport};
use torno_policy::grant::Isolation;

/// What works on this machine, level by level, and how to fix what does not
///
/// Exit code: 0 when a level works without being named, 1 when none does.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: torno doctor")]
pub(crate) struct Doctor {}

/// Runs it.
pub(crate) async fn run(_: &Doctor, context: &Context) -> Outcome<u8> {
    let desk = Desk::open(context).await?;
    context.progress("trying each level");
    let levels = match desk.ask(&ApiRequest::Doctor, &[]).await?.0 {
        ApiReply::Doctor(levels) => levels,
        other => return Err(unexpected(&other)),
    };
    context.show(&levels, &lines(&levels))?;
    let unnamed = |level: &&LevelReport| level.works && level.isolation != Isolation::Container;
    Ok(if levels.iter().any(|level| unnamed(&level)) {
        0
    } else {
        FOUND_WANTING
    })
}

fn lines(levels: &[LevelReport]) -> String {
    let mut text = String::new();
    for level in levels {
        let state = if level.works {
            "works"
        } else {
            "does not work"
        };
        text.push_str(&format!("{:9}  {state}\n", level_word(level.isolation)));
        for line in &level.lines {
            text.push_str(&format!("           {}\n", printable::line(line)));
        }
        if let Some(fix) = &level.fix {
            text.push_str(&format!("           fix: {}\n", printable::line(fix)));
        }
    }
    text
}
