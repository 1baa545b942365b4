// SPDX-License-Identifier: Apache-2.0
//! Branches and tags of a repository that somebody hostile wrote: loose files and `packed-refs`
//! (gitrepository-layout(5)), read as git writes them and in no other form.

use super::super::tree::{self, Entry};
use anyhow::{Context, bail, ensure};
use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use torno_control_api::commits::{ObjectId, REFS_MAX, RefName, is_digit};

/// LIMIT: `packed-refs`: as many refs as are read, of other places too, with long names.
const PACKED_BYTES_MAX: u64 = 16 << 20;
/// LIMIT: a line of it, or a loose ref: an id and a name of Linux's longest path.
const LINE_BYTES_MAX: usize = 4096 + 42;
/// LIMIT: what is found and left, before it is counted only; hostile names must not pile up.
const KEPT_MAX: usize = REFS_MAX;

/// What a repository has.
#[derive(Debug, Default, PartialEq, Eq)]
pub(in crate::porter) struct Refs {
    /// Branches and tags.
    pub(in crate::porter) at: BTreeMap<RefName, ObjectId>,
    /// What was found and is none of them, and why.
    pub(in crate::porter) left: Vec<(String, String)>,
}

impl Refs {
    fn leave(&mut self, what: &str, why: &str) -> anyhow::Result<()> {
        ensure!(self.left.len() < KEPT_MAX, "too many refs that are none");
        let what = what.chars().take(super::SENTENCE_MAX).collect();
        self.left.push((what, why.to_owned()));
        Ok(())
    }

    fn keep(&mut self, name: RefName, id: ObjectId) -> anyhow::Result<()> {
        self.at.insert(name, id);
        ensure!(self.at.len() <= REFS_MAX, "more than {REFS_MAX} refs");
        Ok(())
    }
}

/// The workspace's own repository; nothing where there is none.
pub(in crate::porter) fn repository(workspace: &OwnedFd) -> anyhow::Result<Option<OwnedFd>> {
    let stat = match rustix::fs::statat(workspace, ".git", AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => return Ok(None),
        stat => stat.context("`.git`")?,
    };
    ensure!(
        FileType::from_raw_mode(stat.st_mode) == FileType::Directory,
        "`.git` is no directory: a worktree's or submodule's repository lies elsewhere and was \
         not copied"
    );
    let git = directory(workspace, ".git")?;
    ensure!(
        !exists(&git, "commondir"),
        "`.git` is a worktree's: its repository lies elsewhere and was not copied"
    );
    ensure!(
        !exists(&git, "reftable"),
        "its refs are a reftable, which Torno does not read"
    );
    Ok(Some(git))
}

pub(super) fn exists(directory: &OwnedFd, name: &str) -> bool {
    rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW).is_ok()
}

/// Opens a directory by one name, through no link.
pub(super) fn directory(parent: &OwnedFd, name: &str) -> anyhow::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(parent, name, flags, Mode::empty())
        .with_context(|| format!("`{name}` is no directory"))
}

/// Reads them all; a loose ref stands before a packed one of its name (git-pack-refs(1)).
pub(in crate::porter) fn read(git: &OwnedFd) -> anyhow::Result<Refs> {
    let mut refs = Refs::default();
    if let Some(text) = packed(git)? {
        read_packed(&text, &mut refs)?;
    }
    let place = match directory(git, "refs") {
        Ok(place) => place,
        Err(_) if !exists(git, "refs") => bail!("it has no `refs`"),
        Err(error) => return Err(error),
    };
    for kind in ["heads", "tags"] {
        if exists(&place, kind) {
            let below = directory(&place, kind)
                .with_context(|| format!("`refs/{kind}`; a reftable is not read"))?;
            read_loose(&below, kind, &mut refs)?;
        }
    }
    head(git, &mut refs)?;
    Ok(refs)
}

fn packed(git: &OwnedFd) -> anyhow::Result<Option<Vec<u8>>> {
    if !exists(git, "packed-refs") {
        return Ok(None);
    }
    let opened = tree::open_file(git.as_fd(), "packed-refs").context("`packed-refs`")?;
    let Entry::File { file, .. } = opened else {
        bail!("`packed-refs` is no file");
    };
    let text = at_most(file, PACKED_BYTES_MAX).context("`packed-refs`")?;
    Ok(Some(text.context("`packed-refs` is larger than 16 MiB")?))
}

fn at_most(file: File, most: u64) -> std::io::Result<Option<Vec<u8>>> {
    let mut text = Vec::new();
    let read = file.take(most + 1).read_to_end(&mut text)?;
    let is_all = u64::try_from(read).unwrap_or(u64::MAX) <= most;
    Ok(is_all.then_some(text))
}

/// `packed-refs`: a header, then `ID NAME` lines, each perhaps with `^ID` of what a tag is at.
fn read_packed(text: &[u8], refs: &mut Refs) -> anyhow::Result<()> {
    let odd = "`packed-refs` is not as git writes it";
    let text = match text.strip_suffix(b"\n") {
        Some(text) => text,
        None if text.is_empty() => return Ok(()),
        None => bail!("{odd}: its last line has no end"),
    };
    let mut names = std::collections::BTreeSet::new();
    let mut may_be_peeled = false;
    for (number, line) in text.split(|byte| *byte == b'\n').enumerate() {
        let at = number + 1;
        ensure!(line.len() <= LINE_BYTES_MAX, "{odd}: line {at} is too long");
        if number == 0 && line.starts_with(b"# pack-refs with:") {
            continue;
        }
        if let Some(peeled) = line.strip_prefix(b"^") {
            ensure!(may_be_peeled && id(peeled).is_some(), "{odd}: line {at}");
            may_be_peeled = false;
            continue;
        }
        let digits = line.iter().take_while(|byte| is_digit(**byte)).count();
        let (digits, name) = line.split_at_checked(digits).unwrap_or((line, &[]));
        ensure!(
            digits.len() != 64,
            "its ids are of SHA-256, which Torno does not bring back"
        );
        let name = name
            .strip_prefix(b" ")
            .with_context(|| format!("{odd}: line {at}"))?;
        let id = id(digits).with_context(|| format!("{odd}: line {at}"))?;
        ensure!(names.insert(name), "{odd}: line {at} has a name again");
        may_be_peeled = true;
        take(name, id, refs)?;
    }
    Ok(())
}

/// One `ID NAME` of `packed-refs`. Other places' refs (remotes, notes, the stash) are not the
/// session's commits.
fn take(name: &[u8], id: ObjectId, refs: &mut Refs) -> anyhow::Result<()> {
    if !name.starts_with(b"refs/heads/") && !name.starts_with(b"refs/tags/") {
        return Ok(());
    }
    let text = String::from_utf8_lossy(name);
    let parsed = std::str::from_utf8(name).map(RefName::parse);
    match parsed {
        Ok(Ok(name)) => refs.keep(name, id),
        Ok(Err(error)) => refs.leave(&text, &error.to_string()),
        Err(_) => refs.leave(&text, "its name is no UTF-8"),
    }
}

fn id(digits: &[u8]) -> Option<ObjectId> {
    std::str::from_utf8(digits).ok().and_then(ObjectId::parse)
}

fn read_loose(below: &OwnedFd, kind: &str, refs: &mut Refs) -> anyhow::Result<()> {
    tree::walk(below, &mut |path, entry| {
        let whole = format!("refs/{kind}/{path}");
        let file = match entry {
            Entry::Directory => return Ok(()),
            // Git's own, while it writes a ref.
            Entry::File { .. } if path.ends_with(".lock") => return Ok(()),
            Entry::File { file, .. } => file,
            Entry::Link(_) | Entry::Special => {
                return refs.leave(&whole, "it is a link or special file");
            }
        };
        let name = match RefName::parse(&whole) {
            Ok(name) => name,
            Err(error) => return refs.leave(&whole, &error.to_string()),
        };
        // Whatever stands here hides a packed one of the name.
        refs.at.remove(&name);
        let most = u64::try_from(LINE_BYTES_MAX).unwrap_or(u64::MAX);
        let text = at_most(file, most).with_context(|| format!("`{whole}`"))?;
        match text.as_deref().map(target) {
            Some(Target::Object(id)) => refs.keep(name, id),
            Some(Target::Symbolic) => refs.leave(&whole, "it names another ref"),
            Some(Target::Sha256) => {
                bail!("its ids are of SHA-256, which Torno does not bring back")
            }
            Some(Target::Odd) | None => refs.leave(&whole, "it holds no id"),
        }
    })
}

/// What a file of a ref holds.
enum Target {
    Object(ObjectId),
    Symbolic,
    Sha256,
    Odd,
}

fn target(text: &[u8]) -> Target {
    let line = text.strip_suffix(b"\n").unwrap_or(text);
    if text.starts_with(b"ref:") {
        Target::Symbolic
    } else if line.len() == 64 && line.iter().all(|byte| is_digit(*byte)) {
        Target::Sha256
    } else {
        id(line).map_or(Target::Odd, Target::Object)
    }
}

/// A head that is at no branch is told of: its commits have no name to come back under.
fn head(git: &OwnedFd, refs: &mut Refs) -> anyhow::Result<()> {
    let Ok(Entry::File { file, .. }) = tree::open_file(git.as_fd(), "HEAD") else {
        return Ok(());
    };
    let most = u64::try_from(LINE_BYTES_MAX).unwrap_or(u64::MAX);
    let text = at_most(file, most).context("`HEAD`")?;
    if let Some(Target::Object(id)) = text.as_deref().map(target)
        && !refs.at.values().any(|known| *known == id)
    {
        let why = format!("it is at {id} and on no branch; `git branch NAME` inside names it");
        return refs.leave("HEAD", &why);
    }
    Ok(())
}

#[cfg(test)]
mod tests;
