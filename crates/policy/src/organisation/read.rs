// SPDX-License-Identifier: Apache-2.0
//! Cedar text → named, validated policies. Stricter than Cedar: each rule has a unique `@id`, no
//! other annotation than `@ask` counts, and templates have no place.

use super::{SCHEMA, depth};
use crate::document::DocumentError;
use cedar_policy::{
    Effect, ParseErrors, Policy, PolicyId, PolicySet, Schema, ValidationMode, Validator,
};
use miette::Diagnostic;
use std::collections::BTreeMap;

/// LIMIT: an organisation's policy is read by people; 256 KiB is thousands of rules, and bounds
/// what parsing can cost.
const TEXT_BYTES_MAX: usize = 256 * 1024;

pub(super) fn policies(text: &str) -> Result<BTreeMap<String, Policy>, DocumentError> {
    if text.len() > TEXT_BYTES_MAX {
        return Err(plain(format!(
            "the policy has more than {TEXT_BYTES_MAX} bytes; split off"
        )));
    }
    depth::check(text)?;
    let set: PolicySet = text.parse().map_err(|errors| parse_error(&errors))?;
    if set.templates().next().is_some() {
        return Err(plain(
            "a template (`?principal`, `?resource`) has no place here".to_owned(),
        ));
    }
    let mut named = BTreeMap::new();
    for policy in set.policies() {
        let name = name_of(policy)?;
        let policy = policy.new_id(PolicyId::new(&name));
        if named.insert(name.clone(), policy).is_some() {
            return Err(about(
                text,
                &name,
                format!("two rules are called `{name}`; rename one"),
            ));
        }
    }
    validate(text, &named)?;
    Ok(named)
}

fn name_of(policy: &Policy) -> Result<String, DocumentError> {
    let cause = "every rule begins with its name, as in `@id(\"no-metadata\")`";
    let Some(name) = policy.annotation("id") else {
        return Err(plain(cause.to_owned()));
    };
    let known = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    if name.is_empty() || name.len() > 64 || !name.bytes().all(known) {
        let rule = "a rule's name has 1 to 64 lower-case letters, digits and `-`";
        return Err(plain(rule.to_owned()));
    }
    if matches!(name, "default" | "question") {
        return Err(plain(format!(
            "the rule name `{name}` is taken by the product"
        )));
    }
    for (key, value) in policy.annotations() {
        match (key, policy.effect()) {
            ("id", _) => {}
            ("ask", Effect::Forbid) if value.is_empty() => {}
            ("ask", _) => {
                let rule = "`@ask` stands alone, and only on a `forbid`";
                return Err(plain(format!("{rule}; look at rule `{name}`")));
            }
            _ => return Err(plain(format!("rule `{name}` has an unknown annotation"))),
        }
    }
    Ok(name.to_owned())
}

fn validate(text: &str, named: &BTreeMap<String, Policy>) -> Result<(), DocumentError> {
    let (schema, _) = Schema::from_cedarschema_str(SCHEMA)
        .map_err(|error| plain(format!("the shipped schema does not parse: {error}")))?;
    let validator = Validator::new(schema);
    for (name, policy) in named {
        let set = PolicySet::from_policies([policy.clone()])
            .map_err(|error| plain(format!("rule `{name}` is refused: {error}")))?;
        let result = validator.validate(&set, ValidationMode::Strict);
        if let Some(error) = result.validation_errors().next() {
            return Err(about(text, name, one_line(&error.to_string())));
        }
    }
    Ok(())
}

fn parse_error(errors: &ParseErrors) -> DocumentError {
    let span = errors
        .labels()
        .and_then(|mut labels| labels.next())
        .map(|label| {
            let start = label.offset();
            start..start + label.len()
        });
    DocumentError {
        message: one_line(&errors.to_string()),
        span,
    }
}

fn plain(message: String) -> DocumentError {
    DocumentError {
        message,
        span: None,
    }
}

/// Points at the name annotation of a rule.
fn about(text: &str, name: &str, message: String) -> DocumentError {
    let annotation = format!("@id(\"{name}\")");
    let span = text
        .rfind(&annotation)
        .map(|start| start..start + annotation.len());
    DocumentError { message, span }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
