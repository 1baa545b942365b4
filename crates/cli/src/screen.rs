// SPDX-License-Identifier: Apache-2.0
//! What may reach a person's terminal from a sandbox. A streaming state machine after ECMA-48 and
//! xterm's control sequences: what is not on a list of harmless sequences is dropped whole.
//!
//! ```text
//!            ESC            [              final byte
//!  Ground ───────▶ Escape ─────▶ Control ─────────────▶ Ground   passed if listed
//!    ▲                │  ] P X ^ _ k
//!    │                └──────────▶ Text(OSC, DCS …) ──▶ Ground   always dropped
//!    └── BEL, ST, CAN, SUB, a C0 byte (OSC), or the bound ────┘
//! ```
//! A sequence is sent on only when it is complete, and always in its 7-bit form, so that the real
//! terminal is never left inside one. The terminal is taken to speak UTF-8.

mod decoder;
mod listed;

use decoder::{Decoder, Unit};
use std::collections::BTreeSet;

/// LIMIT: the longest useful control sequence is a colour list of some 60 bytes.
const SEQUENCE_BYTES_MAX: usize = 128;
/// LIMIT: a dropped string (title, image, clipboard) may be this long; then a person sees output
/// again. Nothing of it is kept, and the terminal never saw its beginning.
const DROPPED_BYTES_MAX: usize = 256 * 1024;

/// Filters one stream of terminal output.
#[derive(Debug, Default)]
pub(crate) struct Screen {
    decoder: Decoder,
    state: State,
    /// Private modes that the workload left set; see [`Screen::restore`].
    modes: BTreeSet<u16>,
    cursor_hidden: bool,
    wrap_off: bool,
    margins: bool,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    Ground,
    /// After ESC, with the intermediate bytes so far.
    Escape(Vec<u8>),
    /// Inside a control sequence; `None` once it is too long to be passed.
    Control(Option<Vec<u8>>),
    /// Inside a string that is dropped.
    Text(Dropping),
}

#[derive(Debug, Clone, Copy)]
struct Dropping {
    kind: Text,
    /// Units dropped so far.
    dropped: usize,
    /// The last unit was ESC: `\\` ends the string.
    escape: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Text {
    /// Operating system command: BEL ends it too, and no real one has a control byte inside.
    Osc,
    /// DCS, APC, PM, SOS, or a title of `screen`.
    Other,
}

impl Screen {
    /// Takes bytes of a workload and gives those that the terminal may have.
    pub(crate) fn filter(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(bytes.len());
        for &byte in bytes {
            if byte.is_ascii() && self.decoder.is_empty() {
                self.take(Unit::Ascii(byte), &mut out);
            } else {
                for unit in self.decoder.push(byte) {
                    self.take(unit, &mut out);
                }
            }
        }
        out
    }

    /// What puts the terminal back after the workload: leaves the modes that it had set.
    pub(crate) fn restore(&mut self) -> Vec<u8> {
        let mut out = Vec::new();
        for mode in std::mem::take(&mut self.modes) {
            out.extend_from_slice(format!("\x1b[?{mode}l").as_bytes());
        }
        if std::mem::take(&mut self.cursor_hidden) {
            out.extend_from_slice(b"\x1b[?25h");
        }
        if std::mem::take(&mut self.wrap_off) {
            out.extend_from_slice(b"\x1b[?7h");
        }
        if std::mem::take(&mut self.margins) {
            // Resetting them moves the cursor, so it is kept and put back.
            out.extend_from_slice(b"\x1b7\x1b[r\x1b8");
        }
        out
    }

    fn take(&mut self, unit: Unit, out: &mut Vec<u8>) {
        match std::mem::take(&mut self.state) {
            State::Ground => self.ground(unit, out),
            State::Escape(intermediates) => self.escape(intermediates, unit, out),
            State::Control(body) => self.control(body, unit, out),
            State::Text(dropping) => self.text(dropping, unit, out),
        }
    }

    fn ground(&mut self, unit: Unit, out: &mut Vec<u8>) {
        match unit {
            Unit::Ascii(0x1b) => self.state = State::Escape(Vec::new()),
            Unit::Ascii(byte) if listed::control_byte(byte) => out.push(byte),
            Unit::Ascii(_) => {}
            Unit::C1(byte) => self.c1(byte),
            Unit::Char(character) => {
                let mut utf8 = [0; 4];
                out.extend_from_slice(character.encode_utf8(&mut utf8).as_bytes());
            }
            Unit::Invalid => out.extend_from_slice("\u{fffd}".as_bytes()),
        }
    }

    /// An 8-bit control: only those that begin something matter, the others are dropped.
    fn c1(&mut self, byte: u8) {
        self.state = match byte {
            0x9b => State::Control(Some(Vec::new())),
            0x9d => text(Text::Osc),
            0x90 | 0x98 | 0x9e | 0x9f => text(Text::Other),
            _ => State::Ground,
        };
    }

    fn escape(&mut self, mut intermediates: Vec<u8>, unit: Unit, out: &mut Vec<u8>) {
        let Unit::Ascii(byte) = unit else {
            return self.ground(unit, out);
        };
        match (byte, intermediates.is_empty()) {
            (b'[', true) => self.state = State::Control(Some(Vec::new())),
            (b']', true) => self.state = text(Text::Osc),
            (b'P' | b'X' | b'^' | b'_' | b'k', true) => self.state = text(Text::Other),
            (0x20..=0x2f, _) if intermediates.len() < SEQUENCE_BYTES_MAX => {
                intermediates.push(byte);
                self.state = State::Escape(intermediates);
            }
            (0x30..=0x7e, _) => {
                if listed::escape(&intermediates, byte) {
                    out.push(0x1b);
                    out.extend_from_slice(&intermediates);
                    out.push(byte);
                }
            }
            // A control byte ends the sequence and counts for itself.
            _ => self.ground(unit, out),
        }
    }

    fn control(&mut self, body: Option<Vec<u8>>, unit: Unit, out: &mut Vec<u8>) {
        let Unit::Ascii(byte) = unit else {
            return self.ground(unit, out);
        };
        match byte {
            0x20..=0x3f => {
                let longer = body
                    .filter(|body| body.len() < SEQUENCE_BYTES_MAX)
                    .map(|mut body| {
                        body.push(byte);
                        body
                    });
                self.state = State::Control(longer);
            }
            0x40..=0x7e => {
                let passed = body.and_then(|body| listed::control_sequence(&body, byte));
                if let Some(passed) = passed {
                    self.note_modes(&passed);
                    out.extend_from_slice(b"\x1b[");
                    out.extend_from_slice(&passed);
                }
            }
            _ => self.ground(unit, out),
        }
    }

    fn note_modes(&mut self, passed: &[u8]) {
        if let [parameters @ .., b'r'] = passed {
            self.margins = !parameters.is_empty();
        }
        for (mode, set) in listed::private_modes(passed) {
            match (mode, set) {
                (25, set) => self.cursor_hidden = !set,
                (7, set) => self.wrap_off = !set,
                (1 | 5 | 6 | 47 | 69 | 1000..=2026, true) => {
                    self.modes.insert(mode);
                }
                (_, false) => {
                    self.modes.remove(&mode);
                }
                (_, true) => {}
            }
        }
    }

    fn text(&mut self, dropping: Dropping, unit: Unit, out: &mut Vec<u8>) {
        let more = |escape| {
            State::Text(Dropping {
                dropped: dropping.dropped + 1,
                escape,
                ..dropping
            })
        };
        let is_osc = dropping.kind == Text::Osc;
        match unit {
            Unit::Ascii(b'\\') if dropping.escape => {}
            Unit::C1(0x9c) | Unit::Ascii(0x18 | 0x1a) => {}
            // ESC and anything but `\` abandons the string and begins a sequence.
            _ if dropping.escape => self.escape(Vec::new(), unit, out),
            Unit::Ascii(0x1b) => self.state = more(true),
            Unit::Ascii(0x07) if is_osc => {}
            Unit::Ascii(0..=0x1f) if is_osc => self.ground(unit, out),
            _ if dropping.dropped >= DROPPED_BYTES_MAX => self.ground(unit, out),
            _ => self.state = more(false),
        }
    }
}

const fn text(kind: Text) -> State {
    State::Text(Dropping {
        kind,
        dropped: 0,
        escape: false,
    })
}

#[cfg(test)]
mod tests;
