// SPDX-License-Identifier: Apache-2.0
//! What a binding denies, whatever its paths allow: the endpoints where a provider makes further
//! credentials or lets somebody leave authority behind. A deny is read wide: letters of either
//! case, each reading of an encoded slash, a slash or a format at the end (`keys.json`).

use super::PathPattern;
use crate::names::{Method, RequestPath};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Requests that a binding's credential is not used for.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Denied {
    /// With these methods; none is every method.
    pub methods: Vec<Method>,
    /// At these paths.
    pub path: PathPattern,
}

impl Denied {
    /// Whether the request is meant, in any reading that a server may have of its path.
    #[must_use]
    pub fn means(&self, method: &Method, path: &RequestPath) -> bool {
        if !self.methods.is_empty() && !self.methods.contains(method) {
            return false;
        }
        self.path.means(path)
    }
}

impl PathPattern {
    /// Whether the path is meant in any reading that a server may have of it: for who forbids, or
    /// must not be passed by.
    pub(crate) fn means(&self, path: &RequestPath) -> bool {
        let mut readings = path.readings();
        readings.push(path.clone());
        let mut readings = readings.iter().flat_map(endings);
        readings.any(|path| self.is_match_in_any_case(&path))
    }
}

/// The path as it is, and without what servers ignore at its end.
fn endings(path: &RequestPath) -> Vec<RequestPath> {
    let text = path.path();
    let mut endings = vec![path.clone()];
    let bare = text.strip_suffix('/').unwrap_or(text);
    if bare.len() < text.len() && !bare.is_empty() {
        endings.push(path.with_path(bare.to_owned()));
    }
    if let Some((before, format)) = bare.rsplit_once('.')
        && !format.contains('/')
        && !before.ends_with('/')
    {
        endings.push(path.with_path(before.to_owned()));
    }
    endings
}

/// `POST,PUT /repos/*/*/keys`, or `* /graphql` for every method.
impl fmt::Display for Denied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.methods.is_empty() {
            f.write_str("*")?;
        }
        for (number, method) in self.methods.iter().enumerate() {
            let between = if number == 0 { "" } else { "," };
            write!(f, "{between}{method}")?;
        }
        write!(f, " {}", self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn denied(methods: &[&str], path: &str) -> Denied {
        Denied {
            methods: methods.iter().map(|m| Method::parse(m).unwrap()).collect(),
            path: PathPattern::parse(path).unwrap(),
        }
    }

    // ATTACK: 241
    #[test]
    fn no_spelling_of_a_denied_path_gets_around_it() {
        let keys = denied(&["POST"], "/repos/*/*/keys");
        let means = |method: &str, path: &str| {
            let path = RequestPath::parse(path).unwrap();
            keys.means(&Method::parse(method).unwrap(), &path)
        };
        for path in [
            "/repos/x/y/keys",
            "/repos/x/y/keys?a=b",
            "/repos/x/y/keys/",
            "/repos/x/y/keys.json",
            "/repos/x/y/keys.json/",
            "/repos/x/y/KEYS",
            "/Repos/x/y/%6beys",
            "/repos/x%2Fy/keys",
            "/repos/x/y%2fkeys",
        ] {
            assert!(means("POST", path), "{path}");
            assert!(!means("GET", path), "{path}");
        }
        for path in ["/repos/x/y", "/repos/x/y/keys/1", "/repos/x/keys", "/"] {
            assert!(!means("POST", path), "{path}");
        }
        let all = denied(&[], "/graphql/**");
        let below = RequestPath::parse("/graphql/a%2fb").unwrap();
        assert!(all.means(&Method::parse("GET").unwrap(), &below));
        assert_eq!(all.to_string(), "* /graphql/**");
        assert_eq!(keys.to_string(), "POST /repos/*/*/keys");
    }
}
