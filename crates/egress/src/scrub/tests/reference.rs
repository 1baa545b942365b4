// SPDX-License-Identifier: Apache-2.0
//! The slow reference of the scrubber: every run of 12 bytes in every encoding is a text of its
//! own, and every place is tried. It shares no code with what it is compared with; its faults are
//! there to show that a comparison notices them.

use data_encoding::{BASE64, BASE64URL};
use std::collections::HashMap;

/// One clause gone wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    None,
    RunOfThirteen,
    EncodingForgotten(usize),
    ThirdAlignmentForgotten,
    ShortestWins,
    FindsStandAlone,
    WholeIsOneShorter,
    LaterSecretWins,
    LastSecretForgotten,
}

/// An encoding by its name, and how it writes a byte.
type Encoding = (&'static str, fn(u8) -> String);

/// The encodings that work byte by byte, in the order in which they are preferred.
pub(super) const ENCODINGS: [Encoding; 18] = [
    ("plain", |b| char::from(b).to_string()),
    ("hex", |b| format!("{b:02x}")),
    ("HEX", |b| format!("{b:02X}")),
    ("percent", |b| format!("%{b:02x}")),
    ("PERCENT", |b| format!("%{b:02X}")),
    ("url", |b| unless(is_unreserved(b), b, format!("%{b:02x}"))),
    ("URL", |b| unless(is_unreserved(b), b, format!("%{b:02X}"))),
    ("form", |b| match b {
        b' ' => "+".to_owned(),
        _ => unless(is_unreserved(b), b, format!("%{b:02X}")),
    }),
    ("json \\u", |b| format!("\\u{b:04x}")),
    ("JSON \\u", |b| format!("\\u{b:04X}")),
    ("json", |b| unless(!b"\"\\".contains(&b), b, backslashed(b))),
    ("json /", |b| {
        unless(!b"\"\\/".contains(&b), b, backslashed(b))
    }),
    ("json in html", |b| match b {
        b'<' | b'>' | b'&' | b'\'' => format!("\\u{b:04x}"),
        _ => unless(!b"\"\\".contains(&b), b, backslashed(b)),
    }),
    ("JSON in html", |b| match b {
        b'<' | b'>' | b'&' | b'\'' => format!("\\u{b:04X}"),
        _ => unless(!b"\"\\".contains(&b), b, backslashed(b)),
    }),
    ("html", |b| entity(b, "&#39;")),
    ("html x", |b| entity(b, "&#x27;")),
    ("decimal", |b| format!("&#{b};")),
    ("hexadecimal", |b| format!("&#x{b:02x};")),
];

fn unless(plain: bool, byte: u8, escaped: String) -> String {
    if plain {
        char::from(byte).to_string()
    } else {
        escaped
    }
}

fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~".contains(&byte)
}

fn backslashed(byte: u8) -> String {
    format!("\\{}", char::from(byte))
}

fn entity(byte: u8, apostrophe: &str) -> String {
    match byte {
        b'&' => "&amp;".to_owned(),
        b'<' => "&lt;".to_owned(),
        b'>' => "&gt;".to_owned(),
        b'"' => "&quot;".to_owned(),
        b'\'' => apostrophe.to_owned(),
        _ => char::from(byte).to_string(),
    }
}

/// Bytes in the encoding of this number.
pub(super) fn encoded(encoding: usize, bytes: &[u8]) -> Vec<u8> {
    let (_, spell) = ENCODINGS[encoding];
    bytes.iter().flat_map(|b| spell(*b).into_bytes()).collect()
}

/// What base64 makes of bytes that stand `alignment` bytes into a group of three, whatever is
/// before and behind them: the characters that do not change with it.
fn base64(bytes: &[u8], alignment: usize, url: bool) -> Vec<u8> {
    let alphabet = if url { BASE64URL } else { BASE64 };
    let around = |fill: u8| {
        // Whole groups, so that nothing is padded.
        let behind = 6 - (alignment + bytes.len()) % 3;
        let text = [&vec![fill; alignment], bytes, &vec![fill; behind]].concat();
        alphabet.encode(&text).into_bytes()
    };
    let both = std::iter::zip(around(0), around(0xff));
    both.filter_map(|(a, b)| (a == b).then_some(a)).collect()
}

/// A text that must not come through.
struct Window {
    text: Vec<u8>,
    owner: usize,
    /// A find from here on, at least this long, is the whole value.
    whole: usize,
}

pub(super) struct Reference {
    windows: Vec<Window>,
    /// By their first four bytes.
    fronts: HashMap<[u8; 4], Vec<usize>>,
    placeholders: Vec<String>,
    fault: Fault,
}

/// A stretch of a text that is replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stretch {
    pub(super) start: usize,
    pub(super) end: usize,
    window: usize,
}

impl Reference {
    pub(super) fn new(secrets: &[(Vec<u8>, String)], fault: Fault) -> Self {
        let mut made = Self {
            windows: Vec::new(),
            fronts: HashMap::new(),
            placeholders: secrets.iter().map(|(_, p)| p.clone()).collect(),
            fault,
        };
        let known = match fault {
            Fault::LastSecretForgotten => secrets.len() - 1,
            _ => secrets.len(),
        };
        for (owner, (value, _)) in secrets.iter().enumerate().take(known) {
            made.add_secret(owner, value);
        }
        for (at, window) in made.windows.iter().enumerate() {
            let front = *window.text.first_chunk().unwrap();
            made.fronts.entry(front).or_default().push(at);
        }
        made
    }

    fn add_secret(&mut self, owner: usize, value: &[u8]) {
        let run = if self.fault == Fault::RunOfThirteen {
            13
        } else {
            12
        };
        let mut add = |whole: usize, texts: Vec<Vec<u8>>| {
            let window = |text| Window { text, owner, whole };
            self.windows.extend(texts.into_iter().map(window));
        };
        for encoding in 0..ENCODINGS.len() {
            if self.fault != Fault::EncodingForgotten(encoding) {
                let texts = value.windows(run).map(|run| encoded(encoding, run));
                add(encoded(encoding, value).len(), texts.collect());
            }
        }
        for url in [false, true] {
            let alignments = if self.fault == Fault::ThirdAlignmentForgotten {
                2
            } else {
                3
            };
            for alignment in 0..alignments {
                let runs = value.windows(run).enumerate();
                let texts = runs.map(|(at, run)| base64(run, (alignment + at) % 3, url));
                add(base64(value, alignment, url).len(), texts.collect());
            }
        }
    }

    /// The stretches that are replaced.
    pub(super) fn stretches(&self, text: &[u8]) -> Vec<Stretch> {
        let mut found: Vec<Stretch> = Vec::new();
        for start in 0..text.len() {
            let Some(window) = self.at(&text[start..]) else {
                continue;
            };
            let end = start + self.windows[window].text.len();
            match found.last_mut() {
                Some(open) if start < open.end => {
                    if self.fault != Fault::FindsStandAlone {
                        open.end = open.end.max(end);
                    }
                }
                _ => found.push(Stretch { start, end, window }),
            }
        }
        found
    }

    /// The window that `rest` starts with: the longest, and of equal ones the first.
    fn at(&self, rest: &[u8]) -> Option<usize> {
        let alike = self.fronts.get(rest.first_chunk::<4>()?)?;
        let here = alike.iter().copied();
        let here = here.filter(|at| rest.starts_with(&self.windows[*at].text));
        let length = |at: &usize| self.windows[*at].text.len();
        match self.fault {
            Fault::ShortestWins => here.min_by_key(length),
            Fault::LaterSecretWins => here.max_by_key(length),
            _ => here.first_max_by_key(length),
        }
    }

    /// What stands instead of a stretch, and whether it stands for a whole value.
    pub(super) fn replacement(&self, stretch: &Stretch) -> (&str, bool) {
        let window = &self.windows[stretch.window];
        let less = usize::from(self.fault == Fault::WholeIsOneShorter);
        if stretch.end - stretch.start + less >= window.whole {
            (&self.placeholders[window.owner], true)
        } else {
            ("[redacted]", false)
        }
    }

    pub(super) fn scrub(&self, text: &[u8]) -> Vec<u8> {
        let (mut out, mut done) = (Vec::new(), 0);
        for stretch in self.stretches(text) {
            out.extend_from_slice(&text[done..stretch.start]);
            out.extend_from_slice(self.replacement(&stretch).0.as_bytes());
            done = stretch.end;
        }
        out.extend_from_slice(&text[done..]);
        out
    }
}

trait FirstMax: Iterator<Item = usize> + Sized {
    /// The first of the largest; the standard library's is the last.
    fn first_max_by_key(self, key: impl Fn(&usize) -> usize) -> Option<usize> {
        self.reduce(|best, next| if key(&next) > key(&best) { next } else { best })
    }
}

impl<I: Iterator<Item = usize>> FirstMax for I {}
