// SPDX-License-Identifier: Apache-2.0
//! The digest of an act, which an approval is bound to.

use crate::facts::Act;
use serde_json::Value;
use sha2::{Digest, Sha256};

/// SHA-256 of the act in canonical JSON: keys sorted, no spaces. An act that can't be written
/// down has a digest that no approval can name.
#[must_use]
pub fn act_digest(act: &Act) -> [u8; 32] {
    let mut hash = Sha256::new_with_prefix(b"torno act 1\n");
    match serde_json::to_value(act) {
        Ok(value) => write(&value, &mut hash),
        Err(error) => hash.update(format!("unwritable {error}")),
    }
    hash.finalize().into()
}

fn write(value: &Value, hash: &mut Sha256) {
    match value {
        Value::Array(items) => {
            hash.update(b"[");
            for item in items {
                write(item, hash);
                hash.update(b",");
            }
            hash.update(b"]");
        }
        Value::Object(fields) => {
            let mut sorted: Vec<_> = fields.iter().collect();
            sorted.sort_by_key(|(key, _)| *key);
            hash.update(b"{");
            for (key, field) in sorted {
                write(&Value::String(key.clone()), hash);
                hash.update(b":");
                write(field, hash);
                hash.update(b",");
            }
            hash.update(b"}");
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            hash.update(value.to_string());
        }
    }
}
