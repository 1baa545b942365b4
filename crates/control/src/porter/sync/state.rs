// SPDX-License-Identifier: Apache-2.0
//! What lies on one side. A file that looks as it did is not read again: its change time is the
//! kernel's and nobody sets it (inode(7)). One that changed within the grain of that time is read,
//! and a thorough look reads everything, since a mapped file may change without one.

use super::super::place;
use super::super::tree::{self, Entry};
use super::digest_inside;
use crate::orders::{Baseline, BaselineEntry};
use anyhow::Context;
use rustix::fs::fstat;
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;

/// LIMIT: of what is known, which is held in the host's memory for as long as the session lives:
/// half a million files of common names. Of more nothing is known, and each round reads them all.
const KNOWN_BYTES_MAX: u64 = 128 << 20;
/// How long ago a change must be to be told from the next one: file systems stamp by the second at
/// worst.
const SETTLED_SECONDS: i64 = 3;

/// How a file looks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Look {
    inode: u64,
    bytes: i64,
    changed: (i64, i64),
    modified: (i64, i64),
    executable: bool,
}

/// Digests by looks.
pub(super) type Stamps = BTreeMap<String, (Look, BaselineEntry)>;

/// What the rounds before have found.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Known {
    pub(super) original: Stamps,
    pub(super) copy: Stamps,
    /// What may not go in.
    pub(super) refused: Baseline,
}

impl Known {
    /// What can't be read is not known: everything is looked at then.
    pub(super) fn read(file: OwnedFd, thorough: bool) -> Self {
        if thorough {
            return Self::default();
        }
        let reader = std::io::BufReader::new(File::from(file).take(KNOWN_BYTES_MAX));
        serde_json::from_reader(reader).unwrap_or_default()
    }

    pub(super) fn write(&self, file: OwnedFd) -> anyhow::Result<()> {
        let file = File::from(file);
        let mut bounded = Bounded {
            file: std::io::BufWriter::new(&file),
            left: KNOWN_BYTES_MAX,
        };
        if serde_json::to_writer(&mut bounded, self).is_ok() && bounded.file.flush().is_ok() {
            return Ok(());
        }
        drop(bounded);
        rustix::fs::ftruncate(&file, 0).context("what is known of files")
    }
}

/// Writes no more than it may.
struct Bounded<'a> {
    file: std::io::BufWriter<&'a File>,
    left: u64,
}

impl Write for Bounded<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let count = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        let left = self.left.checked_sub(count);
        self.left = left.ok_or(std::io::ErrorKind::FileTooLarge)?;
        self.file.write_all(bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.file.flush()
    }
}

/// One side.
#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) entries: Baseline,
    pub(super) sizes: BTreeMap<String, u64>,
    pub(super) directories: BTreeSet<String>,
    pub(super) bytes: u64,
}

/// Looks at a side, and says which looks tell it from now on. Of the person's, what counts of a
/// file is what it would say inside.
pub(super) fn of(
    directory: &OwnedFd,
    known: &Stamps,
    (is_persons, most): (bool, u64),
) -> anyhow::Result<(State, Stamps)> {
    let began = clock_gettime(ClockId::Realtime).tv_sec;
    let (mut state, mut stamps) = (State::default(), Stamps::new());
    tree::walk(directory, &mut |path, entry| {
        if place::is_left(path) {
            return Ok(());
        }
        let (now, bytes) = match entry {
            Entry::Directory => {
                state.directories.insert(path.to_owned());
                return Ok(());
            }
            Entry::Special => return Ok(()),
            Entry::Link(to) => {
                let digest = tree::text_digest(&to);
                let link = BaselineEntry {
                    digest,
                    executable: false,
                    link: true,
                };
                (link, 0)
            }
            Entry::File {
                mut file,
                bytes,
                mode,
            } => {
                let look = look(&file)?;
                let before = known.get(path).filter(|(before, _)| *before == look);
                let entry = match before {
                    Some((_, entry)) => entry.clone(),
                    None => {
                        let digest = if bytes > most {
                            // It may go nowhere, and a sparse file has no end of its own.
                            format!("{bytes} bytes, {:?}", look.modified)
                        } else if is_persons {
                            digest_inside(path, &mut file)?
                        } else {
                            tree::digest(&mut file).with_context(|| format!("`{path}`"))?
                        };
                        BaselineEntry {
                            digest,
                            executable: mode & 0o100 != 0,
                            link: false,
                        }
                    }
                };
                let age = began.saturating_sub(look.changed.0.max(look.modified.0));
                if age > SETTLED_SECONDS {
                    stamps.insert(path.to_owned(), (look, entry.clone()));
                }
                (entry, bytes)
            }
        };
        state.entries.insert(path.to_owned(), now);
        state.sizes.insert(path.to_owned(), bytes);
        let bytes = bytes.saturating_add(super::ENTRY_BYTES);
        state.bytes = state.bytes.saturating_add(bytes);
        Ok(())
    })?;
    Ok((state, stamps))
}

fn look(file: &File) -> anyhow::Result<Look> {
    let stat = fstat(file)?;
    let nanoseconds = |count| i64::try_from(count).unwrap_or_default();
    Ok(Look {
        inode: stat.st_ino,
        bytes: stat.st_size,
        changed: (stat.st_ctime, nanoseconds(stat.st_ctime_nsec)),
        modified: (stat.st_mtime, nanoseconds(stat.st_mtime_nsec)),
        executable: stat.st_mode & 0o100 != 0,
    })
}
