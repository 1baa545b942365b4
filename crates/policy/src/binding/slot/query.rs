// SPDX-License-Identifier: Apache-2.0
//! One parameter of a query, or one field of a form. Servers split and name them differently, so a
//! name counts in one spelling, and whatever some server could read as a second occurrence refuses
//! the request.

use super::Held;
use crate::names::CREDENTIAL_WORD;
use std::ops::Range;

/// Where the parameter stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Parameter {
    /// Nowhere.
    Absent,
    /// The pair's bytes, and those of its value; no value when there is no `=`.
    Once(Range<usize>, Option<Range<usize>>),
    /// Twice, or in a spelling that only some servers read as this one.
    Twice,
}

pub(super) fn held(query: Option<&str>, parameter: &str) -> Held {
    let query = query.unwrap_or_default();
    match self::parameter(query, parameter) {
        Parameter::Absent | Parameter::Once(_, None) => Held::Nothing,
        Parameter::Twice => Held::Twice,
        Parameter::Once(_, Some(value)) => match query.get(value) {
            Some("") => Held::Nothing,
            Some(CREDENTIAL_WORD) => Held::Placeholder,
            _ => Held::Own,
        },
    }
}

/// The query's bytes before and after the value.
pub(super) fn fill(query: Option<&str>, parameter: &str) -> Option<(String, String)> {
    let query = query.unwrap_or_default();
    let cut = |before: usize, after: usize| Some((query.get(..before)?, query.get(after..)?));
    match self::parameter(query, parameter) {
        Parameter::Twice => None,
        Parameter::Once(_, Some(value)) => {
            let (before, after) = cut(value.start, value.end)?;
            Some((before.to_owned(), after.to_owned()))
        }
        Parameter::Once(pair, None) => {
            let (before, after) = cut(pair.end, pair.end)?;
            Some((format!("{before}="), after.to_owned()))
        }
        Parameter::Absent => {
            let between = if query.is_empty() { "" } else { "&" };
            Some((format!("{query}{between}{parameter}="), String::new()))
        }
    }
}

/// Finds the parameter among `name=value` pairs with `&` between them.
///
/// ATTACK: 086 – one place, in one spelling.
#[must_use]
pub fn parameter(query: &str, parameter: &str) -> Parameter {
    let mut found = Parameter::Absent;
    let mut start = 0;
    for pair in query.split('&') {
        let end = start + pair.len();
        if pair.split(';').any(|piece| may_mean(piece, parameter)) {
            let name = pair.find('=').map_or(pair.len(), |at| at);
            let is_plain = pair.get(..name) == Some(parameter) && !pair.contains(';');
            if !is_plain || !matches!(found, Parameter::Absent) {
                return Parameter::Twice;
            }
            let value = (name < pair.len()).then(|| start + name + 1..end);
            found = Parameter::Once(start..end, value);
        }
        start = end + 1;
    }
    found
}

/// The name of each pair as the most forgiving server reads it.
pub(super) fn names(query: &str) -> impl Iterator<Item = Vec<u8>> {
    query.split(['&', ';']).map(|pair| {
        let name = pair.split('=').next().unwrap_or_default();
        fold_bytes(&percent_decoded(&percent_decoded(name.as_bytes())))
    })
}

/// Whether some server could take this pair, or this name, for the parameter.
#[must_use]
pub fn may_mean(pair: &str, parameter: &str) -> bool {
    let name = pair.split('=').next().unwrap_or_default();
    let wanted = fold(parameter);
    let once = percent_decoded(name.as_bytes());
    let twice = percent_decoded(&once);
    [name.as_bytes(), &once, &twice]
        .into_iter()
        .any(|reading| fold_bytes(reading) == wanted)
}

/// A name as the most forgiving server reads it: without case, spaces before it and array brackets
/// after it, and with `.`, ` `, `+` and `-` for `_`.
pub(in crate::binding) fn fold(name: &str) -> Vec<u8> {
    fold_bytes(name.as_bytes())
}

fn fold_bytes(name: &[u8]) -> Vec<u8> {
    let is_space = |b: &u8| matches!(b, b' ' | b'+' | b'\t' | b'\r' | b'\n');
    name.iter()
        .skip_while(|b| is_space(b))
        .take_while(|b| !matches!(b, b'[' | 0))
        .map(|b| match b {
            b'.' | b' ' | b'+' | b'-' => b'_',
            other => other.to_ascii_lowercase(),
        })
        .collect()
}

/// Every `%XX` decoded once.
fn percent_decoded(text: &[u8]) -> Vec<u8> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut at = 0;
    let digit = |at: usize| {
        let digit = text.get(at).map(|b| char::from(*b).to_digit(16));
        digit.flatten().and_then(|value| u8::try_from(value).ok())
    };
    while let Some(byte) = text.get(at) {
        match (byte, digit(at + 1), digit(at + 2)) {
            (b'%', Some(high), Some(low)) => {
                decoded.push(high * 16 + low);
                at += 3;
            }
            _ => {
                decoded.push(*byte);
                at += 1;
            }
        }
    }
    decoded
}
