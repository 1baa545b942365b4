// SPDX-License-Identifier: Apache-2.0
//! Objects as bytes: loose files and packs, from where git keeps them, and from nowhere that the
//! repository names. What is in them is looked at elsewhere.

use super::super::tree::{self, Entry};
use super::Sender;
use super::refs::{directory, exists};
use anyhow::{Context, ensure};
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use torno_control_api::commits::{Frame, ObjectId, is_digit};

/// Sends them all.
pub(super) fn send(git: &OwnedFd, out: &mut Sender) -> anyhow::Result<()> {
    let objects = directory(git, "objects").context("the copy's repository has no objects")?;
    if exists(git, "shallow") {
        out.left(
            "shallow",
            "the history is cut off; what lacks parents stays",
        )?;
    }
    if exists(&objects, "info")
        && directory(&objects, "info").is_ok_and(|info| exists(&info, "alternates"))
    {
        let why = "objects that lie elsewhere are not read; what lacks them stays";
        out.left("objects/info/alternates", why)?;
    }
    for name in tree::names(objects.as_fd(), "objects", NAMES_MAX)? {
        if name.len() == 2 && name.bytes().all(is_digit) {
            loose(&objects, &name, out)?;
        }
    }
    if exists(&objects, "pack") {
        packs(&directory(&objects, "pack")?, out)?;
    }
    Ok(())
}

/// LIMIT: names in one directory of objects, whatever they are.
const NAMES_MAX: usize = 200_000;

fn loose(objects: &OwnedFd, first: &str, out: &mut Sender) -> anyhow::Result<()> {
    let Ok(below) = directory(objects, first) else {
        return out.left(&format!("objects/{first}"), "it is no directory");
    };
    for rest in tree::names(below.as_fd(), first, NAMES_MAX)? {
        if let Some(id) = ObjectId::parse(&format!("{first}{rest}")) {
            let frame = |bytes| Frame::Object { id, bytes };
            send_file(&below, &rest, frame, out)?;
        }
    }
    Ok(())
}

fn packs(place: &OwnedFd, out: &mut Sender) -> anyhow::Result<()> {
    let mut is_partial = false;
    for name in tree::names(place.as_fd(), "pack", NAMES_MAX)? {
        let digits = name.strip_prefix("pack-");
        let id = |end| digits.and_then(|rest| rest.strip_suffix(end));
        if id(".pack").and_then(ObjectId::parse).is_some() {
            send_file(place, &name, |bytes| Frame::Pack { bytes }, out)?;
        }
        is_partial |= id(".promisor").is_some();
    }
    if is_partial {
        let why = "a partial clone: what lacks objects stays";
        out.left("objects/pack/*.promisor", why)?;
    }
    Ok(())
}

/// Sends a file whole. What is gone again, or is no regular file, is no object.
fn send_file(
    place: &OwnedFd,
    name: &str,
    frame: impl FnOnce(u64) -> Frame,
    out: &mut Sender,
) -> anyhow::Result<()> {
    let Ok(Entry::File { file, bytes, .. }) = tree::open_file(place.as_fd(), name) else {
        return Ok(());
    };
    out.frame(&frame(bytes))?;
    out.is_broken = true;
    let sent = pour(file.take(bytes), &mut out.pipe);
    let sent = sent.with_context(|| format!("`{name}` can't be sent"))?;
    ensure!(sent == bytes, "`{name}` changed while it was read");
    out.is_broken = false;
    Ok(())
}

/// Copies by reading and writing: the standard library would try calls that a porter is refused.
fn pour(mut from: impl Read, to: &mut impl Write) -> std::io::Result<u64> {
    let mut buffer = vec![0; 64 * 1024];
    let mut all = 0_u64;
    loop {
        let read = from.read(&mut buffer)?;
        if read == 0 {
            return Ok(all);
        }
        to.write_all(buffer.get(..read).unwrap_or_default())?;
        all = all.saturating_add(u64::try_from(read).unwrap_or(u64::MAX));
    }
}
