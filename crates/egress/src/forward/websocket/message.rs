// SPDX-License-Identifier: Apache-2.0
//! Frames of one direction → pieces of messages and control frames, with the order of RFC 6455 §5.4
//! and the UTF-8 of texts held across fragments. Sans-I/O; nothing is kept but where it stands.

use super::frame::{FrameHead, Mask, Opcode, Sender, Violation, apply_mask, check_close};
use crate::wire::PIECE_BYTES;

/// What a message holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Text,
    Binary,
}

/// What came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    /// A part of a message, perhaps empty.
    Piece { kind: Kind, is_last: bool },
    /// A ping or a pong.
    Beat(Opcode),
    /// The last frame of this direction.
    Close,
}

/// One direction of a WebSocket.
#[derive(Debug)]
pub(crate) struct Messages {
    sender: Sender,
    /// The message that is not over.
    open: Option<Open>,
    /// The frame that is not over.
    frame: Option<Frame>,
}

#[derive(Debug)]
struct Open {
    kind: Kind,
    text: Utf8,
}

#[derive(Debug, Clone, Copy)]
struct Frame {
    left: u64,
    mask: Option<Mask>,
    /// How much of it was read, modulo four.
    at: usize,
    is_final: bool,
}

/// LIMIT: a frame up to this size is waited for and goes on in one; of a larger one goes on what
/// is there.
const WHOLE_BYTES: usize = PIECE_BYTES;

impl Messages {
    pub(crate) fn new(sender: Sender) -> Self {
        Self {
            sender,
            open: None,
            frame: None,
        }
    }

    /// Looks at the unread bytes: how many of them to forget, and what they were; no event asks for
    /// more bytes. The payload is left in `data`, unmasked.
    pub(crate) fn next(
        &mut self,
        unread: &[u8],
        data: &mut Vec<u8>,
    ) -> Result<(usize, Option<Event>), Violation> {
        data.clear();
        if let Some(frame) = self.frame {
            return self.piece(frame, (unread, 0), data);
        }
        let Some(head) = FrameHead::read(unread, self.sender)? else {
            return Ok((0, None));
        };
        self.check_order(head.opcode)?;
        let body = unread.get(head.size..).unwrap_or_default();
        let length = usize::try_from(head.length).unwrap_or(usize::MAX);
        if length <= WHOLE_BYTES && body.len() < length {
            return Ok((0, None));
        }
        if head.opcode.is_control() {
            data.extend_from_slice(body.get(..length).unwrap_or_default());
            apply_mask(data, head.mask.unwrap_or_default(), 0);
            return Ok((head.size + length, Some(control(head.opcode, data)?)));
        }
        match head.opcode {
            Opcode::Text => self.open = Some(Open::new(Kind::Text)),
            Opcode::Binary => self.open = Some(Open::new(Kind::Binary)),
            Opcode::Continuation | Opcode::Close | Opcode::Ping | Opcode::Pong => {}
        }
        let frame = Frame {
            left: head.length,
            mask: head.mask,
            at: 0,
            is_final: head.is_final,
        };
        self.piece(frame, (unread, head.size), data)
    }

    /// A message begins once and goes on only after that.
    fn check_order(&self, opcode: Opcode) -> Result<(), Violation> {
        let is_right = match opcode {
            Opcode::Text | Opcode::Binary => self.open.is_none(),
            Opcode::Continuation => self.open.is_some(),
            Opcode::Close | Opcode::Ping | Opcode::Pong => true,
        };
        is_right.then_some(()).ok_or(Violation::Protocol)
    }

    fn piece(
        &mut self,
        mut frame: Frame,
        (unread, start): (&[u8], usize),
        data: &mut Vec<u8>,
    ) -> Result<(usize, Option<Event>), Violation> {
        let body = unread.get(start..).unwrap_or_default();
        let left = usize::try_from(frame.left).unwrap_or(usize::MAX);
        let count = left.min(body.len()).min(PIECE_BYTES);
        if count == 0 && left > 0 {
            self.frame = Some(frame);
            return Ok((start, None));
        }
        data.extend_from_slice(body.get(..count).unwrap_or_default());
        apply_mask(data, frame.mask.unwrap_or_default(), frame.at);
        frame.left -= u64::try_from(count).unwrap_or(u64::MAX);
        frame.at = (frame.at + count) % 4;
        let is_last = frame.is_final && frame.left == 0;
        self.frame = (frame.left > 0).then_some(frame);
        // INVARIANT: `check_order` let no frame of data begin without an open message.
        let open = self.open.as_mut().ok_or(Violation::Protocol)?;
        let kind = open.kind;
        if kind == Kind::Text && !open.text.push(data, is_last) {
            return Err(Violation::Text);
        }
        if is_last {
            self.open = None;
        }
        Ok((start + count, Some(Event::Piece { kind, is_last })))
    }
}

fn control(opcode: Opcode, data: &[u8]) -> Result<Event, Violation> {
    if opcode == Opcode::Close {
        check_close(data)?;
        return Ok(Event::Close);
    }
    Ok(Event::Beat(opcode))
}

impl Open {
    fn new(kind: Kind) -> Self {
        Self {
            kind,
            text: Utf8::default(),
        }
    }
}

/// UTF-8 that comes in pieces: a character that is cut is kept until its next byte.
#[derive(Debug, Default)]
struct Utf8 {
    held: [u8; 4],
    count: usize,
}

impl Utf8 {
    /// Whether the text is good so far, or good and whole.
    fn push(&mut self, piece: &[u8], is_last: bool) -> bool {
        let mut piece = piece;
        while self.count > 0
            && let Some((byte, rest)) = piece.split_first()
        {
            piece = rest;
            // INVARIANT: three bytes that are a beginning are followed by the fourth at most.
            let Some(slot) = self.held.get_mut(self.count) else {
                return false;
            };
            *slot = *byte;
            self.count += 1;
            let held = self.held.get(..self.count).unwrap_or_default();
            match std::str::from_utf8(held) {
                Ok(_) => self.count = 0,
                Err(error) if error.error_len().is_none() => {}
                Err(_) => return false,
            }
        }
        match std::str::from_utf8(piece) {
            Ok(_) => {}
            Err(error) if error.error_len().is_none() => {
                let cut = piece.get(error.valid_up_to()..).unwrap_or_default();
                for (slot, byte) in self.held.iter_mut().zip(cut) {
                    *slot = *byte;
                }
                self.count = cut.len();
            }
            Err(_) => return false,
        }
        !is_last || self.count == 0
    }
}

/// Writes the messages of one direction anew: what comes in pieces leaves as fragments.
#[derive(Debug, Default)]
pub(crate) struct Framer {
    is_open: bool,
}

impl Framer {
    /// How the next piece is framed; nothing for one that says nothing.
    pub(crate) fn next(
        &mut self,
        (kind, is_last): (Kind, bool),
        data: &[u8],
    ) -> Option<(Opcode, bool)> {
        if data.is_empty() && !is_last {
            return None;
        }
        let opcode = match (self.is_open, kind) {
            (true, _) => Opcode::Continuation,
            (false, Kind::Text) => Opcode::Text,
            (false, Kind::Binary) => Opcode::Binary,
        };
        self.is_open = !is_last;
        Some((opcode, is_last))
    }
}

#[cfg(test)]
mod tests;
