// SPDX-License-Identifier: Apache-2.0
//! `torno doctor`: which levels work on this machine, what is missing, and the one command that
//! fixes each; and in one line what lies about.

use crate::context::Context;
use crate::desk::{Desk, unexpected};
use crate::printable;
use crate::stop::{FOUND_WANTING, Outcome};
use crate::values::level_word;
use std::ffi::OsStr;
use torno_control_api::request::{ApiReply, ApiRequest, LevelReport};
use torno_image::debian;
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
    let left = super::gc::leftovers(&desk, false).await?;
    let images = images(context.search_path.as_deref());
    let left = lying(left.len());
    context.show(&levels, &format!("{}{images}{left}", lines(&levels)))?;
    let unnamed = |level: &&LevelReport| level.works && level.isolation != Isolation::Container;
    Ok(if levels.iter().any(|level| unnamed(&level)) {
        0
    } else {
        FOUND_WANTING
    })
}

/// What lies about, in one line.
fn lying(count: usize) -> String {
    match count {
        0 => "leftovers  none\n".to_owned(),
        count => {
            format!("leftovers  {count}: `torno gc` names each, `torno gc --apply` removes it\n")
        }
    }
}

/// What `torno image build --debian` needs; no level does.
fn images(search_path: Option<&OsStr>) -> String {
    let is_here = search_path.is_some_and(debian::is_installed);
    if is_here {
        "images     of Debian's packages by their names: work\n".to_owned()
    } else {
        let missing = "images     of Debian's packages by their names: no mmdebstrap";
        format!("{missing}\n           fix: {MMDEBSTRAP_FIX}\n")
    }
}

/// What brings `mmdebstrap`.
pub(crate) const MMDEBSTRAP_FIX: &str =
    "run `apt-get install --no-install-recommends mmdebstrap`, and without root `uidmap` too";

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_that_brings_mmdebstrap_is_said_where_it_is_missing() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().as_os_str();
        assert!(images(Some(path)).contains(MMDEBSTRAP_FIX));
        assert!(images(None).contains(MMDEBSTRAP_FIX));
        std::fs::write(place.path().join("mmdebstrap"), "").unwrap();
        assert!(!images(Some(path)).contains("fix"));
    }
}
