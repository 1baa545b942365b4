// SPDX-License-Identifier: Apache-2.0
//! A directory → an archive, for a machine, which shares none with its host: the private copy of a
//! workspace, which was searched when it was made, or one of the host's (`shown`).

pub(super) mod shown;

use super::protected::{self, Hidden};
use super::tree::{self, Entry};
use crate::orders::PorterReply;
use anyhow::{Context, bail};
use bytes::{Bytes, BytesMut};
use std::fs::File;
use std::io::{BufWriter, Read, Write};
use std::os::fd::OwnedFd;
use torno_guest_protocol::{
    ARCHIVE_PIECE_BYTES_MAX, ArchiveError, ArchivePiece, ArchiveWriter, FileName,
};

/// Writes the directory to the stream.
pub(super) fn write(
    directory: &OwnedFd,
    stream: OwnedFd,
    bytes_max: u64,
    hide: &[String],
) -> anyhow::Result<PorterReply> {
    let mut packing = Packing::new(stream, bytes_max, WORKSPACE_TOO_LARGE);
    let mut entries = 0_u32;
    tree::walk(directory, &mut |path, entry| {
        let hidden = protected::is_hidden(path, hide);
        if hidden == Some(Hidden::Below) {
            return Ok(());
        }
        entries = entries.saturating_add(1);
        with_place(path, packing.entry(path, entry, hidden.is_some()))
    })?;
    packing.finish()?;
    Ok(PorterReply::Done { changed: entries })
}

const WORKSPACE_TOO_LARGE: &str = "the workspace lies in the machine's memory at this level, and is \
     too large for it; raise limits.disk and limits.memory, or work in a smaller directory";

struct Packing {
    writer: ArchiveWriter,
    out: BufWriter<File>,
    /// The paths of the directories that are open below the top.
    open: Vec<String>,
    /// What to say where there is no room.
    too_large: &'static str,
}

fn with_place(path: &str, sent: anyhow::Result<()>) -> anyhow::Result<()> {
    sent.with_context(|| format!("can't send `{path}`"))
}

impl Packing {
    fn new(stream: OwnedFd, bytes_max: u64, too_large: &'static str) -> Self {
        Self {
            writer: ArchiveWriter::new(bytes_max),
            out: BufWriter::new(File::from(stream)),
            open: Vec::new(),
            too_large,
        }
    }

    /// The tree is whole. Gives what it counts.
    fn finish(&mut self) -> anyhow::Result<u64> {
        self.leave_to("")?;
        self.put(&ArchivePiece::End)?;
        self.out.flush().context("the gate went away")?;
        Ok(self.writer.bytes())
    }

    fn entry(&mut self, path: &str, entry: Entry, is_hidden: bool) -> anyhow::Result<()> {
        let name = self.place(path)?;
        match entry {
            Entry::Directory => {
                self.put(&ArchivePiece::Directory(name))?;
                self.open.push(path.to_owned());
                Ok(())
            }
            Entry::File { file, mode, .. } => {
                let content = (!is_hidden).then_some(file);
                self.file(name, mode & 0o100 != 0, content)
            }
            Entry::Link(_) if is_hidden => Ok(()),
            Entry::Link(to) => self.put(&ArchivePiece::Link {
                name,
                target: Bytes::from(to),
            }),
            Entry::Special => Ok(()),
        }
    }

    fn file(
        &mut self,
        name: FileName,
        is_program: bool,
        content: Option<impl Read>,
    ) -> anyhow::Result<()> {
        self.put(&ArchivePiece::File { name, is_program })?;
        if let Some(content) = content {
            self.content(content)?;
        }
        self.put(&ArchivePiece::FileEnd)
    }

    /// Goes where the entry lies; gives its name there.
    fn place(&mut self, path: &str) -> anyhow::Result<FileName> {
        let (parent, name) = path.rsplit_once('/').unwrap_or(("", path));
        self.leave_to(parent)?;
        Ok(FileName::parse(name.as_bytes())?)
    }

    /// Leaves directories until `parent` is the innermost one.
    fn leave_to(&mut self, parent: &str) -> anyhow::Result<()> {
        while self.open.last().map_or("", |open| open) != parent {
            if self.open.pop().is_none() {
                bail!("`{parent}` is not open");
            }
            self.put(&ArchivePiece::Leave)?;
        }
        Ok(())
    }

    fn content(&mut self, mut file: impl Read) -> anyhow::Result<()> {
        let mut buffer = vec![0; ARCHIVE_PIECE_BYTES_MAX];
        loop {
            let count = file.read(&mut buffer)?;
            let bytes = buffer.get(..count).unwrap_or_default();
            if bytes.is_empty() {
                return Ok(());
            }
            self.put(&ArchivePiece::Content(Bytes::copy_from_slice(bytes)))?;
        }
    }

    fn put(&mut self, piece: &ArchivePiece) -> anyhow::Result<()> {
        let mut bytes = BytesMut::new();
        match self.writer.put(piece, &mut bytes) {
            Ok(()) => {}
            Err(error @ ArchiveError::Bytes { .. }) => {
                return Err(error).context(self.too_large);
            }
            Err(error) => return Err(error.into()),
        }
        self.out
            .write_all(&bytes)
            .context("the machine took no more of it")
    }
}

#[cfg(test)]
mod tests;
