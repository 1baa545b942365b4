// SPDX-License-Identifier: Apache-2.0
//! Cargo's registries: the sparse index, the crates, and the web API of crates.io.

use super::{Operation, is_get};

pub(super) fn operation(method: &str, segments: &[&str]) -> Operation {
    match segments {
        ["api", "v1", rest @ ..] => of_the_api(method, rest),
        ["api" | "me" | "login" | "logout", ..] => Operation::Unknown,
        // The index: `config.json` and `se/rd/serde`; crates: `crates/serde/serde-1.0.0.crate`.
        [..] if is_get(method) => Operation::Read,
        _ => Operation::Unknown,
    }
}

fn of_the_api(method: &str, rest: &[&str]) -> Operation {
    match (method, rest) {
        ("PUT", ["crates", "new"]) => Operation::Publish,
        ("DELETE", ["crates", _, _, "yank"]) | ("PUT", ["crates", _, _, "unyank"]) => {
            Operation::Yank
        }
        ("GET" | "HEAD", ["crates", ..]) => Operation::Read,
        (_, ["crates", _, "owners" | "owner_user" | "owner_team", ..]) => Operation::Owners,
        ("DELETE", ["crates", _]) | ("DELETE", ["crates", _, _]) => Operation::Unpublish,
        (_, ["me", ..] | ["tokens" | "trusted_publishing", ..]) => Operation::Account,
        _ => Operation::Unknown,
    }
}
