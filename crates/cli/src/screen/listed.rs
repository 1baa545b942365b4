// SPDX-License-Identifier: Apache-2.0
//! The lists of what passes: sequences that move, colour, clear and scroll. What makes a terminal
//! answer, name its window, print, touch the clipboard or change its character set is on none.

/// Bytes below 0x80 that pass outside a sequence. ENQ (answer-back) is among those that don't.
pub(super) const fn control_byte(byte: u8) -> bool {
    matches!(byte, 0x07..=0x0f | 0x20..=0x7e)
}

/// Escape sequences without a parameter: save and restore, keypad, index, tab stop, reset, single
/// shifts, line-drawing sets. Not DECID (`Z`), S8C1T (`SP G`), or `%` (leaves UTF-8).
pub(super) fn escape(intermediates: &[u8], last: u8) -> bool {
    match intermediates {
        [] => matches!(
            last,
            b'7' | b'8' | b'=' | b'>' | b'D' | b'E' | b'H' | b'M' | b'N' | b'O' | b'c'
        ),
        [b'(' | b')' | b'*' | b'+'] => matches!(last, b'0' | b'A' | b'B'),
        [b'#'] => matches!(last, b'3'..=b'6' | b'8'),
        _ => false,
    }
}

/// A control sequence as it may be sent on, without its introducer; `None` when it may not.
pub(super) fn control_sequence(body: &[u8], last: u8) -> Option<Vec<u8>> {
    let parameters = body
        .iter()
        .position(|byte| !(0x30..=0x3f).contains(byte))
        .unwrap_or(body.len());
    let (parameters, intermediates) = body.split_at_checked(parameters)?;
    let numbers_only = |text: &[u8]| {
        text.iter()
            .all(|byte| matches!(byte, b'0'..=b'9' | b';' | b':'))
    };
    match (parameters, intermediates) {
        ([b'?', modes @ ..], []) if matches!(last, b'h' | b'l') => private(modes, last),
        ([b'?', rest @ ..], []) => {
            let erases = matches!(last, b'J' | b'K') && numbers_only(rest);
            erases.then(|| whole(body, last))
        }
        (_, []) if numbers_only(parameters) => plain(parameters, last).then(|| whole(body, last)),
        ([], [b'!']) if last == b'p' => Some(whole(body, last)),
        (_, [b' ']) if last == b'q' && numbers_only(parameters) => Some(whole(body, last)),
        _ => None,
    }
}

/// The private modes that a passed sequence sets or resets.
pub(super) fn private_modes(passed: &[u8]) -> Vec<(u16, bool)> {
    match passed {
        [b'?', modes @ .., last @ (b'h' | b'l')] => {
            numbers(modes).map(|mode| (mode, *last == b'h')).collect()
        }
        _ => Vec::new(),
    }
}

fn plain(parameters: &[u8], last: u8) -> bool {
    match last {
        b'@'..=b'M' | b'P' | b'S' | b'T' | b'X' | b'Z' | b'`' | b'a' | b'b' | b'd'..=b'g' => true,
        // Colours, margins, save and restore of the cursor.
        b'm' | b'r' | b's' | b'u' => true,
        // Insert mode and new-line mode; keyboard lock (2) and the others stay out.
        b'h' | b'l' => numbers(parameters).all(|mode| matches!(mode, 4 | 20)),
        _ => false,
    }
}

/// Keeps the private modes that full-screen programs need.
fn private(modes: &[u8], last: u8) -> Option<Vec<u8>> {
    let kept: Vec<String> = numbers(modes)
        .filter(|mode| {
            matches!(
                mode,
                1 | 5
                    | 6
                    | 7
                    | 12
                    | 25
                    | 45
                    | 47
                    | 66
                    | 69
                    | 1000
                    | 1002
                    | 1003
                    | 1004
                    | 1005
                    | 1006
                    | 1007
                    | 1015
                    | 1047
                    | 1048
                    | 1049
                    | 2004
                    | 2026
            )
        })
        .map(|mode| mode.to_string())
        .collect();
    if kept.is_empty() {
        return None;
    }
    let mut sequence = vec![b'?'];
    sequence.extend_from_slice(kept.join(";").as_bytes());
    sequence.push(last);
    Some(sequence)
}

/// The numbers of a parameter list; one that is no number counts as a mode nobody has.
fn numbers(parameters: &[u8]) -> impl Iterator<Item = u16> + '_ {
    parameters
        .split(|byte| *byte == b';')
        .map(|number| std::str::from_utf8(number).ok())
        .map(|number| number.and_then(|n| n.parse().ok()).unwrap_or(u16::MAX))
}

fn whole(body: &[u8], last: u8) -> Vec<u8> {
    let mut sequence = body.to_vec();
    sequence.push(last);
    sequence
}
