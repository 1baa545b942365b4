// SPDX-License-Identifier: Apache-2.0
//! A directory of the host's (`also`) → an archive. It is no copy of ours, so it is searched here,
//! file by file, for what the front door keeps out. At the levels that mount it, the workload is
//! none of its owners and reads what everybody may read; the same comes along here, and nothing
//! else, so that one policy shows one directory.

use super::super::copy::{self, Found};
use super::super::tree::{self, Entry};
use super::{Packing, with_place};
use crate::front_door::search::Searcher;
use crate::orders::PorterReply;
use anyhow::{Context, ensure};
use rustix::fs::{FileType, Mode, OFlags};
use std::fs::File;
use std::os::fd::OwnedFd;
use torno_notary_protocol::desk::Fingerprint;

const TOO_LARGE: &str = "at this level the directories of `also` lie in the machine's memory, of \
     which they may have half; raise limits.memory, list less, or use `gvisor` or `container`, \
     which mount them";

/// Writes the directory to the stream.
pub(in super::super) fn write(
    directory: &OwnedFd,
    stream: OwnedFd,
    bytes_max: u64,
    fingerprints: &[Fingerprint],
) -> anyhow::Result<PorterReply> {
    let top = rustix::fs::fstat(directory).context("the directory")?;
    ensure!(
        everybody_may_read(top.st_mode),
        "not everybody may read the directory, so no sandbox may: `chmod o+rx` it, or list another"
    );
    // What came is a place, not yet read: that is the caller's right, or not.
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = rustix::fs::openat(directory, ".", flags, Mode::empty());
    let directory = &directory.context("the directory can't be read")?;
    let searcher = Searcher::new(fingerprints);
    let mut packing = Packing::new(stream, bytes_max, TOO_LARGE);
    let mut found = Found::default();
    let mut kept = 0_u64;
    let mut wanted = |_: &str, mode| {
        let wanted = everybody_may_read(mode);
        kept += u64::from(!wanted);
        wanted
    };
    tree::walk_where(directory, &mut wanted, &mut |path, entry| {
        if found.vault_value.is_some() {
            return Ok(());
        }
        match entry {
            Entry::Special => {
                found.leave_out(path);
                Ok(())
            }
            Entry::File { file, mode, .. } => with_place(
                path,
                packing.searched((path, file, mode), &searcher, &mut found),
            ),
            Entry::Directory | Entry::Link(_) => {
                with_place(path, packing.entry(path, entry, false))
            }
        }
    })?;
    if let Some((place, credential)) = found.vault_value {
        // What was sent is no whole tree, and no program has seen it.
        return Ok(PorterReply::VaultValue { place, credential });
    }
    if kept > 0 {
        found.hide("", format!("{kept} entries that not everybody may read"));
    }
    let bytes = packing.finish()?;
    Ok(found.copied(bytes))
}

impl Packing {
    /// One file, if it may enter.
    fn searched(
        &mut self,
        (path, mut file, mode): (&str, File, u32),
        searcher: &Searcher<'_>,
        found: &mut Found,
    ) -> anyhow::Result<()> {
        if !copy::admit(path, &mut file, searcher, found)? {
            return Ok(());
        }
        let name = self.place(path)?;
        let is_program = mode & 0o001 != 0;
        match copy::without_userinfo(path, &mut file, found)? {
            Some(clean) => self.file(name, is_program, Some(clean.as_bytes())),
            None => self.file(name, is_program, Some(file)),
        }
    }
}

/// Whether somebody who is neither the owner nor of the group may.
fn everybody_may_read(mode: u32) -> bool {
    match FileType::from_raw_mode(mode) {
        FileType::Directory => mode & 0o005 == 0o005,
        FileType::RegularFile => mode & 0o004 != 0,
        // Neither links nor what is left out are read.
        _ => true,
    }
}

#[cfg(test)]
mod tests;
