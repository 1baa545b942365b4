// SPDX-License-Identifier: Apache-2.0
//! Finds the frames in bytes that come in any cut: headers of RFC 9113 §4.1, and which bytes belong
//! to which. What a frame means is for those who ask.

/// RFC 9113 §6.
pub(crate) mod kind {
    pub(crate) const DATA: u8 = 0;
    pub(crate) const HEADERS: u8 = 1;
    pub(crate) const PRIORITY: u8 = 2;
    pub(crate) const RST_STREAM: u8 = 3;
    pub(crate) const SETTINGS: u8 = 4;
    pub(crate) const PUSH_PROMISE: u8 = 5;
    pub(crate) const PING: u8 = 6;
    pub(crate) const GOAWAY: u8 = 7;
    pub(crate) const WINDOW_UPDATE: u8 = 8;
    pub(crate) const CONTINUATION: u8 = 9;
}

/// Flags; each counts for some kinds only.
pub(crate) mod flag {
    pub(crate) const ACK: u8 = 0x01;
    pub(crate) const END_STREAM: u8 = 0x01;
    pub(crate) const END_HEADERS: u8 = 0x04;
    pub(crate) const PADDED: u8 = 0x08;
    pub(crate) const PRIORITY: u8 = 0x20;
}

/// The client's first bytes, `PRI * HTTP/2.0…`.
pub(crate) const PREFACE_BYTES: u32 = 24;
pub(crate) const HEADER_BYTES: u32 = 9;

/// A frame's header.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) length: u32,
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) stream: u32,
}

impl Header {
    pub(crate) fn has(self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// From the last nine of these bytes.
    fn read(bytes: u128) -> Self {
        let [
            _,
            _,
            _,
            _,
            _,
            _,
            _,
            high,
            middle,
            low,
            kind,
            flags,
            stream @ ..,
        ] = bytes.to_be_bytes();
        Self {
            length: u32::from_be_bytes([0, high, middle, low]),
            kind,
            flags,
            // The highest bit is reserved and means nothing.
            stream: u32::from_be_bytes(stream) & 0x7fff_ffff,
        }
    }
}

/// What was found next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part<'b> {
    /// A header is whole.
    Header(Header),
    /// Some of a frame's payload, and where in it that begins.
    Payload(Header, u32, &'b [u8]),
}

/// Where in which frame the bytes have come to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Frames {
    /// What is left of the preface.
    preface: u32,
    /// The bytes of a header that came, and how many.
    header: u128,
    came: u32,
    /// The frame whose payload comes, and what is left of it.
    frame: Header,
    left: u32,
}

impl Frames {
    pub(crate) fn new(preface: bool) -> Self {
        Self {
            preface: if preface { PREFACE_BYTES } else { 0 },
            header: 0,
            came: 0,
            frame: Header::default(),
            left: 0,
        }
    }

    /// Takes the next part from the front of the bytes; nothing when they are used up.
    pub(crate) fn next<'b>(&mut self, bytes: &mut &'b [u8]) -> Option<Part<'b>> {
        take(bytes, &mut self.preface);
        if self.left > 0 && !bytes.is_empty() {
            let at = self.frame.length - self.left;
            return Some(Part::Payload(self.frame, at, take(bytes, &mut self.left)));
        }
        while let Some((byte, rest)) = bytes.split_first() {
            *bytes = rest;
            self.header = self.header << 8 | u128::from(*byte);
            self.came += 1;
            if self.came == HEADER_BYTES {
                self.frame = Header::read(self.header);
                self.left = self.frame.length;
                (self.header, self.came) = (0, 0);
                return Some(Part::Header(self.frame));
            }
        }
        None
    }
}

/// Takes as many bytes as are there and wanted.
fn take<'b>(bytes: &mut &'b [u8], wanted: &mut u32) -> &'b [u8] {
    let count = usize::try_from(*wanted).unwrap_or(usize::MAX);
    let (taken, rest) = bytes.split_at_checked(count).unwrap_or((bytes, &[]));
    *bytes = rest;
    // INVARIANT: what was taken is no more than was wanted.
    *wanted -= u32::try_from(taken.len()).unwrap_or(*wanted);
    taken
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
        let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
        let mut frame = length[1..].to_vec();
        frame.extend_from_slice(&[kind, flags]);
        frame.extend_from_slice(&stream.to_be_bytes());
        frame.extend_from_slice(payload);
        frame
    }

    proptest! {
        #[test]
        fn frames_are_found_in_every_cut(
            frames in prop::collection::vec(
                (0_u8..12, 0_u8..3, any::<u32>(), prop::collection::vec(any::<u8>(), 0..40)),
                0..20,
            ),
            cut in 1_usize..20,
        ) {
            let mut bytes = vec![b'P'; usize::try_from(PREFACE_BYTES).unwrap()];
            let mut wanted = Vec::new();
            for (kind, flags, stream, payload) in frames {
                bytes.extend(frame(kind, flags, stream, &payload));
                wanted.push((kind, flags, stream & 0x7fff_ffff, payload));
            }
            let mut found: Vec<(u8, u8, u32, Vec<u8>)> = Vec::new();
            let mut seen = Frames::new(true);
            for mut piece in bytes.chunks(cut) {
                while let Some(part) = seen.next(&mut piece) {
                    match part {
                        Part::Header(h) => found.push((h.kind, h.flags, h.stream, Vec::new())),
                        Part::Payload(_, at, bytes) => {
                            let payload = &mut found.last_mut().unwrap().3;
                            prop_assert_eq!(usize::try_from(at).unwrap(), payload.len());
                            payload.extend_from_slice(bytes);
                        }
                    }
                }
            }
            prop_assert_eq!(found, wanted);
        }
    }
}
