// SPDX-License-Identifier: Apache-2.0
//! Typed access to TOML values that keeps their places. A table is opened with the keys it may
//! have; any other key is an error, at once.

use super::DocumentError;
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

pub(super) type Value<'t> = Spanned<DeValue<'t>>;

/// An error at a place.
pub(super) fn fail<T>(span: Range<usize>, message: impl Into<String>) -> Result<T, DocumentError> {
    Err(DocumentError {
        message: message.into(),
        span: Some(span),
    })
}

/// A table whose keys are all known.
#[derive(Debug, Clone)]
pub(super) struct Fields<'a, 't> {
    table: &'a DeTable<'t>,
    pub(super) span: Range<usize>,
}

impl<'a, 't> Fields<'a, 't> {
    /// Opens a value that must be a table with no other than the `known` keys.
    pub(super) fn of(value: &'a Value<'t>, known: &[&str]) -> Result<Self, DocumentError> {
        match value.get_ref() {
            DeValue::Table(table) => Self::of_table(table, value.span(), known),
            other => fail(
                value.span(),
                format!("a table belongs here, not {}", kind(other)),
            ),
        }
    }

    pub(super) fn of_table(
        table: &'a DeTable<'t>,
        span: Range<usize>,
        known: &[&str],
    ) -> Result<Self, DocumentError> {
        for key in table.keys() {
            if !known.contains(&key.get_ref().as_ref()) {
                let expected = known.join("`, `");
                let message = format!("unknown key; the keys here are `{expected}`");
                return fail(key.span(), message);
            }
        }
        Ok(Self { table, span })
    }

    pub(super) fn get(&self, key: &str) -> Option<&'a Value<'t>> {
        self.table.get(key)
    }

    pub(super) fn require(&self, key: &str) -> Result<&'a Value<'t>, DocumentError> {
        match self.get(key) {
            Some(value) => Ok(value),
            None => fail(self.span.clone(), format!("`{key}` is missing")),
        }
    }

    /// A boolean; absent is false.
    pub(super) fn flag(&self, key: &str) -> Result<bool, DocumentError> {
        match self.get(key).map(|value| (value.get_ref(), value.span())) {
            None => Ok(false),
            Some((DeValue::Boolean(flag), _)) => Ok(*flag),
            Some((other, span)) => fail(
                span,
                format!("true or false belongs here, not {}", kind(other)),
            ),
        }
    }

    /// One of two words; absent is the second.
    pub(super) fn allows(&self, key: &str) -> Result<bool, DocumentError> {
        match self.get(key) {
            None => Ok(false),
            Some(value) => word(value, &[("allow", true), ("deny", false)]),
        }
    }
}

/// One entry of a table whose keys are names.
#[derive(Debug)]
pub(super) struct Entry<'a, 't> {
    pub(super) key: &'a str,
    /// The place of the key.
    pub(super) span: Range<usize>,
    pub(super) value: &'a Value<'t>,
}

/// The entries of a table whose keys are names, sorted by them.
pub(super) fn entries<'a, 't>(value: &'a Value<'t>) -> Result<Vec<Entry<'a, 't>>, DocumentError> {
    match value.get_ref() {
        DeValue::Table(table) => {
            let entry = |(key, value): (&'a Spanned<_>, _)| {
                let name: &'a std::borrow::Cow<'t, str> = key.get_ref();
                Entry {
                    key: name.as_ref(),
                    span: key.span(),
                    value,
                }
            };
            Ok(table.iter().map(entry).collect())
        }
        other => fail(
            value.span(),
            format!("a table belongs here, not {}", kind(other)),
        ),
    }
}

pub(super) fn text<'a>(value: &'a Value<'_>) -> Result<&'a str, DocumentError> {
    match value.get_ref() {
        DeValue::String(text) => Ok(text),
        other => fail(
            value.span(),
            format!("a text in quotes belongs here, not {}", kind(other)),
        ),
    }
}

pub(super) fn list<'a, 't>(value: &'a Value<'t>) -> Result<Vec<&'a Value<'t>>, DocumentError> {
    match value.get_ref() {
        DeValue::Array(items) => Ok(items.iter().collect()),
        other => fail(
            value.span(),
            format!("a list in brackets belongs here, not {}", kind(other)),
        ),
    }
}

/// A list with at least one entry, each read by `read`, none twice.
pub(super) fn some_of<T: PartialEq>(
    value: &Value<'_>,
    read: impl Fn(&Value<'_>) -> Result<T, DocumentError>,
) -> Result<Vec<T>, DocumentError> {
    let mut found: Vec<T> = Vec::new();
    for item in list(value)? {
        let one = read(item)?;
        if found.contains(&one) {
            return fail(item.span(), "listed twice; remove one");
        }
        found.push(one);
    }
    if found.is_empty() {
        return fail(
            value.span(),
            "an empty list allows nothing; name at least one or remove the key",
        );
    }
    Ok(found)
}

/// One word of a closed set.
pub(super) fn word<T: Copy>(value: &Value<'_>, words: &[(&str, T)]) -> Result<T, DocumentError> {
    let given = text(value)?;
    match words.iter().find(|(word, _)| *word == given) {
        Some((_, meaning)) => Ok(*meaning),
        None => {
            let known: Vec<_> = words.iter().map(|(word, _)| *word).collect();
            fail(
                value.span(),
                format!("one of `{}` belongs here", known.join("`, `")),
            )
        }
    }
}

/// A whole number that is not negative.
pub(super) fn whole(value: &Value<'_>) -> Result<u64, DocumentError> {
    let number = match value.get_ref() {
        DeValue::Integer(number) => u64::from_str_radix(number.as_str(), number.radix()).ok(),
        _ => None,
    };
    match number {
        Some(number) => Ok(number),
        None => fail(
            value.span(),
            "a whole number from 1 belongs here, without sign or quotes",
        ),
    }
}

pub(super) fn kind(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a text",
        DeValue::Integer(_) | DeValue::Float(_) => "a number",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}
