// SPDX-License-Identifier: Apache-2.0
//! Bytes → units of a UTF-8 terminal. An 8-bit control is found in both its forms: the bare byte,
//! and the two-byte UTF-8 form of U+0080 to U+009F.

/// What the state machine sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    /// A byte below 0x80.
    Ascii(u8),
    /// An 8-bit control, 0x80 to 0x9f.
    C1(u8),
    /// A character from U+00A0 on.
    Char(char),
    /// A byte that belongs to no character.
    Invalid,
}

/// Holds the beginning of a character that a chunk may have cut: at most three bytes.
#[derive(Debug, Default)]
pub(super) struct Decoder {
    pending: Vec<u8>,
}

impl Decoder {
    /// No character is half read.
    pub(super) fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// Takes one byte; gives the units that are complete with it.
    pub(super) fn push(&mut self, byte: u8) -> Vec<Unit> {
        self.pending.push(byte);
        let mut units = Vec::new();
        while !self.pending.is_empty() {
            let wrong = match std::str::from_utf8(&self.pending) {
                Ok(text) => {
                    units.extend(text.chars().map(unit));
                    self.pending.clear();
                    break;
                }
                Err(error) => match error.error_len() {
                    // The rest of the character is still to come.
                    None => break,
                    Some(wrong) => wrong,
                },
            };
            units.extend(self.pending.drain(..wrong).map(|byte| match byte {
                0x80..=0x9f => Unit::C1(byte),
                _ => Unit::Invalid,
            }));
        }
        units
    }
}

fn unit(character: char) -> Unit {
    match u8::try_from(u32::from(character)) {
        Ok(byte @ 0..=0x7f) => Unit::Ascii(byte),
        Ok(byte @ 0x80..=0x9f) => Unit::C1(byte),
        Ok(_) | Err(_) => Unit::Char(character),
    }
}
