// SPDX-License-Identifier: Apache-2.0
//! A JSON pointer (RFC 6901) to one value of a document: at least one name, each spelled one way.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Where in a JSON document the credential stands: `/client_secret`, `/d/token`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Pointer(Vec<String>);

/// LIMIT: a credential in real requests stands one to four names deep.
const NAMES_MAX: usize = 16;
/// LIMIT: names of real members are words; a binding stays one short row.
const POINTER_BYTES_MAX: usize = 256;

impl Pointer {
    /// Reads `/name/name`, with `~0` for `~` and `~1` for `/`. Refused are the whole document, an
    /// empty name, the place behind a list's end (`-`), control characters, and escapes of anything
    /// else.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let names = text.strip_prefix('/')?.split('/').map(unescaped);
        let names = names.collect::<Option<Vec<_>>>()?;
        let fits = text.len() <= POINTER_BYTES_MAX && names.len() <= NAMES_MAX;
        fits.then_some(Self(names))
    }

    /// The names on the way, outermost first; never none.
    #[must_use]
    pub fn names(&self) -> &[String] {
        &self.0
    }
}

fn unescaped(name: &str) -> Option<String> {
    let mut pieces = name.split('~');
    let mut whole = pieces.next()?.to_owned();
    for piece in pieces {
        let (escaped, rest) = match piece.split_at_checked(1)? {
            ("0", rest) => ('~', rest),
            ("1", rest) => ('/', rest),
            _ => return None,
        };
        whole.push(escaped);
        whole.push_str(rest);
    }
    let is_plain = !whole.is_empty() && whole != "-" && !whole.chars().any(char::is_control);
    is_plain.then_some(whole)
}

impl fmt::Display for Pointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let escaped = |name: &String| name.replace('~', "~0").replace('/', "~1");
        self.0
            .iter()
            .try_for_each(|name| write!(f, "/{}", escaped(name)))
    }
}

impl TryFrom<String> for Pointer {
    type Error = &'static str;
    fn try_from(text: String) -> Result<Self, Self::Error> {
        Self::parse(&text).ok_or("a JSON pointer is `/name` or `/name/name`, as in `/d/token`")
    }
}

impl From<Pointer> for String {
    fn from(pointer: Pointer) -> Self {
        pointer.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_pointer_has_one_spelling_and_names_one_place() {
        let names = |text: &str| Pointer::parse(text).map(|pointer| pointer.0);
        assert_eq!(names("/d/token").unwrap(), ["d", "token"]);
        assert_eq!(names("/a~1b/~01/0").unwrap(), ["a/b", "~1", "0"]);
        let deep = "/a".repeat(NAMES_MAX + 1);
        let long = format!("/{}", "a".repeat(POINTER_BYTES_MAX));
        for refused in [
            "", "d", "/", "//", "/a/", "/a//b", "/-", "/a/-", "/a~", "/~2", "/~", "/a\n", "#/a",
            &deep, &long,
        ] {
            assert_eq!(names(refused), None, "{refused:?}");
        }
    }

    proptest! {
        #[test]
        fn what_is_a_pointer_is_written_as_it_was_read(text in "/[a-c~01/-]{0,12}") {
            if let Some(pointer) = Pointer::parse(&text) {
                prop_assert_eq!(pointer.to_string(), text);
            }
        }
    }
}
