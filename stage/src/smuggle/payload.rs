// SPDX-License-Identifier: Apache-2.0
//! Payloads: each odd part of a request by itself, then seeded combinations of them. The same
//! number and seed give the same payload on every machine.

use super::bodies::{CHUNKS, FRAMINGS};
use super::frames;
use super::grammar::{ENDS, FIELDS, HOSTS, LINES, TAILS};
use sha2::{Digest, Sha256};

/// What the client speaks to the gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Speaks {
    /// HTTP/1.1, the bytes as they are.
    Http1,
    /// HTTP/2, frames behind the preface and settings.
    Http2,
}

/// One payload.
#[derive(Debug, Clone)]
pub struct Payload {
    /// Part of each path in it, and of nothing else anywhere.
    pub mark: String,
    /// What of it is odd.
    pub what: String,
    /// How it goes in.
    pub speaks: Speaks,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

/// How a payload's bytes are cut into writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Split {
    /// All at once.
    Whole,
    /// A write for each line, cut between CR and LF.
    Lines,
    /// Three writes, cut at places that the payload's mark draws.
    Drawn,
    /// Byte by byte, as far as the limit of writes goes.
    Bytes,
}

impl Split {
    /// Every way.
    pub const ALL: [Self; 4] = [Self::Whole, Self::Lines, Self::Drawn, Self::Bytes];
}

/// LIMIT: writes of one payload; what is left goes in one.
const WRITES_MAX: usize = 96;

impl Payload {
    /// The writes that a split makes of it.
    #[must_use]
    pub fn writes(&self, split: Split) -> Vec<&[u8]> {
        let bytes = self.bytes.as_slice();
        let cuts: Vec<usize> = match split {
            Split::Whole => Vec::new(),
            // Between CR and LF: the reader has seen the one and not the other.
            Split::Lines => memchr::memchr_iter(b'\n', bytes).collect(),
            Split::Drawn => {
                let digest = Sha256::digest(&self.mark);
                let part = |at: usize| usize::from(digest.get(at).copied().unwrap_or_default());
                let mut cuts = [part(0) * bytes.len() / 256, part(1) * bytes.len() / 256];
                cuts.sort_unstable();
                cuts.to_vec()
            }
            Split::Bytes => (1..bytes.len()).collect(),
        };
        let mut writes = Vec::new();
        let mut from = 0;
        for cut in cuts.into_iter().take(WRITES_MAX) {
            writes.extend(bytes.get(from..cut).filter(|part| !part.is_empty()));
            from = cut.max(from);
        }
        writes.extend(bytes.get(from..).filter(|part| !part.is_empty()));
        writes
    }
}

/// Which alternative of each part a payload takes; 0 is the usual one.
#[derive(Debug, Clone, Copy, Default)]
struct Choice {
    line: usize,
    host: usize,
    fields: usize,
    /// Framings first, then chunked bodies.
    framing: usize,
    ends: usize,
    tail: usize,
}

const PARTS: [usize; 6] = [
    LINES.len(),
    HOSTS.len(),
    FIELDS.len(),
    FRAMINGS.len() + CHUNKS.len(),
    ENDS.len(),
    TAILS.len(),
];

impl Choice {
    fn set(&mut self, part: usize, at: usize) {
        match part {
            0 => self.line = at,
            1 => self.host = at,
            2 => self.fields = at,
            3 => self.framing = at,
            4 => self.ends = at,
            _ => self.tail = at,
        }
    }
}

/// The first `count` payloads for a far end of that name: each oddity alone, in both protocols,
/// then pairs and threes of them.
#[must_use]
pub fn payloads(host: &str, count: usize, seed: u64) -> Vec<Payload> {
    let mut choices = vec![Choice::default()];
    for (part, alternatives) in PARTS.iter().enumerate() {
        choices.extend((1..*alternatives).map(|at| {
            let mut choice = Choice::default();
            choice.set(part, at);
            choice
        }));
    }
    let framed = frames::all(host);
    let alone = choices.len() + framed.len();
    let mut made: Vec<Payload> = framed
        .into_iter()
        .map(|(what, bytes)| (what.to_owned(), Speaks::Http2, bytes))
        .chain(choices.iter().map(|choice| http1(host, choice)))
        .enumerate()
        .map(|(number, made)| marked(number, made))
        .collect();
    // Few of many are spread over all of them, so that a smoke meets every class.
    if count < alone {
        return (0..count)
            .filter_map(|at| made.get(at * alone / count).cloned())
            .collect();
    }
    for number in alone..count {
        made.push(marked(number, http1(host, &drawn(seed, number))));
    }
    made
}

/// Two or three oddities at once.
fn drawn(seed: u64, number: usize) -> Choice {
    let digest = Sha256::digest(format!("{seed} {number}"));
    let mut numbers = digest.chunks_exact(2).map(|pair| {
        pair.iter()
            .fold(0_usize, |number, byte| number << 8 | usize::from(*byte))
    });
    let mut below = |sides: usize| numbers.next().unwrap_or_default() % sides.max(1);
    let mut choice = Choice::default();
    // Framing is in two of three: that is where two readers differ.
    for _ in 0..2 + below(2) {
        let part = if below(3) == 0 { 3 } else { below(PARTS.len()) };
        let sides = PARTS.get(part).copied().unwrap_or_default();
        choice.set(part, below(sides));
    }
    choice
}

/// What is odd, what is spoken, and the bytes, not yet marked.
fn http1(host: &str, choice: &Choice) -> (String, Speaks, Vec<u8>) {
    let pick = |list: &[&'static str], at: usize| list.get(at).copied().unwrap_or_default();
    let (framing, body) = match choice.framing.checked_sub(FRAMINGS.len()) {
        Some(at) => ("Transfer-Encoding: chunked\r\n", pick(CHUNKS, at)),
        None => FRAMINGS.get(choice.framing).copied().unwrap_or_default(),
    };
    let line = match (choice.line, choice.framing) {
        (0, 1..) => "POST @T@ HTTP/1.1",
        (at, _) => pick(LINES, at),
    };
    let fields = [
        pick(HOSTS, choice.host),
        pick(FIELDS, choice.fields),
        framing,
    ]
    .concat();
    let ends = pick(ENDS, choice.ends);
    let head = format!("{line}\r\n{fields}\r\n").replace("\r\n", ends);
    let tail = pick(TAILS, choice.tail);
    // The mark is as long as what stands for it, so that lengths can be counted before.
    let body = filled(body, host);
    let head = head.replace("@LEN@", &body.len().to_string());
    let text = [filled(&head, host), body, filled(tail, host)].concat();
    let odd: Vec<String> = [
        (choice.line, pick(LINES, choice.line)),
        (choice.host, pick(HOSTS, choice.host)),
        (choice.fields, pick(FIELDS, choice.fields)),
        (choice.framing, framing),
        (choice.framing, body_name(choice.framing)),
        (choice.ends, ends),
        (choice.tail, tail),
    ]
    .iter()
    .filter(|(at, text)| *at != 0 && !text.is_empty())
    .map(|(_, text)| format!("{text:?}"))
    .collect();
    (odd.join(" "), Speaks::Http1, text.into_bytes())
}

fn body_name(framing: usize) -> &'static str {
    match framing.checked_sub(FRAMINGS.len()) {
        Some(at) => CHUNKS.get(at).copied().unwrap_or_default(),
        None => FRAMINGS.get(framing).map_or("", |(_, body)| body),
    }
}

/// A whole request for what is never granted.
const INNER: &str = "GET /forbidden/@M@ HTTP/1.1\r\nHost: @H@\r\n\r\n";

/// Stands for the mark, and is as long.
pub(super) const UNMARKED: &str = "@MARK@";

fn filled(text: &str, host: &str) -> String {
    text.replace("@IN@", INNER)
        .replace("@T@", "/ok/@M@")
        .replace("@M@", UNMARKED)
        .replace("@H@", host)
}

fn marked(number: usize, (what, speaks, bytes): (String, Speaks, Vec<u8>)) -> Payload {
    let mark = format!("p{number:05}");
    let mut left = bytes.as_slice();
    let mut made = Vec::with_capacity(bytes.len());
    while let Some(at) = memchr::memmem::find(left, UNMARKED.as_bytes()) {
        let (before, after) = left.split_at_checked(at).unwrap_or_default();
        made.extend_from_slice(before);
        made.extend_from_slice(mark.as_bytes());
        left = after.get(UNMARKED.len()..).unwrap_or_default();
    }
    made.extend_from_slice(left);
    Payload {
        mark,
        what,
        speaks,
        bytes: made,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payloads_are_many_marked_and_the_same_each_time() {
        let made = payloads("a.test", 1500, 7);
        assert_eq!(made.len(), 1500);
        let again = payloads("a.test", 1500, 7);
        assert!(made.iter().zip(&again).all(|(a, b)| a.bytes == b.bytes));
        let distinct: std::collections::BTreeSet<_> = made
            .iter()
            .map(|p| String::from_utf8_lossy(&p.bytes).replace(&p.mark, ""))
            .collect();
        assert!(distinct.len() > 1200, "{}", distinct.len());
        for payload in &made {
            assert!(memchr::memmem::find(&payload.bytes, b"@").is_none_or(|_| {
                !["@M@", "@H@", "@T@", "@IN@", "@LEN@", UNMARKED]
                    .iter()
                    .any(|left| memchr::memmem::find(&payload.bytes, left.as_bytes()).is_some())
            }));
        }
        let few = payloads("a.test", 150, 7);
        assert_eq!(few.len(), 150);
        assert!(few.iter().any(|p| p.speaks == Speaks::Http2));
    }

    #[test]
    fn every_split_sends_every_byte_once() {
        for payload in payloads("a.test", 700, 1) {
            for split in Split::ALL {
                assert_eq!(payload.writes(split).concat(), payload.bytes, "{split:?}");
            }
        }
    }
}
