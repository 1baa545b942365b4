// SPDX-License-Identifier: Apache-2.0
//! Finds in a client's frames what RFC 9113 ends a connection for, and the code that it names.
//! `h2` finds the same a moment later and says PROTOCOL_ERROR to nearly all of it, so what is
//! found here is said first. It only ever ends a connection: what it takes for right is still read
//! by `h2`, and by that alone.

#[cfg(test)]
mod tests;

use super::frames::{Header, Part, flag, kind};
use super::packed::{Packed, Unpackable};
use h2::Reason as Code;
use std::collections::{BTreeSet, VecDeque};

/// What we take in one frame: the protocol's default, of which our settings say nothing else.
const FRAME_BYTES_MAX: u32 = 16_384;
/// LIMIT: streams that a client has open at once. It may open more than our settings allow until
/// it has read them, and each is reset then; so many are a flood.
const OPEN_MAX: usize = 1_024;
/// LIMIT: streams that we reset and that are remembered, because a client's frames may be on their
/// way. Whoever sends on after so many others were reset has read that long ago.
const RESET_MAX: usize = 1_024;
const WINDOW_MAX: u64 = 0x7fff_ffff;

/// What is known of a connection from the frames that passed.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    /// The client's first frame, its settings, came.
    is_greeted: bool,
    /// The stream whose block of fields is not over.
    block: Option<u32>,
    packed: Packed,
    /// Padding of the frame whose payload comes.
    padding: u32,
    /// The highest stream that the client opened.
    highest: u32,
    /// Streams on which the client has not said its last.
    open: BTreeSet<u32>,
    /// Streams that we reset, oldest first.
    reset: VecDeque<u32>,
    /// Settings of ours that it has not acknowledged.
    unacknowledged: u32,
    /// The last stream that its GOAWAY named; a later one names no higher.
    farewell: Option<u64>,
    /// The number that is read from a payload, and how many of its bytes came.
    number: u64,
    digits: u32,
}

impl Faults {
    /// Follows what came.
    pub(crate) fn came(&mut self, part: Part<'_>) -> Result<(), Code> {
        match part {
            Part::Header(header) => {
                (self.number, self.digits, self.padding) = (0, 0, 0);
                self.order(header)?;
                size(header)?;
                self.place(header)?;
                self.stream(header)?;
                self.fields(header, 0, &[])
            }
            Part::Payload(header, at, bytes) => {
                self.payload(header, at, bytes)?;
                self.fields(header, at, bytes)
            }
        }
    }

    /// Follows what we sent.
    pub(crate) fn went(&mut self, header: Header) {
        match header.kind {
            kind::SETTINGS if !header.has(flag::ACK) => self.unacknowledged += 1,
            kind::RST_STREAM if self.open.remove(&header.stream) => {
                if self.reset.len() == RESET_MAX {
                    self.reset.pop_front();
                }
                self.reset.push_back(header.stream);
            }
            _ => {}
        }
    }

    /// Settings come first (§3.4), and nothing comes amid a block of fields (§4.3).
    fn order(&mut self, header: Header) -> Result<(), Code> {
        let is_greeting = header.kind == kind::SETTINGS && !header.has(flag::ACK);
        self.is_greeted |= is_greeting;
        let continues = (header.kind == kind::CONTINUATION).then_some(header.stream);
        if !self.is_greeted || self.block != continues {
            return Err(Code::PROTOCOL_ERROR);
        }
        if matches!(header.kind, kind::HEADERS | kind::CONTINUATION) {
            self.block = (!header.has(flag::END_HEADERS)).then_some(header.stream);
        }
        Ok(())
    }

    /// What belongs to a stream names one that was opened, and nothing else names any.
    fn place(&mut self, header: Header) -> Result<(), Code> {
        let is_right = match header.kind {
            kind::SETTINGS | kind::PING | kind::GOAWAY => header.stream == 0,
            kind::DATA | kind::RST_STREAM => self.was_opened(header.stream),
            kind::WINDOW_UPDATE => header.stream == 0 || self.was_opened(header.stream),
            kind::HEADERS => header.stream % 2 == 1,
            kind::PRIORITY => header.stream != 0,
            // We promised nothing to a client, and it may not either.
            kind::PUSH_PROMISE => false,
            _ => true,
        };
        if !is_right {
            return Err(Code::PROTOCOL_ERROR);
        }
        if header.kind == kind::SETTINGS && header.has(flag::ACK) {
            let left = self.unacknowledged.checked_sub(1);
            self.unacknowledged = left.ok_or(Code::PROTOCOL_ERROR)?;
        }
        Ok(())
    }

    /// A client's streams have odd numbers, each higher than the one before (§5.1.1).
    fn was_opened(&self, stream: u32) -> bool {
        stream % 2 == 1 && stream <= self.highest
    }

    /// Opens and closes a client's side of streams; whoever said its last says no more (§5.1).
    fn stream(&mut self, header: Header) -> Result<(), Code> {
        let stream = header.stream;
        match header.kind {
            kind::HEADERS if stream > self.highest => {
                self.highest = stream;
                self.open.insert(stream);
            }
            kind::DATA | kind::HEADERS => {
                // The list is looked through for late frames alone.
                if !self.open.contains(&stream) && !self.reset.contains(&stream) {
                    return Err(Code::STREAM_CLOSED);
                }
            }
            kind::RST_STREAM => {
                self.open.remove(&stream);
            }
            _ => return Ok(()),
        }
        if header.kind != kind::RST_STREAM && header.has(flag::END_STREAM) {
            self.open.remove(&stream);
        }
        if self.open.len() > OPEN_MAX {
            return Err(Code::ENHANCE_YOUR_CALM);
        }
        Ok(())
    }

    fn payload(&mut self, header: Header, at: u32, bytes: &[u8]) -> Result<(), Code> {
        let wanted = match header.kind {
            kind::DATA | kind::HEADERS if header.has(flag::PADDED) => 1,
            kind::WINDOW_UPDATE | kind::GOAWAY => 4,
            kind::SETTINGS => 6,
            _ => return Ok(()),
        };
        // One number stands at the front; settings are numbers to their end.
        if header.kind != kind::SETTINGS && at >= wanted {
            return Ok(());
        }
        for byte in bytes {
            self.number = self.number << 8 | u64::from(*byte);
            self.digits += 1;
            if self.digits == wanted {
                let number = std::mem::take(&mut self.number);
                self.digits = 0;
                self.number(header, number)?;
                if header.kind != kind::SETTINGS {
                    break;
                }
            }
        }
        Ok(())
    }

    fn number(&mut self, header: Header, number: u64) -> Result<(), Code> {
        let is_right = match header.kind {
            kind::SETTINGS => return setting(number >> 32, number & 0xffff_ffff),
            kind::WINDOW_UPDATE => number & WINDOW_MAX != 0,
            kind::GOAWAY => {
                let last = number & WINDOW_MAX;
                let before = self.farewell.replace(last);
                before.is_none_or(|before| last <= before)
            }
            _ => {
                self.padding = u32::try_from(number).unwrap_or(u32::MAX);
                self.padding <= header.length.saturating_sub(least(header))
            }
        };
        is_right.then_some(()).ok_or(Code::PROTOCOL_ERROR)
    }

    /// Follows the fields among a frame's bytes, which lie between what stands before them and the
    /// padding.
    fn fields(&mut self, header: Header, at: u32, bytes: &[u8]) -> Result<(), Code> {
        if !matches!(header.kind, kind::HEADERS | kind::CONTINUATION) {
            return Ok(());
        }
        let place = |of: u32| usize::try_from(of.saturating_sub(at)).unwrap_or(usize::MAX);
        let begin = place(least(header)).min(bytes.len());
        let end = place(header.length - self.padding).clamp(begin, bytes.len());
        self.packed
            .feed(bytes.get(begin..end).unwrap_or_default())?;
        let is_all = usize::try_from(header.length - at) == Ok(bytes.len());
        if is_all && header.has(flag::END_HEADERS) {
            self.packed.end()?;
        }
        Ok(())
    }
}

impl From<Unpackable> for Code {
    fn from(_: Unpackable) -> Self {
        Self::COMPRESSION_ERROR
    }
}

/// The sizes that each kind may have (§4.2, §6).
fn size(header: Header) -> Result<(), Code> {
    let length = header.length;
    let is_right = match header.kind {
        kind::PRIORITY => length == 5,
        kind::RST_STREAM | kind::WINDOW_UPDATE => length == 4,
        kind::SETTINGS if header.has(flag::ACK) => length == 0,
        kind::SETTINGS => length.is_multiple_of(6),
        kind::PING => length == 8,
        _ => length >= least(header),
    };
    if is_right && length <= FRAME_BYTES_MAX {
        return Ok(());
    }
    Err(Code::FRAME_SIZE_ERROR)
}

/// What a frame holds at least, by its flags.
fn least(header: Header) -> u32 {
    let of = |flag: u8, bytes: u32| if header.has(flag) { bytes } else { 0 };
    match header.kind {
        kind::DATA => of(flag::PADDED, 1),
        kind::HEADERS => of(flag::PADDED, 1) + of(flag::PRIORITY, 5),
        kind::GOAWAY => 8,
        _ => 0,
    }
}

/// The values that a setting may have (§6.5.2; RFC 8441 §3).
fn setting(name: u64, value: u64) -> Result<(), Code> {
    match name {
        2 | 8 if value > 1 => Err(Code::PROTOCOL_ERROR),
        4 if value > WINDOW_MAX => Err(Code::FLOW_CONTROL_ERROR),
        5 if !(16_384..=16_777_215).contains(&value) => Err(Code::PROTOCOL_ERROR),
        _ => Ok(()),
    }
}
