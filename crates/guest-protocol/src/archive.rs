// SPDX-License-Identifier: Apache-2.0
//! A directory's tree as one stream of bytes: how a workspace gets into a machine and out of it.
//!
//! ```text
//!   1 directory  name                          what follows lies in it, until
//!   2 leave
//!   3 file       name │ 0 or 1 (a program) │ pieces: u16 be (1 to 32 KiB), bytes │ … │ 0 u16
//!   4 link       name │ length u16 be │ target
//!   5 end        nothing follows
//!   name         length u8 │ bytes
//! ```
//! Names are single components, and those of one directory rise strictly: a tree has one spelling,
//! and no name comes twice. Owners, times, modes beyond "a program", hard links and devices can't
//! be said. Reader and writer count alike, and an error is final.

mod name;
mod shape;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use thiserror::Error;

pub use name::FileName;
use shape::Shape;

// LIMIT: the deepest real trees have a few dozen.
/// Directories inside each other.
pub const ARCHIVE_DEPTH_MAX: usize = 200;
// LIMIT: more is not a workspace but an archive of its own.
/// Files, directories and links in one tree.
pub const ARCHIVE_ENTRIES_MAX: u64 = 1_000_000;
// LIMIT: half of what a data frame may carry twice over; a length of 16 bits.
/// The most bytes in one piece of a file.
pub const ARCHIVE_PIECE_BYTES_MAX: usize = 32 * 1024;

/// Why bytes are no archive, or a tree can't be one. Nothing of it counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ArchiveError {
    /// A name that is no single component.
    #[error("a name is empty, `.`, `..`, too long, or holds `/` or NUL")]
    Name,
    /// Names of one directory that do not rise.
    #[error("a name came twice or out of order")]
    Order,
    /// A link's target that can't be one.
    #[error("a link's target is empty, too long, or holds NUL")]
    Target,
    /// Directories inside each other without end.
    #[error("directories lie more than {ARCHIVE_DEPTH_MAX} deep")]
    Depth,
    /// A path that can't be opened.
    #[error("a path is longer than 4095 bytes")]
    Path,
    /// More entries than a workspace has.
    #[error("there are more than {ARCHIVE_ENTRIES_MAX} entries")]
    Entries,
    /// More bytes than were allowed.
    #[error("it is larger than the {bytes_max} bytes that it may have")]
    Bytes {
        /// What was allowed.
        bytes_max: u64,
    },
    /// A byte that begins no entry, or is no flag.
    #[error("a byte has no meaning where it stands")]
    Kind,
    /// A leave at the top, or an end below it.
    #[error("a directory is left that was not entered, or the end comes in one")]
    Nesting,
    /// Something after the end.
    #[error("something follows the end")]
    Trailing,
}

/// One step of a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ArchivePiece {
    /// A directory; what follows lies in it.
    Directory(FileName),
    /// The directory is complete.
    Leave,
    /// A file; its content follows.
    File {
        /// Its name.
        name: FileName,
        /// It may be executed.
        is_program: bool,
    },
    /// The file's next bytes, at least one.
    Content(Bytes),
    /// The file is complete.
    FileEnd,
    /// A symbolic link, which nobody follows.
    Link {
        /// Its name.
        name: FileName,
        /// Where it points: 1 to 4095 bytes without NUL.
        target: Bytes,
    },
    /// The tree is complete.
    End,
}

/// Writes one tree.
#[derive(Debug)]
pub struct ArchiveWriter {
    shape: Shape,
}

impl ArchiveWriter {
    /// For a tree that counts at most `bytes_max`: content, names, targets, and a little for each
    /// entry.
    #[must_use]
    pub fn new(bytes_max: u64) -> Self {
        Self {
            shape: Shape::new(bytes_max),
        }
    }

    /// What the tree counts so far.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.shape.bytes()
    }

    /// Appends a step to `out`; a long piece of content as several.
    ///
    /// # Errors
    /// [`ArchiveError`] for a step that the form or the limits don't allow; `out` is then useless.
    pub fn put(&mut self, piece: &ArchivePiece, out: &mut BytesMut) -> Result<(), ArchiveError> {
        self.shape.step(piece)?;
        match piece {
            ArchivePiece::Directory(name) => {
                out.put_u8(DIRECTORY);
                put_name(name, out);
            }
            ArchivePiece::Leave => out.put_u8(LEAVE),
            ArchivePiece::File { name, is_program } => {
                out.put_u8(FILE);
                put_name(name, out);
                out.put_u8(u8::from(*is_program));
            }
            ArchivePiece::Content(bytes) => {
                for part in bytes.chunks(ARCHIVE_PIECE_BYTES_MAX) {
                    put_counted(part, out);
                }
            }
            ArchivePiece::FileEnd => out.put_u16(0),
            ArchivePiece::Link { name, target } => {
                out.put_u8(LINK);
                put_name(name, out);
                put_counted(target, out);
            }
            ArchivePiece::End => out.put_u8(END),
        }
        Ok(())
    }
}

/// Takes bytes in any pieces, gives the steps of one tree. Holds at most one incomplete step and
/// the last bytes, if [`ArchiveReader::next_piece`] is called until it gives `None` after each
/// [`ArchiveReader::push`].
#[derive(Debug)]
pub struct ArchiveReader {
    buffer: BytesMut,
    shape: Shape,
    failed: Option<ArchiveError>,
}

impl ArchiveReader {
    /// Nothing read yet; `bytes_max` as in [`ArchiveWriter::new`].
    #[must_use]
    pub fn new(bytes_max: u64) -> Self {
        Self {
            buffer: BytesMut::new(),
            shape: Shape::new(bytes_max),
            failed: None,
        }
    }

    /// Adds bytes. After an error they are dropped.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.failed.is_none() {
            self.buffer.extend_from_slice(bytes);
        }
    }

    /// The next step, or `None` until more bytes are pushed.
    ///
    /// # Errors
    /// When the bytes can't be a tree; the same error again for ever after.
    pub fn next_piece(&mut self) -> Result<Option<ArchivePiece>, ArchiveError> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        let result = self.read();
        if let Err(error) = result {
            self.failed = Some(error);
            self.buffer = BytesMut::new();
        }
        result
    }

    /// The end was read: only then is there a whole tree.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.failed.is_none() && self.shape.is_over()
    }

    fn read(&mut self) -> Result<Option<ArchivePiece>, ArchiveError> {
        if self.shape.is_over() {
            return if self.buffer.is_empty() {
                Ok(None)
            } else {
                Err(ArchiveError::Trailing)
            };
        }
        let mut rest: &[u8] = &self.buffer;
        let Some(piece) = read_piece(self.shape.is_in_file(), &mut rest)? else {
            return Ok(None);
        };
        let used = self.buffer.len() - rest.len();
        self.shape.step(&piece)?;
        self.buffer.advance(used);
        Ok(Some(piece))
    }
}

/// One step off the front of `rest`, or `None` if it is not there whole.
fn read_piece(is_in_file: bool, rest: &mut &[u8]) -> Result<Option<ArchivePiece>, ArchiveError> {
    if is_in_file {
        let Some(bytes) = counted(rest) else {
            return Ok(None);
        };
        return match bytes.len() {
            0 => Ok(Some(ArchivePiece::FileEnd)),
            1..=ARCHIVE_PIECE_BYTES_MAX => {
                Ok(Some(ArchivePiece::Content(Bytes::copy_from_slice(bytes))))
            }
            _ => Err(ArchiveError::Kind),
        };
    }
    let Ok(kind) = rest.try_get_u8() else {
        return Ok(None);
    };
    match kind {
        LEAVE => return Ok(Some(ArchivePiece::Leave)),
        END => return Ok(Some(ArchivePiece::End)),
        DIRECTORY | FILE | LINK => {}
        _ => return Err(ArchiveError::Kind),
    }
    let Some(name) = read_name(rest)? else {
        return Ok(None);
    };
    Ok(match kind {
        DIRECTORY => Some(ArchivePiece::Directory(name)),
        LINK => counted(rest).map(|target| ArchivePiece::Link {
            name,
            target: Bytes::copy_from_slice(target),
        }),
        _ => match rest.try_get_u8() {
            Err(_) => None,
            Ok(flag @ (0 | 1)) => Some(ArchivePiece::File {
                name,
                is_program: flag == 1,
            }),
            Ok(_) => return Err(ArchiveError::Kind),
        },
    })
}

fn read_name(rest: &mut &[u8]) -> Result<Option<FileName>, ArchiveError> {
    let Ok(length) = rest.try_get_u8() else {
        return Ok(None);
    };
    match rest.split_at_checked(usize::from(length)) {
        Some((name, after)) => {
            *rest = after;
            FileName::parse(name).map(Some)
        }
        None => Ok(None),
    }
}

/// What stands behind its length.
fn counted<'b>(rest: &mut &'b [u8]) -> Option<&'b [u8]> {
    let length = rest.try_get_u16().ok()?;
    let (bytes, after) = rest.split_at_checked(usize::from(length))?;
    *rest = after;
    Some(bytes)
}

fn put_name(name: &FileName, out: &mut BytesMut) {
    // INVARIANT: a name has at most 255 bytes.
    out.put_u8(u8::try_from(name.as_bytes().len()).unwrap_or(u8::MAX));
    out.put_slice(name.as_bytes());
}

fn put_counted(bytes: &[u8], out: &mut BytesMut) {
    // INVARIANT: targets and pieces have at most 32 KiB.
    out.put_u16(u16::try_from(bytes.len()).unwrap_or(u16::MAX));
    out.put_slice(bytes);
}

/// Feeds arbitrary bytes to the reader, in one piece and in small ones. What is a whole tree must
/// be the one spelling of it.
///
/// # Panics
/// When a property of the form doesn't hold.
pub fn fuzz_archive(input: &[u8]) {
    let step = usize::from(input.first().copied().unwrap_or(0) % 7) + 1;
    let (pieces, is_complete) = read_all([input]);
    assert_eq!(
        (pieces.clone(), is_complete),
        read_all(input.chunks(step)),
        "the tree depends on how the bytes were cut"
    );
    if is_complete {
        let mut again = BytesMut::new();
        let mut writer = ArchiveWriter::new(FUZZ_BYTES_MAX);
        for piece in &pieces {
            assert_eq!(writer.put(piece, &mut again), Ok(()), "{piece:?}");
        }
        assert_eq!(again, input, "a tree has two spellings");
    }
}

fn read_all<'a>(cuts: impl IntoIterator<Item = &'a [u8]>) -> (Vec<ArchivePiece>, bool) {
    let mut reader = ArchiveReader::new(FUZZ_BYTES_MAX);
    let mut pieces = Vec::new();
    for bytes in cuts {
        reader.push(bytes);
        while let Ok(Some(piece)) = reader.next_piece() {
            pieces.push(piece);
        }
    }
    (pieces, reader.is_complete())
}

const FUZZ_BYTES_MAX: u64 = 1 << 20;

const DIRECTORY: u8 = 1;
const LEAVE: u8 = 2;
const FILE: u8 = 3;
const LINK: u8 = 4;
const END: u8 = 5;

#[cfg(test)]
mod tests;
