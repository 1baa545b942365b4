// SPDX-License-Identifier: Apache-2.0
//! The loop over an archive: a header, what belongs before it, its content, padding.

use super::header::{self, BLOCK, Header};
use super::pax::Pax;
use super::{ArchiveError, Entry, EntryPath, Kind};
use crate::limits::PATH_BYTES_MAX;
use std::io::{self, Read};

/// LIMIT: a pax header holds a path, a link's target and attributes, which end at 64 KiB each.
const PAX_BYTES_MAX: u64 = 1 << 20;
/// LIMIT: a GNU long name is a path with its NUL; some writers end a directory's with a slash.
const LONG_NAME_BYTES_MAX: u64 = PATH_BYTES_MAX as u64 + 2;
/// LIMIT: a pax header, a long name and a long target, each once.
const BEFORE_MAX: usize = 3;

/// Reads entries one by one. The content of the last is read, or skipped by the next call.
#[derive(Debug)]
pub struct Reader<R> {
    inner: R,
    /// Of the current entry's content.
    left: u64,
    padding: u64,
    over: bool,
}

/// What stood before an entry's own header.
#[derive(Default)]
struct Before {
    pax: Option<Pax>,
    long_name: Option<Vec<u8>>,
    long_target: Option<Vec<u8>>,
}

impl<R: Read> Reader<R> {
    /// Nothing is read yet.
    pub fn new(inner: R) -> Self {
        Self {
            inner,
            left: 0,
            padding: 0,
            over: false,
        }
    }

    /// The next entry; nothing at the end, which has to be there.
    ///
    /// # Errors
    /// [`ArchiveError`]; after one there is nothing more to be had.
    pub fn next_entry(&mut self) -> Result<Option<Entry>, ArchiveError> {
        self.skip()?;
        if self.over {
            return Ok(None);
        }
        let mut before = Before::default();
        for _ in 0..=BEFORE_MAX {
            let mut block = [0; BLOCK];
            self.fill(&mut block)?;
            let Some(header) = header::read(&block)? else {
                self.over = true;
                return match before {
                    Before {
                        pax: None,
                        long_name: None,
                        long_target: None,
                    } => Ok(None),
                    _ => Err(ArchiveError::Short),
                };
            };
            if !self.note(&header, &mut before)? {
                return self.entry(&header, before).map(Some);
            }
        }
        Err(ArchiveError::Header("too many stand before one entry"))
    }

    /// Takes what stands before an entry; false for the entry's own header.
    fn note(&mut self, header: &Header<'_>, before: &mut Before) -> Result<bool, ArchiveError> {
        let is_new = match header.kind {
            b'x' => {
                let text = self.text(header.size, PAX_BYTES_MAX)?;
                before.pax.replace(Pax::parse(&text)?).is_none()
            }
            // What a global header says holds for entries that have no word of their own. Git's
            // archives have one, with a comment.
            b'g' => {
                let text = self.text(header.size, PAX_BYTES_MAX)?;
                Pax::parse(&text)? == Pax::default()
            }
            b'L' => before.long_name.replace(self.name(header.size)?).is_none(),
            b'K' => before
                .long_target
                .replace(self.name(header.size)?)
                .is_none(),
            _ => return Ok(false),
        };
        if is_new {
            Ok(true)
        } else {
            Err(ArchiveError::Header("what stands before it is doubtful"))
        }
    }

    fn entry(&mut self, header: &Header<'_>, before: Before) -> Result<Entry, ArchiveError> {
        let pax = before.pax.unwrap_or_default();
        let twice = (pax.path.is_some() && before.long_name.is_some())
            || (pax.target.is_some() && before.long_target.is_some());
        if twice {
            return Err(ArchiveError::Header("it has two long names"));
        }
        let name = pax.path.or(before.long_name);
        let name = name.as_deref().unwrap_or(&header.name);
        let path = EntryPath::parse(name)?;
        let target = pax.target.or(before.long_target);
        let target = target.as_deref().unwrap_or(header.target);
        let size = pax.size.unwrap_or(header.size);
        let kind = kind(header.kind, size, target)?;
        self.left = match kind {
            Kind::File(size) => size,
            // Readers differ in whether content follows; so there must be none.
            Kind::Directory | Kind::Link(_) | Kind::HardLink(_) | Kind::Special if size != 0 => {
                return Err(ArchiveError::Header("it has a size and no content"));
            }
            Kind::Directory | Kind::Link(_) | Kind::HardLink(_) | Kind::Special => 0,
        };
        self.padding = padding_of(self.left);
        // The seventh edition's directories were files with such a name.
        if kind != Kind::Directory && (path.is_root() || name.ends_with(b"/")) {
            return Err(ArchiveError::Header("it names a directory and is none"));
        }
        Ok(Entry {
            path,
            kind,
            mode: header.mode,
            mtime: pax.mtime.unwrap_or(header.mtime),
        })
    }

    fn name(&mut self, size: u64) -> Result<Vec<u8>, ArchiveError> {
        let mut name = self.text(size, LONG_NAME_BYTES_MAX)?;
        if name.last() == Some(&0) {
            name.pop();
        }
        Ok(name)
    }

    /// The whole content of a header that stands before an entry.
    fn text(&mut self, size: u64, bytes_max: u64) -> Result<Vec<u8>, ArchiveError> {
        if size > bytes_max {
            return Err(ArchiveError::Header("what stands before it is too long"));
        }
        let mut text = vec![0; usize::try_from(size).unwrap_or_default()];
        self.fill(&mut text)?;
        self.padding = padding_of(size);
        self.skip()?;
        Ok(text)
    }

    fn fill(&mut self, buffer: &mut [u8]) -> Result<(), ArchiveError> {
        self.inner.read_exact(buffer).map_err(|error| {
            if error.kind() == io::ErrorKind::UnexpectedEof {
                ArchiveError::Short
            } else {
                ArchiveError::Read(error)
            }
        })
    }

    fn skip(&mut self) -> Result<(), ArchiveError> {
        let rest = self.left.saturating_add(self.padding);
        (self.left, self.padding) = (0, 0);
        let skipped = io::copy(&mut (&mut self.inner).take(rest), &mut io::sink());
        if skipped.map_err(ArchiveError::Read)? == rest {
            Ok(())
        } else {
            Err(ArchiveError::Short)
        }
    }

    /// Reads the archive's source to its end, so that all of it has been seen.
    ///
    /// # Errors
    /// [`ArchiveError::Read`].
    pub fn finish(mut self) -> Result<R, ArchiveError> {
        io::copy(&mut self.inner, &mut io::sink()).map_err(ArchiveError::Read)?;
        Ok(self.inner)
    }
}

/// The content of the current entry; its end in the middle is an error.
impl<R: Read> Read for Reader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = usize::try_from(self.left).unwrap_or(usize::MAX);
        let length = length.min(buffer.len());
        if length == 0 {
            return Ok(0);
        }
        let read = self
            .inner
            .read(buffer.get_mut(..length).unwrap_or_default())?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.left -= u64::try_from(read).unwrap_or_default();
        Ok(read)
    }
}

fn kind(kind: u8, size: u64, target: &[u8]) -> Result<Kind, ArchiveError> {
    Ok(match kind {
        // `7` is a file that was to lie in one piece.
        b'0' | 0 | b'7' => Kind::File(size),
        b'1' => Kind::HardLink(EntryPath::parse(target)?),
        b'2' => {
            if target.is_empty() || target.len() > PATH_BYTES_MAX || target.contains(&0) {
                return Err(ArchiveError::Path {
                    path: super::path::shown(target),
                    why: "is no target of a link",
                });
            }
            Kind::Link(target.to_vec())
        }
        b'5' => Kind::Directory,
        b'3' | b'4' | b'6' => Kind::Special,
        // `S` is GNU's file with holes, whose size is not what follows.
        other => return Err(ArchiveError::Type(char::from(other))),
    })
}

fn padding_of(size: u64) -> u64 {
    let block = BLOCK as u64;
    (block - size % block) % block
}
