// SPDX-License-Identifier: Apache-2.0
//! Package registries: what a request does there, by method and path alone. What is not known to
//! read does not read.

use crate::names::{Method, RequestPath};
use serde::{Deserialize, Serialize};
use std::fmt;

mod cargo;
mod npm;
mod oci;
mod pypi;

/// Whose protocol a registry speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Protocol {
    /// npm, yarn, pnpm.
    Npm,
    /// pip, uv and twine: the simple index, files, and the legacy upload.
    Pypi,
    /// cargo: the sparse index, crates, and the API of crates.io.
    Crates,
    /// Images: OCI distribution.
    Oci,
}

impl Protocol {
    /// Each with its word in a rule.
    pub const ALL: [(&'static str, Self); 4] = [
        ("npm", Self::Npm),
        ("pypi", Self::Pypi),
        ("crates", Self::Crates),
        ("oci", Self::Oci),
    ];

    /// Its word in a rule.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Npm => "npm",
            Self::Pypi => "pypi",
            Self::Crates => "crates",
            Self::Oci => "oci",
        }
    }
}

/// What a request does at a registry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operation {
    /// It reads packages or what is known of them.
    Read,
    /// It adds a version, or a part of one.
    Publish,
    /// It removes one.
    Unpublish,
    /// It hides one from new users, or shows it again.
    Yank,
    /// It moves a name for a version, like `latest`.
    Tag,
    /// It changes who may publish or see a package.
    Owners,
    /// It makes, lists or ends a token, or changes the account.
    Account,
    /// It changes what is told to others.
    Hook,
    /// Nobody knows.
    Unknown,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Read => "reading",
            Self::Publish => "publishing",
            Self::Unpublish => "unpublishing",
            Self::Yank => "yanking",
            Self::Tag => "moving a tag",
            Self::Owners => "changing owners",
            Self::Account => "using the account or its tokens",
            Self::Hook => "changing hooks",
            Self::Unknown => "something that is not known to read",
        })
    }
}

/// What a request does at the registry that lies below `under`.
#[must_use]
pub fn operation(
    protocol: Protocol,
    under: &str,
    method: &Method,
    path: &RequestPath,
) -> Operation {
    let Some(path_below) = path.path().strip_prefix(under) else {
        return Operation::Unknown;
    };
    let Some(segments) = segments(path_below) else {
        return Operation::Unknown;
    };
    let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
    match protocol {
        Protocol::Npm => npm::operation(method.as_str(), &segments),
        Protocol::Pypi => pypi::operation(method.as_str(), &segments),
        Protocol::Crates => cargo::operation(method.as_str(), &segments),
        Protocol::Oci => oci::operation(method.as_str(), &segments, path.query()),
    }
}

/// The segments below a registry's place. A scoped name (`@scope/name`) is one segment, however
/// its slash is spelled; any other encoded slash is nothing that a client sends.
fn segments(path: &str) -> Option<Vec<String>> {
    let path = path.strip_prefix('/')?.replace("%40", "@");
    let mut segments: Vec<String> = Vec::new();
    for part in path.split('/') {
        let part = match part.split_once("%2F") {
            Some((scope, name)) if scope.starts_with('@') && !name.contains("%2F") => {
                format!("{scope}/{name}")
            }
            Some(_) => return None,
            None => part.to_owned(),
        };
        match segments.last_mut() {
            Some(scope) if scope.starts_with('@') && !scope.contains('/') => {
                scope.push('/');
                scope.push_str(&part);
            }
            Some(_) | None => segments.push(part),
        }
    }
    Some(segments)
}

/// The methods that read.
fn is_get(method: &str) -> bool {
    matches!(method, "GET" | "HEAD")
}

#[cfg(test)]
mod tests;
