// SPDX-License-Identifier: Apache-2.0
//! OCI distribution: pull, push and delete of blobs and manifests, and the token for a pull.

use super::{Operation, is_get};

pub(super) fn operation(method: &str, segments: &[&str], query: Option<&str>) -> Operation {
    match segments {
        // Docker's token service, where it is the registry's own host.
        ["token"] | ["v2", "token" | "auth"] if method == "GET" => of_a_token(query),
        ["v2"] | ["v2", ""] | ["v2", "_catalog"] if is_get(method) => Operation::Read,
        ["v2", name @ .., "tags", "list"] | ["v2", name @ .., "referrers", _] => named(
            name,
            if is_get(method) {
                Operation::Read
            } else {
                Operation::Unknown
            },
        ),
        // An upload has an end of its own: giving one up removes nothing that was pushed.
        ["v2", name @ .., "blobs", "uploads"] | ["v2", name @ .., "blobs", "uploads", _] => {
            named(name, of_an_upload(method))
        }
        ["v2", name @ .., "blobs" | "manifests", _] => named(name, of_an_object(method)),
        _ => Operation::Unknown,
    }
}

fn of_an_upload(method: &str) -> Operation {
    match method {
        "GET" | "HEAD" | "POST" | "PATCH" | "PUT" | "DELETE" => Operation::Publish,
        _ => Operation::Unknown,
    }
}

fn of_an_object(method: &str) -> Operation {
    match method {
        "GET" | "HEAD" => Operation::Read,
        "PUT" => Operation::Publish,
        "DELETE" => Operation::Unpublish,
        _ => Operation::Unknown,
    }
}

/// A token's scope says what it is good for (`repository:app:pull`). Read coarsely: no token whose
/// scope could mean more than pulling.
fn of_a_token(query: Option<&str>) -> Operation {
    let query = query.unwrap_or_default().to_ascii_lowercase();
    let scopes = query
        .split('&')
        .filter_map(|pair| pair.strip_prefix("scope="));
    let scopes: Vec<_> = scopes.collect();
    let pulls = |scope: &&str| {
        let scope = scope.replace("%3a", ":").replace("%2f", "/");
        let plain = |b: u8| b.is_ascii_alphanumeric() || b":/._-".contains(&b);
        scope.starts_with("repository:") && scope.ends_with(":pull") && scope.bytes().all(plain)
    };
    // Others ask for more than to pull, as `offline_token` does, or are these in another spelling.
    let known = |pair: &str| {
        let name = pair.split('=').next().unwrap_or_default();
        matches!(name, "scope" | "service" | "client_id" | "account")
    };
    let plain = query.split('&').all(known) && !query.contains(';');
    if !scopes.is_empty() && plain && scopes.iter().all(pulls) {
        Operation::Read
    } else {
        Operation::Account
    }
}

fn named(name: &[&str], operation: Operation) -> Operation {
    let odd = |part: &&str| part.is_empty() || part.starts_with(['_', '-', '.']);
    if name.is_empty() || name.iter().any(odd) {
        Operation::Unknown
    } else {
        operation
    }
}
