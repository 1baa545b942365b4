// SPDX-License-Identifier: Apache-2.0
//! What came out of a machine → an empty directory. The bytes are hostile: each entry is made new,
//! by the handle of the directory that was made for it, as an ordinary file, directory or link of
//! the caller's; nothing is opened that this job did not make. Whatever is wrong, the copy that
//! was there before stays.

use super::place::FRESH_FILE;
use super::protected;
use crate::orders::PorterReply;
use anyhow::{Context, ensure};
use rustix::fs::{Mode, OFlags};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use torno_guest_protocol::{ArchivePiece, ArchiveReader, FileName};
use torno_policy::grant::FileRules;

/// Reads the stream to its end.
pub(super) fn read(
    target: &OwnedFd,
    before: &OwnedFd,
    stream: OwnedFd,
    bytes_max: u64,
    files: &FileRules,
) -> anyhow::Result<PorterReply> {
    let mut reader = ArchiveReader::new(bytes_max);
    let mut stream = File::from(stream);
    let mut tree = Tree {
        files,
        open: vec![target.try_clone()?],
        path: Vec::new(),
        left_out: 0,
        file: None,
        entries: 0,
    };
    let mut buffer = vec![0; READ_BYTES];
    loop {
        let count = stream.read(&mut buffer).context("the gate's stream")?;
        let bytes = buffer.get(..count).unwrap_or_default();
        if bytes.is_empty() {
            break;
        }
        reader.push(bytes);
        while let Some(piece) = reader.next_piece().context("what the machine sent")? {
            tree.take(piece)?;
        }
    }
    ensure!(
        reader.is_complete(),
        "the machine did not send its workspace to the end"
    );
    protected::restore(target, before, files)?;
    Ok(PorterReply::Done {
        changed: tree.entries,
    })
}

/// A tree that is being made.
struct Tree<'f> {
    files: &'f FileRules,
    /// The directories that are open, the top first.
    open: Vec<OwnedFd>,
    /// Their names, without the top.
    path: Vec<String>,
    /// Directories that are open and left out, inside the innermost of those.
    left_out: usize,
    file: Option<File>,
    entries: u32,
}

impl Tree<'_> {
    // ATTACK: 164, 169, 171
    fn take(&mut self, piece: ArchivePiece) -> anyhow::Result<()> {
        match piece {
            ArchivePiece::Directory(name) => self.directory(&name),
            ArchivePiece::File { name, is_program } => self.make_file(&name, is_program),
            ArchivePiece::Content(bytes) => match &mut self.file {
                Some(file) => file.write_all(&bytes).context("can't write"),
                None => Ok(()),
            },
            ArchivePiece::FileEnd => {
                self.file = None;
                Ok(())
            }
            ArchivePiece::Link { name, target } => self.link(&name, &target),
            ArchivePiece::Leave | ArchivePiece::End => {
                if self.left_out > 0 {
                    self.left_out -= 1;
                } else {
                    self.open.pop();
                    self.path.pop();
                }
                Ok(())
            }
        }
    }

    fn directory(&mut self, name: &FileName) -> anyhow::Result<()> {
        let path = self.path_of(name)?;
        let is_wanted = protected::is_writable(&path, true, self.files)
            || protected::leads_to_writable(&path, self.files);
        if self.left_out > 0 || !is_wanted {
            self.left_out += 1;
            return Ok(());
        }
        let about = || format!("can't make `{path}`");
        let bytes = name.as_bytes();
        rustix::fs::mkdirat(self.innermost()?, bytes, Mode::from_raw_mode(0o700))
            .with_context(about)?;
        let opened = rustix::fs::openat(self.innermost()?, bytes, DIRECTORY, Mode::empty());
        self.open.push(opened.with_context(about)?);
        self.path.push(String::from_utf8(bytes.to_vec())?);
        self.entries = self.entries.saturating_add(1);
        Ok(())
    }

    fn make_file(&mut self, name: &FileName, is_program: bool) -> anyhow::Result<()> {
        let path = self.path_of(name)?;
        if self.left_out > 0 || !protected::is_writable(&path, false, self.files) {
            return Ok(());
        }
        let mode = Mode::from_raw_mode(if is_program { 0o700 } else { 0o600 });
        let made = rustix::fs::openat(self.innermost()?, name.as_bytes(), FRESH_FILE, mode);
        self.file = Some(File::from(
            made.with_context(|| format!("can't make `{path}`"))?,
        ));
        self.entries = self.entries.saturating_add(1);
        Ok(())
    }

    fn link(&mut self, name: &FileName, to: &[u8]) -> anyhow::Result<()> {
        let path = self.path_of(name)?;
        if self.left_out > 0 || !protected::is_writable(&path, false, self.files) {
            return Ok(());
        }
        self.entries = self.entries.saturating_add(1);
        rustix::fs::symlinkat(to, self.innermost()?, name.as_bytes())
            .with_context(|| format!("can't link `{path}`"))
    }

    /// The path of an entry of the innermost directory. A name that is no UTF-8 could not be shown
    /// to a person.
    fn path_of(&self, name: &FileName) -> anyhow::Result<String> {
        let name = std::str::from_utf8(name.as_bytes());
        let name = name.with_context(|| {
            format!("a name in `{}` is no UTF-8; rename it", self.path.join("/"))
        })?;
        let mut path = self.path.join("/");
        if !path.is_empty() {
            path.push('/');
        }
        path.push_str(name);
        Ok(path)
    }

    fn innermost(&self) -> anyhow::Result<BorrowedFd<'_>> {
        let innermost = self.open.last().context("the tree is over")?;
        Ok(innermost.as_fd())
    }
}

const DIRECTORY: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);
// LIMIT: held besides one incomplete step.
const READ_BYTES: usize = 64 * 1024;

#[cfg(test)]
mod tests;
