// SPDX-License-Identifier: Apache-2.0
//! The answer of an endpoint that the binding says makes tokens (RFC 6749 §5.1): read whole as JSON
//! or as a form, in one way only, or refused. No token passes because it looked like none.

use super::super::answer::Answer;
use super::Value;
use super::text::{can_be_kept, canonical, in_json, in_text, is_form, is_json, is_value};
use crate::normalize::{JsonValue, percent_decoded, read_json};
use crate::refuse::Fault;
use torno_policy::placeholder::Placeholder;
use zeroize::Zeroizing;

/// Names whose value is a token; compared without case, `_` and `-`.
const TOKENS: [&str; 3] = ["accesstoken", "refreshtoken", "idtoken"];

/// Whether the answer is read. One that grants must be readable; one that refuses may be any page.
pub(super) fn is_read(answer: &Answer) -> Result<bool, Fault> {
    let mut kinds = answer.head.values("content-type");
    let kind = kinds.next();
    let is_one = kind.is_some_and(|kind| is_json(kind) || is_form(kind)) && kinds.next().is_none();
    let grants = (200..300).contains(&answer.status);
    if answer.body.is_over() {
        return Ok(false);
    }
    if !is_one && grants {
        return Err(Fault::answer(
            "the token endpoint's answer is neither JSON nor a form, so its tokens can't be kept: \
             ask for JSON (`Accept: application/json`)",
        ));
    }
    Ok(is_one)
}

/// The refusal of an answer that is longer than what is read of one.
pub(super) fn too_long() -> Fault {
    Fault::answer("the token endpoint's answer is over 64 KiB, so its tokens can't be kept")
}

/// The values of an answer that was read whole.
pub(super) fn read(answer: &Answer, body: &[u8]) -> Result<Vec<Value>, Fault> {
    if answer.head.values("content-type").any(is_json) {
        let whole = read_json(body).map_err(|_| {
            Fault::answer(
                "the token endpoint's answer is not one JSON text with each member once, so its \
                 tokens can't be kept",
            )
        })?;
        check(&whole)?;
        Ok(in_json(body))
    } else {
        in_form(body)
    }
}

/// Every token of the text is one that can be kept.
fn check(value: &JsonValue) -> Result<(), Fault> {
    match value {
        JsonValue::Object(members) => members.iter().try_for_each(|(name, value)| {
            if is_token(name.as_bytes()) {
                check_token(value)
            } else {
                check(value)
            }
        }),
        JsonValue::Array(values) => values.iter().try_for_each(check),
        JsonValue::Null | JsonValue::Text(_) | JsonValue::Scalar => Ok(()),
    }
}

fn check_token(value: &JsonValue) -> Result<(), Fault> {
    match value {
        JsonValue::Null => Ok(()),
        JsonValue::Text(text) if is_kept(text.as_bytes()) => Ok(()),
        JsonValue::Text(_) | JsonValue::Array(_) => Err(unkept()),
        JsonValue::Object(_) | JsonValue::Scalar => Err(unkept()),
    }
}

/// Nothing, one of ours, or what can be searched for and sent.
fn is_kept(token: &[u8]) -> bool {
    let is_sent = is_value(token) && can_be_kept(token);
    let ours = std::str::from_utf8(token).ok().and_then(Placeholder::parse);
    token.is_empty() || is_sent || ours.is_some()
}

fn is_token(name: &[u8]) -> bool {
    let name = canonical(name);
    TOKENS.iter().any(|known| known.as_bytes() == name)
}

fn unkept() -> Fault {
    Fault::answer(
        "a token of the answer has not 12 to 8192 visible characters, so it can't be kept",
    )
}

/// The tokens of a form, and what looks like a credential elsewhere in it.
fn in_form(body: &[u8]) -> Result<Vec<Value>, Fault> {
    let text = std::str::from_utf8(body).map_err(|_| not_a_form())?;
    let text = text.trim_ascii_end();
    if !text.bytes().all(|b| b.is_ascii_graphic()) {
        return Err(not_a_form());
    }
    let (mut found, mut seen, mut at) = (Vec::new(), Vec::new(), 0);
    for pair in text.split('&') {
        let start = at;
        at += pair.len() + 1;
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let name = canonical(&decoded(name));
        let Some(known) = TOKENS.iter().find(|known| known.as_bytes() == name) else {
            continue;
        };
        let token = Zeroizing::new(decoded(value));
        if seen.contains(known) || !is_kept(&token) {
            return Err(if seen.contains(known) {
                not_a_form()
            } else {
                unkept()
            });
        }
        seen.push(known);
        if is_value(&token) {
            let end = start + pair.len();
            found.push(Value {
                place: end - value.len()..end,
                value: token,
                is_refresh: *known == "refreshtoken",
            });
        }
    }
    let is_apart = |value: &Value| {
        let mut places = found.iter().map(|known: &Value| &known.place);
        places.all(|known| value.place.end <= known.start || known.end <= value.place.start)
    };
    let others: Vec<Value> = in_text(body).into_iter().filter(is_apart).collect();
    found.extend(others);
    found.sort_by_key(|value| value.place.start);
    Ok(found)
}

fn decoded(text: &str) -> Vec<u8> {
    percent_decoded(&text.replace('+', " "))
}

fn not_a_form() -> Fault {
    Fault::answer(
        "the token endpoint's answer is not one form with each token once, so its tokens can't be \
         kept",
    )
}

#[cfg(test)]
mod tests;
