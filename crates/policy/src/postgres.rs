// SPDX-License-Identifier: Apache-2.0
//! PostgreSQL in a decision: what a connection does is a method, whose it is a path, so that one
//! table judges databases and HTTP alike (decision 0027).
//!
//! | a client … | is the request |
//! |---|---|
//! | opens a connection | `START postgres://host:port/database/user` |
//! | reads, for the first time on it | `READ postgres://host:port/database/user` |
//! | writes, for the first time on it | `WRITE postgres://host:port/database/user` |
//! | cancels what it asked for | `CANCEL postgres://host:port/database/user` |

use crate::binding::PathPattern;
use crate::facts::{Entry, RequestFacts};
use crate::names::{Authority, Endpoint, Method, RequestPath, Scheme};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The name of a user, database or role: compared exactly, and a segment of a path as it is. What
/// PostgreSQL would take beyond that (spaces, quotes, slashes) is refused.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Name(String);

/// LIMIT: PostgreSQL cuts a longer name, and two names that are cut could be one.
const NAME_BYTES_MAX: usize = 63;

impl Name {
    /// 1 to 63 ASCII letters, digits, `_`, `-` and `.`, of which the first is no `.`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let known = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.');
        let fits = (1..=NAME_BYTES_MAX).contains(&text.len())
            && text.bytes().all(known)
            && !text.starts_with('.');
        fits.then(|| Self(text.to_owned()))
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for Name {
    type Error = &'static str;
    fn try_from(text: String) -> Result<Self, Self::Error> {
        Self::parse(&text).ok_or("not a name of PostgreSQL as it is taken here")
    }
}

impl From<Name> for String {
    fn from(name: Name) -> Self {
        name.0
    }
}

/// Whose connection it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Login {
    /// The database.
    pub database: Name,
    /// The user that logs in.
    pub user: Name,
}

/// What a connection may do. Ordered: who writes, reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    /// Read, in transactions that the server keeps from writing.
    Read,
    /// Read and write.
    Write,
}

/// What is judged of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deed {
    /// It opens.
    Start,
    /// A statement of another connection is cancelled.
    Cancel,
    /// Its first statement that reads.
    Read,
    /// Its first statement that writes, or that can't be told from one.
    Write,
}

impl Deed {
    /// The method that stands for it.
    #[must_use]
    pub fn method(self) -> Method {
        Method::known(match self {
            Self::Start => "START",
            Self::Cancel => "CANCEL",
            Self::Read => "READ",
            Self::Write => "WRITE",
        })
    }
}

impl Access {
    /// The methods that a binding or grant of this access has.
    #[must_use]
    pub fn methods(self) -> Vec<Method> {
        let read = [Deed::Start, Deed::Cancel, Deed::Read];
        let write = (self == Self::Write).then_some(Deed::Write);
        read.into_iter().chain(write).map(Deed::method).collect()
    }
}

impl Login {
    /// The path that stands for it; nothing where a name is no segment of one.
    #[must_use]
    pub fn path(&self) -> Option<RequestPath> {
        RequestPath::parse(&self.target()).ok()
    }

    /// The one path of a binding for it.
    #[must_use]
    pub fn pattern(&self) -> Option<PathPattern> {
        PathPattern::parse(&self.target()).ok()
    }

    fn target(&self) -> String {
        format!("/{}/{}", self.database, self.user)
    }

    /// Reads back the one path of a binding.
    #[must_use]
    pub fn of_pattern(pattern: &PathPattern) -> Option<Self> {
        let text = pattern.to_string();
        let (database, user) = text.strip_prefix('/')?.split_once('/')?;
        Some(Self {
            database: Name::parse(database)?,
            user: Name::parse(user)?,
        })
    }
}

/// The facts of one deed; nothing where a name is no segment of a path.
#[must_use]
pub fn facts(
    entry: Entry,
    authority: &Authority,
    (login, deed): (&Login, Deed),
) -> Option<RequestFacts> {
    Some(RequestFacts {
        entry,
        endpoint: Endpoint {
            scheme: Scheme::Postgres,
            host: authority.host.clone(),
            port: authority.port,
        },
        method: deed.method(),
        path: login.path()?,
        websocket: false,
        // The protocol hides what the client presents: the gate compares it (`Mode::Inject`).
        presented: Vec::new(),
        own_credentials: Vec::new(),
        git: None,
        content: None,
        body: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_taken_in_one_spelling_and_is_a_segment_of_a_path() {
        for name in ["app", "app_user", "App", "a-b.c", "0"] {
            let name = Name::parse(name).unwrap();
            let (database, user) = (name.clone(), name.clone());
            let login = Login { database, user };
            assert_eq!(login.path().unwrap().path(), format!("/{name}/{name}"));
            assert_eq!(Login::of_pattern(&login.pattern().unwrap()), Some(login));
        }
        let long = "a".repeat(64);
        for refused in [
            "", ".", "..", ".a", "a b", "a/b", "a%2f", "a*", "**", "a\0", "\u{e9}", &long,
        ] {
            assert_eq!(Name::parse(refused), None, "{refused:?}");
        }
        assert!(serde_json::from_str::<Name>("\"a b\"").is_err());
    }

    #[test]
    fn whoever_writes_reads_and_every_deed_is_a_method() {
        let read = Access::Read.methods();
        assert!(!read.contains(&Deed::Write.method()));
        assert!(read.iter().all(|m| Access::Write.methods().contains(m)));
        for deed in [Deed::Start, Deed::Cancel, Deed::Read, Deed::Write] {
            let method = deed.method();
            assert_eq!(Method::parse(method.as_str()), Some(method.clone()));
            assert!(Access::Write.methods().contains(&method));
        }
    }
}
