// SPDX-License-Identifier: Apache-2.0
//! The npm registry's API, as npm, yarn and pnpm use it.

use super::{Operation, is_get};

pub(super) fn operation(method: &str, segments: &[&str]) -> Operation {
    match segments {
        ["-", rest @ ..] => of_the_registry(method, rest),
        // The registry itself, which old clients ask whether it is there.
        [""] if is_get(method) => Operation::Read,
        [package, rest @ ..] if is_package(package) => of_a_package(method, rest),
        _ => Operation::Unknown,
    }
}

fn of_a_package(method: &str, rest: &[&str]) -> Operation {
    match (method, rest) {
        // The package, one version of it, or a file.
        ("GET" | "HEAD", [] | [_] | ["-", _]) => Operation::Read,
        ("PUT", []) => Operation::Publish,
        // A package's document is written back with versions or people less or more.
        ("PUT", ["-rev", _]) => Operation::Owners,
        ("DELETE", ["-rev", _] | ["-", _, "-rev", _] | []) => Operation::Unpublish,
        _ => Operation::Unknown,
    }
}

/// What stands below `/-/`.
fn of_the_registry(method: &str, rest: &[&str]) -> Operation {
    match rest {
        ["ping" | "whoami"] | ["v1", "search"] if is_get(method) => Operation::Read,
        ["npm", "v1", "keys"] | ["npm", "v1", "attestations", _] if is_get(method) => {
            Operation::Read
        }
        ["npm", "v1", "security", "audits"]
        | ["npm", "v1", "security", "audits", "quick"]
        | ["npm", "v1", "security", "advisories", "bulk"]
            if method == "POST" =>
        {
            Operation::Read
        }
        ["package", _, "dist-tags"] if is_get(method) => Operation::Read,
        ["package", _, "dist-tags", ..] => Operation::Tag,
        ["package", ..] | ["org" | "team", ..] => Operation::Owners,
        ["user", ..] | ["v1", "login", ..] | ["npm", "v1", "tokens" | "user", ..] => {
            Operation::Account
        }
        ["npm", "v1", "hooks", ..] => Operation::Hook,
        _ => Operation::Unknown,
    }
}

/// A name that begins with neither `-` nor `.`, or a scope and such a name.
fn is_package(segment: &str) -> bool {
    let name = match segment.strip_prefix('@') {
        Some(scoped) => match scoped.split_once('/') {
            Some((scope, name)) if !scope.is_empty() => name,
            Some(_) | None => return false,
        },
        None => segment,
    };
    let known = |b: u8| b.is_ascii_alphanumeric() || b"-._~!'()*".contains(&b);
    !name.is_empty() && !name.starts_with(['-', '.']) && name.bytes().all(known)
}
