// SPDX-License-Identifier: Apache-2.0
//! The canonical request path: the same bytes decide and go on the wire.

use serde::{Deserialize, Serialize};
use std::fmt;
use thiserror::Error;

/// Why bytes are not a request path.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PathError {
    /// It does not start with `/`, or is longer than 8192 bytes.
    #[error("a path starts with `/` and has at most 8192 bytes")]
    Form,
    /// A control byte, space, backslash, `;`, `#`, or a byte outside ASCII.
    #[error("a path has a byte that is never needed there")]
    Character,
    /// A `%` without two hexadecimal digits, or one that hides `/`, `\`, `.`-segments or NUL.
    #[error("a percent-encoding in the path is malformed or hides a separator")]
    Escape,
    /// A `.`, `..` or empty segment.
    #[error("a path has a dot segment or an empty segment")]
    Segment,
}

/// A path and the query that follows it. The path is canonical: unreserved escapes decoded, hex
/// digits of the others in upper case. The query's bytes are kept as they came (checked for
/// control bytes) and never take part in a path rule.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "(String, Option<String>)", into = "(String, Option<String>)")]
pub struct RequestPath {
    path: String,
    query: Option<String>,
}

impl RequestPath {
    /// Reads an origin-form target (RFC 9112 §3.2.1).
    ///
    /// # Errors
    /// See [`PathError`].
    pub fn parse(target: &str) -> Result<Self, PathError> {
        let _ = target;
        unimplemented!()
    }

    /// The canonical path.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The query's bytes, without `?`.
    #[must_use]
    pub fn query(&self) -> Option<&str> {
        self.query.as_deref()
    }
}

impl fmt::Display for RequestPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.path)?;
        match &self.query {
            Some(query) => write!(f, "?{query}"),
            None => Ok(()),
        }
    }
}

impl TryFrom<(String, Option<String>)> for RequestPath {
    type Error = PathError;
    fn try_from((path, query): (String, Option<String>)) -> Result<Self, PathError> {
        let target = match &query {
            Some(query) => format!("{path}?{query}"),
            None => path.clone(),
        };
        let parsed = Self::parse(&target)?;
        if parsed.path == path && parsed.query == query { Ok(parsed) } else { Err(PathError::Form) }
    }
}

impl From<RequestPath> for (String, Option<String>) {
    fn from(path: RequestPath) -> Self {
        (path.path, path.query)
    }
}
