// SPDX-License-Identifier: Apache-2.0
//! PyPI: the simple index (PEP 503, PEP 691), its JSON, files, and the legacy upload.

use super::{Operation, is_get};

pub(super) fn operation(method: &str, segments: &[&str]) -> Operation {
    match segments {
        ["simple", ..] | ["pypi", ..] | ["packages", ..] | ["integrity", ..] if is_get(method) => {
            Operation::Read
        }
        // An upload has no other sign in its head; what else is posted there is refused with it.
        ["legacy"] | ["legacy", ""] if method == "POST" => Operation::Publish,
        ["manage" | "account" | "danger-api" | "_", ..] => Operation::Account,
        _ => Operation::Unknown,
    }
}
