// SPDX-License-Identifier: Apache-2.0
//! `[tool]`: rules beyond the shipped table.

use super::DocumentError;
use super::fields::{Entry, Fields, Value, entries, fail, kind, word};
use crate::grant::{ToolPattern, ToolRule, Verdict};
use crate::names::ToolName;
use std::ops::Range;
use toml::de::DeValue;

pub(super) fn read(value: Option<&Value<'_>>) -> Result<Vec<ToolRule>, DocumentError> {
    let mut rules = Vec::new();
    for Entry {
        key: name,
        span,
        value,
    } in value.map(entries).transpose()?.unwrap_or_default()
    {
        let tool = pattern(name, span)?;
        let (verdict, when) = match value.get_ref() {
            DeValue::String(_) => (verdict(value)?, Vec::new()),
            _ => conditional(value)?,
        };
        rules.push(ToolRule {
            tool,
            verdict,
            when,
        });
    }
    Ok(rules)
}

fn verdict(value: &Value<'_>) -> Result<Verdict, DocumentError> {
    word(
        value,
        &[
            ("allow", Verdict::Allow),
            ("ask", Verdict::Ask),
            ("deny", Verdict::Deny),
        ],
    )
}

fn conditional(
    value: &Value<'_>,
) -> Result<(Verdict, Vec<(String, serde_json::Value)>), DocumentError> {
    let fields = Fields::of(value, &["trust", "when"])?;
    let verdict = verdict(fields.require("trust")?)?;
    let Some(when) = fields.get("when") else {
        return Ok((verdict, Vec::new()));
    };
    let when = Fields::of(when, &["args"])?;
    let mut conditions = Vec::new();
    for Entry {
        key: name, value, ..
    } in entries(when.require("args")?)?
    {
        conditions.push((name.to_owned(), exact(value)?));
    }
    if conditions.is_empty() {
        return fail(
            when.span,
            "`args` names no argument; remove `when` or name one",
        );
    }
    Ok((verdict, conditions))
}

/// A value that an argument is compared with, exactly.
fn exact(value: &Value<'_>) -> Result<serde_json::Value, DocumentError> {
    match value.get_ref() {
        DeValue::String(text) => Ok(text.as_ref().into()),
        DeValue::Boolean(flag) => Ok((*flag).into()),
        DeValue::Integer(number) => match i64::from_str_radix(number.as_str(), number.radix()) {
            Ok(number) => Ok(number.into()),
            Err(_) => fail(value.span(), "this number is too large to compare exactly"),
        },
        other => {
            let rule = "an argument is compared with a text, a whole number, true or false";
            fail(value.span(), format!("{rule}, not {}", kind(other)))
        }
    }
}

fn pattern(name: &str, span: Range<usize>) -> Result<ToolPattern, DocumentError> {
    let (exact, server) = match name.strip_suffix('*') {
        Some(prefix) => (prefix, true),
        None => (name, false),
    };
    let named = exact
        .strip_suffix('/')
        .is_some_and(|server| !server.is_empty());
    match ToolName::parse(exact) {
        Ok(_) if server && named => Ok(ToolPattern::Server(exact.to_owned())),
        Ok(tool) if !server && !exact.ends_with('/') => Ok(ToolPattern::Exact(tool)),
        Ok(_) | Err(_) => fail(
            span,
            "a tool is a name such as `bash` or `mcp:mail/send`, or `mcp:mail/*`",
        ),
    }
}
