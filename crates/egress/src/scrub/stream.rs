// SPDX-License-Identifier: Apache-2.0
//! Scrubs a text that comes in pieces, with the same result as if it came whole. Held back is only
//! an end of the text from which a window could still start; a server-sent event ends in a line
//! break, which is in no window, and so is never held.

use super::index::Scrubber;
use std::sync::Arc;

/// A find that is not over yet: overlapping windows make one.
#[derive(Debug, Clone, Copy)]
struct Find {
    form: usize,
    start: u64,
    end: u64,
}

/// The state between two pieces. Places are counted from the start of the text.
pub(crate) struct ScrubStream {
    scrubber: Arc<Scrubber>,
    /// The end of the text that may belong to a window; shorter than the longest one.
    tail: Vec<u8>,
    /// Room for a held end with the piece behind it, kept from piece to piece.
    joined: Vec<u8>,
    /// Where `tail` starts.
    base: u64,
    /// Everything before was written or replaced.
    written: u64,
    find: Option<Find>,
    hits: u32,
}

impl ScrubStream {
    pub(crate) fn new(scrubber: Arc<Scrubber>) -> Self {
        Self {
            scrubber,
            tail: Vec::new(),
            joined: Vec::new(),
            base: 0,
            written: 0,
            find: None,
            hits: 0,
        }
    }

    pub(crate) fn hits(&self) -> u32 {
        self.hits
    }

    /// Bytes that are held back.
    #[cfg(test)]
    pub(super) fn held(&self) -> usize {
        self.tail.len()
    }

    /// Takes a piece.
    pub(crate) fn push(&mut self, piece: &[u8], out: &mut Vec<u8>) {
        if self.tail.is_empty() {
            self.run(piece, false, out);
        } else {
            let mut text = std::mem::take(&mut self.joined);
            text.extend_from_slice(&self.tail);
            text.extend_from_slice(piece);
            self.run(&text, false, out);
            text.clear();
            self.joined = text;
        }
    }

    /// Takes a text that is all there: nothing is held. Gives the number of finds.
    pub(crate) fn whole(mut self, text: &[u8], out: &mut Vec<u8>) -> u32 {
        self.run(text, true, out);
        self.hits
    }

    /// The text is over.
    pub(crate) fn finish(&mut self, out: &mut Vec<u8>) {
        let text = std::mem::take(&mut self.tail);
        self.run(&text, true, out);
    }

    /// Goes on with a larger set of secrets. What is held was sent before the new one was released.
    pub(crate) fn adopt(&mut self, scrubber: Arc<Scrubber>, out: &mut Vec<u8>) {
        self.close(out);
        self.scrubber = scrubber;
    }

    fn run(&mut self, text: &[u8], is_last: bool, out: &mut Vec<u8>) {
        let scrubber = Arc::clone(&self.scrubber);
        let held = if is_last {
            text.len()
        } else {
            scrubber.hold(text)
        };
        // What starts behind a window that may still come whole is decided after that one.
        for (at, found) in scrubber.windows(text, held) {
            let start = self.base + wide(at);
            let end = start + wide(found.length);
            match &mut self.find {
                Some(find) if start < find.end => find.end = find.end.max(end),
                _ => {
                    self.close(out);
                    self.write_until(text, start, out);
                    self.find = Some(Find {
                        form: found.form,
                        start,
                        end,
                    });
                }
            }
        }
        let held_from = self.base + wide(held);
        if self.find.is_some_and(|find| find.end <= held_from) {
            self.close(out);
        }
        if self.find.is_none() {
            self.write_until(text, held_from, out);
        }
        self.tail.clear();
        self.tail
            .extend_from_slice(text.get(held..).unwrap_or_default());
        self.base = held_from;
    }

    /// Writes the replacement of the find that is open.
    fn close(&mut self, out: &mut Vec<u8>) {
        if let Some(find) = self.find.take() {
            let replacement = self.scrubber.replacement(find.form, find.end - find.start);
            out.extend_from_slice(replacement.as_bytes());
            self.written = find.end;
            self.hits = self.hits.saturating_add(1);
        }
    }

    /// Writes the plain text up to `place`. `text` starts at `base`.
    fn write_until(&mut self, text: &[u8], place: u64, out: &mut Vec<u8>) {
        if place > self.written {
            let index = |p: u64| usize::try_from(p - self.base).unwrap_or(usize::MAX);
            let plain = text.get(index(self.written.max(self.base))..index(place));
            out.extend_from_slice(plain.unwrap_or_default());
            self.written = place;
        }
    }
}

fn wide(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}
