// SPDX-License-Identifier: Apache-2.0
//! Where the record is signed, and where one segment ends and the next begins. A segment begins
//! only at a signed head, so that what comes before it can be pruned.

use super::{AppendError, Health, Recorder, byte_count};
use crate::checkpoint::{Checkpoint, PublicKey};
use crate::directory::{CHECKPOINT, Directory, SegmentName};
use crate::line::Header;
use crate::tree::{Frontier, TreeHead};
use std::fs::File;
use std::io::{self, Write as _};
use std::sync::Arc;

impl Recorder {
    /// Signs the head, after flushing what it covers. Call it on kill, at close and about once a
    /// second while records come in; with nothing new it does nothing.
    ///
    /// # Errors
    /// As [`Self::append`].
    pub fn checkpoint(&mut self) -> Result<(), AppendError> {
        self.sync()?;
        let head = self.tree.head();
        if self.signed.as_ref().map(Checkpoint::head) == Some(head) {
            return Ok(());
        }
        let checkpoint = self.key.sign(head);
        self.keep(&checkpoint).map_err(|error| self.failed(error))?;
        self.history_bytes += byte_count(checkpoint.note().as_bytes());
        self.signed = Some(checkpoint);
        Ok(())
    }

    /// Signs the head, closes the newest segment and begins the next.
    ///
    /// # Errors
    /// As [`Self::append`].
    pub fn rotate(&mut self) -> Result<(), AppendError> {
        if self.health != Health::Ready {
            return Err(AppendError::Broken);
        }
        if self.tree.size() == self.segment.0 {
            return Ok(());
        }
        self.checkpoint()?;
        self.cut_room()?;
        begin_segment(&self.directory, &self.tree, self.key.public())
            .map(|(segment, file, length)| {
                self.segment = segment;
                self.disk = Arc::new(file);
                self.length = length;
                self.ahead = length;
            })
            .map_err(|error| self.failed(error))
    }

    /// Signs the head and lets go of the directory.
    ///
    /// # Errors
    /// As [`Self::append`].
    pub fn close(mut self) -> Result<TreeHead, AppendError> {
        self.checkpoint()?;
        self.cut_room()?;
        Ok(self.tree.head())
    }

    /// Cuts off the room behind the segment's end, durably: in no segment but the newest stands
    /// anything behind the last record.
    fn cut_room(&mut self) -> Result<(), AppendError> {
        let cut = self.disk.truncate(self.length);
        let cut = cut.and_then(|()| self.disk.sync());
        self.ahead = self.length;
        cut.map_err(|error| self.broken(error))
    }

    /// The history first: whoever finds the newest head finds it there too.
    fn keep(&mut self, checkpoint: &Checkpoint) -> io::Result<()> {
        self.history.set_len(self.history_bytes)?;
        self.history.write_all(checkpoint.note().as_bytes())?;
        self.history.sync_data()?;
        self.directory
            .replace(CHECKPOINT, checkpoint.note().as_bytes())
    }
}

/// A new segment with its header, durable.
pub(super) fn begin_segment(
    directory: &Directory,
    tree: &Frontier,
    key: &PublicKey,
) -> io::Result<(SegmentName, File, u64)> {
    let segment = SegmentName(tree.size());
    let header = Header::new(tree.size(), tree.subtrees().to_vec(), key.to_string());
    let mut bytes = header.print().map_err(io::Error::other)?;
    bytes.push(b'\n');
    let mut file = directory.create(&segment.file())?;
    let written = file.write_all(&bytes).and_then(|()| file.sync_data());
    if let Err(error) = written {
        // The segment before it goes on (ends and kills): no empty one may stand behind it.
        directory.remove(&segment.file())?;
        return Err(error);
    }
    Ok((segment, file, byte_count(&bytes)))
}
