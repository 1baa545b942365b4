// SPDX-License-Identifier: Apache-2.0
//! Follows how a client's fields are packed (RFC 7541), byte by byte: numbers, lengths, and which
//! entries of the table there can be. Nothing is unpacked and no text is looked at, so Huffman's
//! code is for `h2` to read. What is found here has its own code, COMPRESSION_ERROR, which `h2`
//! doesn't give.

use super::TABLE_BYTES;

/// What can't be unpacked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Unpackable;

/// Entries of the static table.
const STATIC: u32 = 61;
/// What an entry of the table takes at least (§4.1).
const ENTRY_BYTES: u32 = 32;
/// LIMIT: bytes of a number behind its first; four hold more than any block is long.
const NUMBER_BYTES_MAX: u32 = 4;

/// What a number is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Number {
    /// A field that stands in a table.
    Field,
    /// A field's name that stands in a table, 0 when it is spelled out; the field may enter it.
    Name { enters: bool },
    /// The table's new size.
    Size,
    /// How long a text is, and whether another follows it.
    Length { is_name: bool },
}

/// What comes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    /// A field, or the end of the block.
    Field,
    /// More of a number.
    More {
        number: Number,
        value: u32,
        bytes: u32,
    },
    /// The length of a text.
    Length { is_name: bool },
    /// So much of a text.
    Text { is_name: bool, left: u32 },
}

/// Where in its blocks of fields a connection is.
#[derive(Debug)]
pub(crate) struct Packed {
    next: Next,
    /// A field of this block came: no size of the table may follow.
    is_begun: bool,
    /// The table's size, and the most entries that it can have.
    table: u32,
    entries: u32,
}

impl Default for Packed {
    fn default() -> Self {
        Self {
            next: Next::Field,
            is_begun: false,
            table: TABLE_BYTES,
            entries: 0,
        }
    }
}

impl Packed {
    /// Follows some bytes of a block.
    pub(crate) fn feed(&mut self, mut bytes: &[u8]) -> Result<(), Unpackable> {
        while let Some((byte, rest)) = bytes.split_first() {
            bytes = rest;
            self.next = match self.next {
                Next::Field => self.field(*byte)?,
                Next::More {
                    number,
                    value,
                    bytes,
                } => self.more(*byte, (number, value, bytes))?,
                Next::Length { is_name } => self.begin(Number::Length { is_name }, *byte, 0x7f)?,
                Next::Text { is_name, left } => {
                    // One byte was taken; as many as there are go at once.
                    let more = usize::try_from(left - 1)
                        .unwrap_or(usize::MAX)
                        .min(bytes.len());
                    bytes = bytes.get(more..).unwrap_or_default();
                    let more = u32::try_from(more).map_err(|_| Unpackable)?;
                    text(is_name, left - 1 - more)
                }
            };
        }
        Ok(())
    }

    /// The block is over.
    pub(crate) fn end(&mut self) -> Result<(), Unpackable> {
        self.is_begun = false;
        (self.next == Next::Field).then_some(()).ok_or(Unpackable)
    }

    /// The first byte of a field (§6).
    fn field(&mut self, byte: u8) -> Result<Next, Unpackable> {
        let (number, mask) = match byte {
            0x80.. => (Number::Field, 0x7f),
            0x40.. => (Number::Name { enters: true }, 0x3f),
            0x20.. => (Number::Size, 0x1f),
            _ => (Number::Name { enters: false }, 0x0f),
        };
        if number == Number::Size && self.is_begun {
            return Err(Unpackable);
        }
        self.is_begun |= number != Number::Size;
        self.begin(number, byte, mask)
    }

    /// The first byte of a number (§5.1).
    fn begin(&mut self, number: Number, byte: u8, mask: u8) -> Result<Next, Unpackable> {
        let value = u32::from(byte & mask);
        if byte & mask == mask {
            return Ok(Next::More {
                number,
                value,
                bytes: 0,
            });
        }
        self.is(number, value)
    }

    fn more(
        &mut self,
        byte: u8,
        (number, value, bytes): (Number, u32, u32),
    ) -> Result<Next, Unpackable> {
        if bytes == NUMBER_BYTES_MAX {
            return Err(Unpackable);
        }
        // INVARIANT: four bytes of seven bits and a first of at most seven are below 2^29.
        let value = value + (u32::from(byte & 0x7f) << (7 * bytes));
        if byte & 0x80 == 0 {
            return self.is(number, value);
        }
        Ok(Next::More {
            number,
            value,
            bytes: bytes + 1,
        })
    }

    /// A number is whole.
    fn is(&mut self, number: Number, value: u32) -> Result<Next, Unpackable> {
        let is_known = value <= STATIC + self.entries;
        match number {
            Number::Field if value > 0 && is_known => Ok(Next::Field),
            Number::Name { enters } if is_known => {
                if enters {
                    self.entries = (self.entries + 1).min(self.table / ENTRY_BYTES);
                }
                Ok(Next::Length {
                    is_name: value == 0,
                })
            }
            Number::Size if value <= TABLE_BYTES => {
                self.table = value;
                self.entries = self.entries.min(value / ENTRY_BYTES);
                Ok(Next::Field)
            }
            Number::Length { is_name } => Ok(text(is_name, value)),
            Number::Field | Number::Name { .. } | Number::Size => Err(Unpackable),
        }
    }
}

/// What comes when so much of a text is left.
fn text(is_name: bool, left: u32) -> Next {
    match (left, is_name) {
        (1.., _) => Next::Text { is_name, left },
        (0, true) => Next::Length { is_name: false },
        (0, false) => Next::Field,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn blocks(blocks: &[&[u8]], cut: usize) -> Result<(), Unpackable> {
        let mut packed = Packed::default();
        for block in blocks {
            block.chunks(cut).try_for_each(|piece| packed.feed(piece))?;
            packed.end()?;
        }
        Ok(())
    }

    const ENTERS: &[u8] = b"\x40\x01a\x01b";

    #[test]
    fn what_can_be_unpacked_passes_and_what_can_not_is_found_in_every_cut() {
        let long = [&b"\x00\x01a\x7f\x81\x01"[..], &[b'x'; 256]].concat();
        let right: &[&[&[u8]]] = &[
            &[],
            &[b""],
            &[b"\x82\x87\x84\x41\x01a"],
            &[ENTERS, b"\xbe\x7e\x01c"],
            &[b"\x00\x00\x00"],
            &[&long],
            &[b"\x20\x3f\xe1\x1f\x82"],
            // A size alone is a block too.
            &[b"\x20", b"\x82"],
            // What Huffman's code says is not looked at.
            &[b"\x00\x01a\x82\xff\xff"],
        ];
        let wrong: &[&[&[u8]]] = &[
            &[b"\x80"],
            &[b"\xbe"],
            &[b"\x7e\x01a"],
            &[b"\xff\xff\xff\x0f"],
            &[b"\x82\x20"],
            &[b"\x3f\xe2\x1f"],
            &[b"\xff\xff\xff\xff\xff\xff\x01"],
            &[b"\xff\x80"],
            &[b"\x00\x05a"],
            &[b"\x00\x01a"],
            &[b"\x00"],
            // The table holds nothing, or no longer.
            &[b"\x20", ENTERS, b"\xbe"],
            &[ENTERS, b"\x20\xbe"],
            // The error of a block stays one when the next begins well.
            &[b"\x00\x01", b"\x82"],
        ];
        for cut in 1..9 {
            for case in right {
                assert_eq!(blocks(case, cut), Ok(()), "{case:?} by {cut}");
            }
            for case in wrong {
                assert_eq!(blocks(case, cut), Err(Unpackable), "{case:?} by {cut}");
            }
        }
    }

    proptest! {
        #[test]
        fn how_a_block_is_cut_changes_nothing(
            block in prop::collection::vec(any::<u8>(), 0..60),
            cut in 1_usize..20,
        ) {
            prop_assert_eq!(blocks(&[&block, ENTERS], cut), blocks(&[&block, ENTERS], 99));
        }
    }
}
