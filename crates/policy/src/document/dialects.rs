// SPDX-License-Identifier: Apache-2.0
//! The keys of an `[[allow]]` rule that judge more than method and path: `registry`, `graphql`,
//! `jsonrpc`, `aws`.

mod aws;

use super::DocumentError;
use super::fields::{Fields, Value, fail, some_of, text, word};
use super::rules::{methods, paths};
use crate::binding::PathPattern;
use crate::facts::{GraphqlOperation, RpcPattern};
use crate::grant::{Dialect, RegistryGrant};
use crate::names::{Method, RequestPath};
use crate::registry::Protocol;

/// Every method that the services of AWS have.
const OF_AWS: [&str; 5] = ["GET", "HEAD", "POST", "PUT", "DELETE"];

/// What a rule judges, by which methods and at which paths.
pub(super) type Judged = (Dialect, Vec<Method>, Vec<PathPattern>);

/// Every method that a registry's protocol has.
const OF_REGISTRIES: [&str; 6] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"];

/// Reads them; a rule has one of them at most.
pub(super) fn read(fields: &Fields<'_, '_>) -> Result<Judged, DocumentError> {
    let dialects = ["registry", "graphql", "jsonrpc", "aws"];
    let mut given = dialects.iter().filter_map(|key| fields.get(key));
    if let (Some(_), Some(second)) = (given.next(), given.next()) {
        let rule = "a rule has one of `registry`, `graphql`, `jsonrpc` and `aws`; write two rules";
        return fail(second.span(), rule);
    }
    if let Some(value) = fields.get("registry") {
        return registry(fields, value);
    }
    for key in ["operations", "under"] {
        if let Some(value) = fields.get(key) {
            let rule = format!("`{key}` belongs to a rule with `registry`");
            return fail(value.span(), rule);
        }
    }
    if let Some(value) = fields.get("graphql") {
        refuse(
            fields,
            "methods",
            "GraphQL is sent with GET and POST; leave `methods` out",
        )?;
        let words = [
            GraphqlOperation::Query,
            GraphqlOperation::Mutation,
            GraphqlOperation::Subscription,
        ]
        .map(|operation| (operation.as_str(), operation));
        let granted = some_of(value, |item| word(item, &words))?;
        let paths = paths(fields.require("paths")?)?;
        return Ok((Dialect::Graphql(granted), named(&["GET", "POST"]), paths));
    }
    if let Some(value) = fields.get("jsonrpc") {
        let granted = some_of(value, |item| match RpcPattern::parse(text(item)?) {
            Some(pattern) => Ok(pattern),
            None => fail(
                item.span(),
                "name a method as in \"tools/list\", or several by a final `*` as in \"tools/*\"",
            ),
        })?;
        let methods = match fields.get("methods") {
            Some(value) => methods(value)?,
            None => named(&["POST"]),
        };
        let paths = paths(fields.require("paths")?)?;
        return Ok((Dialect::Jsonrpc(granted), methods, paths));
    }
    if let Some(value) = fields.get("aws") {
        let rule = "the action says what is done; leave `methods` out";
        refuse(fields, "methods", rule)?;
        let granted = aws::read(value, fields.get("host"))?;
        let paths = match fields.get("paths") {
            Some(value) => paths(value)?,
            None => PathPattern::parse("/**").into_iter().collect(),
        };
        return Ok((Dialect::Aws(granted), named(&OF_AWS), paths));
    }
    let methods = match fields.get("methods") {
        Some(value) => methods(value)?,
        None => named(&["GET", "HEAD"]),
    };
    let paths = match fields.get("paths") {
        Some(value) => paths(value)?,
        None => PathPattern::parse("/**").into_iter().collect(),
    };
    Ok((Dialect::Plain, methods, paths))
}

fn registry(fields: &Fields<'_, '_>, value: &Value<'_>) -> Result<Judged, DocumentError> {
    for key in ["methods", "paths"] {
        let rule = format!(
            "a rule with `registry` knows methods and paths; leave `{key}` out, and say where the \
             registry lies with `under = \"/path\"`"
        );
        refuse(fields, key, &rule)?;
    }
    let protocol = word(value, &Protocol::ALL)?;
    let publish = match fields.get("operations") {
        None => false,
        Some(value) => {
            let words = [("read", false), ("publish", true)];
            let listed = some_of(value, |item| word(item, &words))?;
            if !listed.contains(&false) {
                return fail(
                    value.span(),
                    "who publishes reads too: [\"read\", \"publish\"]",
                );
            }
            listed.contains(&true)
        }
    };
    let under = match fields.get("under") {
        Some(value) => under(value)?,
        None => String::new(),
    };
    let paths = PathPattern::parse(&format!("{under}/**"))
        .into_iter()
        .collect();
    let grant = RegistryGrant {
        protocol,
        under,
        publish,
    };
    Ok((Dialect::Registry(grant), named(&OF_REGISTRIES), paths))
}

/// `/api/npm/main`: a plain path.
fn under(value: &Value<'_>) -> Result<String, DocumentError> {
    let given = text(value)?;
    let plain = !given.contains(['*', '%', '?']) && !given.ends_with('/');
    match RequestPath::parse(given) {
        Ok(path) if plain && path.path() == given => Ok(given.to_owned()),
        Ok(_) | Err(_) => fail(
            value.span(),
            "the place of a registry is a plain path without final slash, as in \"/api/npm/main\"",
        ),
    }
}

fn refuse(fields: &Fields<'_, '_>, key: &str, rule: &str) -> Result<(), DocumentError> {
    match fields.get(key) {
        Some(value) => fail(value.span(), rule),
        None => Ok(()),
    }
}

fn named(methods: &[&str]) -> Vec<Method> {
    methods
        .iter()
        .filter_map(|text| Method::parse(text))
        .collect()
}

#[cfg(test)]
mod tests;
