// SPDX-License-Identifier: Apache-2.0
//! Placeholders that a client wrapped in an encoding, so that none slips by a plain search.
//! Each view of the text is at most as long as the text, and there is a fixed number of them.

use super::{PLACEHOLDER_BYTES_MAX, Placeholder, SHAPE_BYTES_MAX};
use data_encoding::BASE64_NOPAD;
use std::collections::HashSet;

pub(super) fn find(text: &[u8]) -> Vec<Placeholder> {
    let mut found = Vec::new();
    let mut seen = HashSet::new();
    let decoded = [percent_decoded(text), json_unescaped(text)];
    let views = std::iter::once(text).chain(decoded.iter().flatten().map(Vec::as_slice));
    for view in views {
        let runs = base64_runs(view).flat_map(base64_readings);
        let inner = runs.flat_map(|reading| Placeholder::find_all(&reading));
        for (_, placeholder) in Placeholder::find_all(view).into_iter().chain(inner) {
            if seen.insert(placeholder.clone()) {
                found.push(placeholder);
            }
        }
    }
    found
}

/// The text with every `%XX` decoded once; nothing when it has none.
fn percent_decoded(text: &[u8]) -> Option<Vec<u8>> {
    let hex = |at: usize| text.get(at).copied().and_then(hex_value);
    unescaped(text, b'%', |at| Some((3, hex(at + 1)? * 16 + hex(at + 2)?)))
}

/// The text with every JSON escape of an ASCII character decoded; nothing when it has none.
fn json_unescaped(text: &[u8]) -> Option<Vec<u8>> {
    let hex = |at: usize| text.get(at).copied().and_then(hex_value);
    unescaped(text, b'\\', |at| match text.get(at + 1)? {
        b'u' if hex(at + 2)? == 0 && hex(at + 3)? == 0 => {
            Some((6, hex(at + 4)? * 16 + hex(at + 5)?))
        }
        // Any other escape stands for a byte that no placeholder has.
        _ => Some((2, b' ')),
    })
}

/// Replaces what `read` makes of each `mark`: how many bytes to skip, and the byte they mean.
fn unescaped(
    text: &[u8],
    mark: u8,
    read: impl Fn(usize) -> Option<(usize, u8)>,
) -> Option<Vec<u8>> {
    if !text.contains(&mark) {
        return None;
    }
    let mut decoded = Vec::with_capacity(text.len());
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        let (skip, meant) = if byte == mark { read(at) } else { None }.unwrap_or((1, byte));
        decoded.push(meant);
        at += skip;
    }
    Some(decoded)
}

fn hex_value(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    }
}

/// The runs of base64 characters that are long enough to hold a placeholder.
fn base64_runs(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let shortest = PLACEHOLDER_BYTES_MAX - SHAPE_BYTES_MAX;
    text.split(|b| !b.is_ascii_alphanumeric() && !matches!(b, b'+' | b'/' | b'-' | b'_'))
        .filter(move |run| run.len() >= shortest * 4 / 3)
}

/// What a run means in base64, whichever alphabet it uses and whatever was glued to its front.
fn base64_readings(run: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    let standard: Vec<u8> = run
        .iter()
        .map(|b| match b {
            b'-' => b'+',
            b'_' => b'/',
            other => *other,
        })
        .collect();
    (0..4).filter_map(move |alignment| {
        let aligned = standard.get(alignment..)?;
        // Whole groups of four always decode; the rest is handled with its spare bits dropped.
        let whole = aligned.len() - aligned.len() % 4;
        let mut reading = BASE64_NOPAD.decode(aligned.get(..whole)?).ok()?;
        reading.extend(base64_tail(aligned.get(whole..)?));
        Some(reading)
    })
}

/// The one or two bytes of a last group of two or three characters.
fn base64_tail(tail: &[u8]) -> Vec<u8> {
    let mut group = tail.to_vec();
    group.resize(4, b'A');
    let mut bytes = BASE64_NOPAD.decode(&group).unwrap_or_default();
    bytes.truncate(tail.len().saturating_sub(1));
    bytes
}
