// SPDX-License-Identifier: Apache-2.0
//! Where the messages of gRPC end. At an end nothing is held back for the search: a message begins
//! with a zero or a one, which is in no form of a secret, so no find goes on behind an end.

/// Length-prefixed messages: a flag, a length of four bytes, and so many bytes.
#[derive(Debug, Default)]
pub(super) struct Messages {
    prefix: Vec<u8>,
    left: usize,
}

const PREFIX_BYTES: usize = 5;

impl Messages {
    /// Takes the next piece; true when it ends where a message does.
    pub(super) fn ends_with(&mut self, mut piece: &[u8]) -> bool {
        while !piece.is_empty() {
            let skipped = self.left.min(piece.len());
            self.left -= skipped;
            piece = piece.get(skipped..).unwrap_or_default();
            let wanted = (PREFIX_BYTES - self.prefix.len()).min(piece.len());
            let (taken, rest) = piece.split_at_checked(wanted).unwrap_or_default();
            self.prefix.extend_from_slice(taken);
            piece = rest;
            if let [_, length @ ..] = self.prefix.as_slice()
                && let Ok(length) = <[u8; 4]>::try_from(length)
            {
                self.left = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
                self.prefix.clear();
            }
        }
        self.left == 0 && self.prefix.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ends_of_messages_are_found_in_every_cut() {
        let text = b"\0\0\0\0\x03abc\x01\0\0\0\0\0\0\0\x01\0".to_vec();
        let text = [text, vec![b'x'; 256]].concat();
        let ends = [8, 13, text.len()];
        for cut in 1..=text.len() {
            let mut messages = Messages::default();
            let mut at = 0;
            for piece in text.chunks(cut) {
                at += piece.len();
                assert_eq!(messages.ends_with(piece), ends.contains(&at), "{cut} {at}");
            }
        }
    }
}
