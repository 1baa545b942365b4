// SPDX-License-Identifier: Apache-2.0
//! Refusals as the record has them.

/// The reason, layer and rule of the last refusal among records.
#[must_use]
pub fn last_refusal(records: &[serde_json::Value]) -> Option<(String, String, String)> {
    records.iter().rev().find_map(|record| {
        let field = |name: &str| find_text(record, name);
        Some((field("reason")?, field("layer")?, field("rule")?))
    })
}

/// The first text of that name in a record, at any depth.
fn find_text(value: &serde_json::Value, name: &str) -> Option<String> {
    match value {
        serde_json::Value::Object(fields) => fields
            .get(name)
            .and_then(|field| field.as_str().map(str::to_owned))
            .or_else(|| fields.values().find_map(|field| find_text(field, name))),
        serde_json::Value::Array(items) => items.iter().find_map(|item| find_text(item, name)),
        _ => None,
    }
}
