// SPDX-License-Identifier: Apache-2.0
//! One frame of RFC 6455 §5: its head read strictly, its payload unmasked, and the frames that we
//! write ourselves. Sans-I/O.

/// Who wrote a frame: a client masks, a server does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sender {
    Client,
    Server,
}

/// What a frame is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Opcode {
    Continuation,
    Text,
    Binary,
    Close,
    Ping,
    Pong,
}

/// What a peer did that RFC 6455 forbids.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Violation {
    /// Close code 1002.
    Protocol,
    /// Close code 1007: a text is not UTF-8.
    Text,
}

pub(crate) type Mask = [u8; 4];

/// The head of one frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FrameHead {
    pub(crate) is_final: bool,
    pub(crate) opcode: Opcode,
    pub(crate) mask: Option<Mask>,
    /// Bytes of payload.
    pub(crate) length: u64,
    /// Bytes of the head itself.
    pub(crate) size: usize,
}

/// LIMIT: RFC 6455 §5.5.
const CONTROL_BYTES_MAX: u8 = 125;

const FINAL: u8 = 0x80;
const RESERVED: u8 = 0x70;
const MASKED: u8 = 0x80;
/// What a 7-bit length says when two or eight bytes of it follow.
const TWO_BYTES: u8 = 126;
const EIGHT_BYTES: u8 = 127;

impl Opcode {
    fn read(bits: u8) -> Result<Self, Violation> {
        match bits {
            0 => Ok(Self::Continuation),
            1 => Ok(Self::Text),
            2 => Ok(Self::Binary),
            8 => Ok(Self::Close),
            9 => Ok(Self::Ping),
            10 => Ok(Self::Pong),
            _ => Err(Violation::Protocol),
        }
    }

    fn bits(self) -> u8 {
        match self {
            Self::Continuation => 0,
            Self::Text => 1,
            Self::Binary => 2,
            Self::Close => 8,
            Self::Ping => 9,
            Self::Pong => 10,
        }
    }

    /// Close, ping and pong may stand between the fragments of a message.
    pub(crate) fn is_control(self) -> bool {
        matches!(self, Self::Close | Self::Ping | Self::Pong)
    }
}

impl FrameHead {
    /// Reads a head; nothing while it is not whole. What is wrong is said as soon as it is seen.
    pub(crate) fn read(unread: &[u8], sender: Sender) -> Result<Option<Self>, Violation> {
        let Some((first, rest)) = unread.split_first() else {
            return Ok(None);
        };
        let opcode = Opcode::read(first & 0x0f)?;
        let is_final = first & FINAL != 0;
        // No extension was agreed on, so nobody gave a meaning to these bits.
        if first & RESERVED != 0 || (opcode.is_control() && !is_final) {
            return Err(Violation::Protocol);
        }
        let Some((second, rest)) = rest.split_first() else {
            return Ok(None);
        };
        let (is_masked, short) = (second & MASKED != 0, second & !MASKED);
        if is_masked != (sender == Sender::Client)
            || (opcode.is_control() && short > CONTROL_BYTES_MAX)
        {
            return Err(Violation::Protocol);
        }
        let Some((length, rest)) = read_length(short, rest)? else {
            return Ok(None);
        };
        let (mask, rest) = if is_masked {
            match rest.split_first_chunk::<4>() {
                Some((mask, rest)) => (Some(*mask), rest),
                None => return Ok(None),
            }
        } else {
            (None, rest)
        };
        Ok(Some(Self {
            is_final,
            opcode,
            mask,
            length,
            size: unread.len() - rest.len(),
        }))
    }
}

/// RFC 6455 §5.2: the shortest of the three forms, and never the highest bit.
fn read_length(short: u8, rest: &[u8]) -> Result<Option<(u64, &[u8])>, Violation> {
    let (length, rest, least) = match short {
        TWO_BYTES => match rest.split_first_chunk::<2>() {
            Some((bytes, rest)) => (u64::from(u16::from_be_bytes(*bytes)), rest, 126),
            None => return Ok(None),
        },
        EIGHT_BYTES => match rest.split_first_chunk::<8>() {
            Some((bytes, rest)) => (u64::from_be_bytes(*bytes), rest, 1 << 16),
            None => return Ok(None),
        },
        short => (u64::from(short), rest, 0),
    };
    if length < least || length >> 63 != 0 {
        return Err(Violation::Protocol);
    }
    Ok(Some((length, rest)))
}

/// Masks or unmasks; `at` is the place of the first byte in its frame, modulo four.
pub(crate) fn apply_mask(data: &mut [u8], mask: Mask, at: usize) {
    let mut turned = mask;
    turned.rotate_left(at % 4);
    for chunk in data.chunks_mut(4) {
        for (byte, key) in chunk.iter_mut().zip(turned) {
            *byte ^= key;
        }
    }
}

/// Bytes that a frame takes beside its payload.
pub(crate) fn head_bytes(payload: &[u8], is_masked: bool) -> usize {
    let length = match payload.len() {
        0..126 => 0,
        126..65_536 => 2,
        _ => 8,
    };
    2 + length + if is_masked { 4 } else { 0 }
}

/// Appends one frame.
pub(crate) fn push_frame(
    out: &mut Vec<u8>,
    (opcode, is_final): (Opcode, bool),
    mask: Option<Mask>,
    payload: &[u8],
) {
    let masked = if mask.is_some() { MASKED } else { 0 };
    out.push(opcode.bits() | if is_final { FINAL } else { 0 });
    let length = payload.len();
    match (u8::try_from(length), u16::try_from(length)) {
        (Ok(short), _) if short < TWO_BYTES => out.push(masked | short),
        (_, Ok(two)) => {
            out.push(masked | TWO_BYTES);
            out.extend_from_slice(&two.to_be_bytes());
        }
        _ => {
            out.push(masked | EIGHT_BYTES);
            let eight = u64::try_from(length).unwrap_or(u64::MAX);
            out.extend_from_slice(&eight.to_be_bytes());
        }
    }
    let Some(mask) = mask else {
        out.extend_from_slice(payload);
        return;
    };
    out.extend_from_slice(&mask);
    let start = out.len();
    out.extend_from_slice(payload);
    apply_mask(out.get_mut(start..).unwrap_or_default(), mask, 0);
}

/// A close frame's payload is empty, or a code that may be sent and a text (RFC 6455 §7.4).
pub(crate) fn check_close(payload: &[u8]) -> Result<(), Violation> {
    if payload.is_empty() {
        return Ok(());
    }
    let Some((code, reason)) = payload.split_first_chunk::<2>() else {
        return Err(Violation::Protocol);
    };
    if !matches!(u16::from_be_bytes(*code), 1000..=1003 | 1007..=1014 | 3000..=4999) {
        return Err(Violation::Protocol);
    }
    let text = std::str::from_utf8(reason);
    text.map(|_| ()).map_err(|_| Violation::Text)
}
