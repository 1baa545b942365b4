// SPDX-License-Identifier: Apache-2.0
//! Path patterns: exact segments, `*` for one segment, a final `/**` for the rest.

use serde::{Deserialize, Serialize};

/// Why a text is not a path pattern.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PathPatternError {
    /// It does not start with `/`.
    #[error("a path pattern starts with `/`")]
    Start,
}

/// A pattern of canonical paths, compiled when made.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PathPattern(String);
