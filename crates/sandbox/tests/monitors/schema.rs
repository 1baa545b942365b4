// SPDX-License-Identifier: Apache-2.0
//! Field lists, and whether a body keeps to one.

use serde_json::Value;
use std::ops::RangeInclusive;

/// What a field holds.
#[derive(Debug)]
pub(crate) enum Kind {
    Text,
    Flag,
    Integer(RangeInclusive<i64>),
    OneOf(&'static [&'static str]),
    Object(&'static [Field]),
    List(&'static Kind),
}

/// One field of a body.
#[derive(Debug)]
pub(crate) struct Field {
    name: &'static str,
    kind: Kind,
    is_required: bool,
}

/// One that has to be there.
pub(crate) const fn required(name: &'static str, kind: Kind) -> Field {
    Field {
        name,
        kind,
        is_required: true,
    }
}

/// One that may be left out.
pub(crate) const fn optional(name: &'static str, kind: Kind) -> Field {
    Field {
        name,
        kind,
        is_required: false,
    }
}

/// Any whole number that is not negative.
pub(crate) const COUNT: Kind = Kind::Integer(0..=i64::MAX);
/// One at least.
pub(crate) const POSITIVE: Kind = Kind::Integer(1..=i64::MAX);

/// Whether a body is an object of these fields and no others.
pub(crate) fn check(fields: &[Field], body: &Value) -> Result<(), String> {
    let object = body.as_object().ok_or("not an object")?;
    for name in object.keys() {
        if !fields.iter().any(|field| field.name == name) {
            return Err(format!("unknown field {name}"));
        }
    }
    for field in fields {
        match object.get(field.name) {
            Some(value) => {
                holds(&field.kind, value).map_err(|error| format!("{}: {error}", field.name))?
            }
            None if field.is_required => return Err(format!("missing field {}", field.name)),
            None => {}
        }
    }
    Ok(())
}

fn holds(kind: &Kind, value: &Value) -> Result<(), String> {
    let holds = match kind {
        Kind::Text => value.is_string(),
        Kind::Flag => value.is_boolean(),
        Kind::Integer(range) => value.as_i64().is_some_and(|number| range.contains(&number)),
        Kind::OneOf(words) => value.as_str().is_some_and(|word| words.contains(&word)),
        Kind::Object(fields) => return check(fields, value),
        Kind::List(kind) => {
            let list = value.as_array().ok_or("not a list")?;
            return list.iter().try_for_each(|value| holds(kind, value));
        }
    };
    if holds {
        Ok(())
    } else {
        Err(format!("{value} is not {kind:?}"))
    }
}
