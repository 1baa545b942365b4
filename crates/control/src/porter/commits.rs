// SPDX-License-Identifier: Apache-2.0
//! What a session committed: refs and objects of the copy's repository, and nothing else of it. No
//! git runs here, and no configuration, hook, index or list of other places is read: the
//! repository is the workload's, and what it says of itself is not asked.

mod objects;
mod refs;

use crate::orders::PorterReply;
use anyhow::Context;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::os::fd::OwnedFd;
use torno_control_api::commits::{Budget, Frame, LEFT_MAX, write_frame};

pub(super) use refs::{Refs, read, repository};

/// LIMIT: a sentence of a frame, in characters; control characters take six bytes each.
const SENTENCE_MAX: usize = 500;

/// Sends refs, then objects.
pub(super) fn send(changed: &OwnedFd, pipe: OwnedFd) -> anyhow::Result<PorterReply> {
    let mut out = Sender {
        pipe: BufWriter::new(File::from(pipe)),
        budget: Budget::default(),
        is_broken: false,
    };
    let sent = send_all(changed, &mut out);
    if out.is_broken {
        return sent.map(|changed| PorterReply::Done { changed });
    }
    if let Err(error) = &sent {
        let why = cut(&format!("{error:#}"));
        // A reader that is gone is told nothing.
        out.frame(&Frame::Failed { why })?;
    }
    out.frame(&Frame::End)?;
    out.pipe
        .flush()
        .context("the reader of the commits went away")?;
    Ok(PorterReply::Done {
        changed: sent.unwrap_or_default(),
    })
}

fn send_all(changed: &OwnedFd, out: &mut Sender) -> anyhow::Result<u32> {
    let repository = repository(changed)?.context("the session's copy has no `.git`")?;
    let refs = read(&repository)?;
    let told = refs.left.len().min(LEFT_MAX);
    for (what, why) in refs.left.iter().take(told) {
        out.left(what, why)?;
    }
    if refs.left.len() > told {
        out.left(&format!("{} more", refs.left.len() - told), "not listed")?;
    }
    for (name, id) in &refs.at {
        let (name, id) = (name.clone(), id.clone());
        out.frame(&Frame::Ref { name, id })?;
    }
    objects::send(&repository, out)?;
    Ok(u32::try_from(refs.at.len()).unwrap_or(u32::MAX))
}

/// The stream, as far as its limits go.
struct Sender {
    pipe: BufWriter<File>,
    budget: Budget,
    /// A file turned out shorter than was said: no frame can follow.
    is_broken: bool,
}

impl Sender {
    fn frame(&mut self, frame: &Frame) -> anyhow::Result<()> {
        self.budget.take(frame)?;
        write_frame(&mut self.pipe, frame).context("the reader of the commits went away")
    }

    fn left(&mut self, what: &str, why: &str) -> anyhow::Result<()> {
        self.frame(&Frame::Left {
            what: cut(what),
            why: cut(why),
        })
    }
}

fn cut(text: &str) -> String {
    text.chars().take(SENTENCE_MAX).collect()
}

/// What a diff says of the copy's repository: refs that are not as the person's own repository has
/// them. Lines hold names in their canonical form, or what was left with its controls escaped.
pub(super) fn heading(original: &OwnedFd, changed: &OwnedFd) -> Vec<String> {
    let theirs = match read_of(changed) {
        Ok(Some(theirs)) => theirs,
        Ok(None) => return Vec::new(),
        Err(why) => return vec![format!("commits: can't come back: {why}")],
    };
    let (ours, not_compared) = match read_of(original) {
        Ok(ours) => (ours.unwrap_or_default(), None),
        Err(why) => (
            Refs::default(),
            Some(format!("  not compared with your repository: {why}")),
        ),
    };
    let mut lines: Vec<String> = not_compared.into_iter().collect();
    for (name, id) in &theirs.at {
        match ours.at.get(name) {
            Some(before) if before == id => {}
            Some(before) => lines.push(format!("  moved  {name}  {before} -> {id}")),
            None => lines.push(format!("  new    {name}  {id}")),
        }
    }
    let differ = lines.len();
    // What the person's own repository has too is no news.
    let left = theirs.left.iter().filter(|left| !ours.left.contains(left));
    for (what, why) in left.take(LEFT_MAX) {
        let (what, why) = (super::changes::shown(what), super::changes::shown(why));
        lines.push(format!("  left   {what}: {why}"));
    }
    if !lines.is_empty() {
        let word = if differ == 0 {
            "no branch or tag"
        } else {
            "branches and tags that differ"
        };
        lines.insert(
            0,
            format!("commits: {word}; `torno session commits` brings them"),
        );
    }
    lines
}

fn read_of(workspace: &OwnedFd) -> Result<Option<Refs>, String> {
    let refs = repository(workspace).and_then(|found| found.as_ref().map(read).transpose());
    refs.map_err(|error| super::changes::shown(&cut(&format!("{error:#}"))))
}

#[cfg(test)]
mod tests;
