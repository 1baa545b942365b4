// SPDX-License-Identifier: Apache-2.0
//! `{credential}`: how a placeholder in a path or query is written in what is judged, recorded and
//! shown. No client can send the word itself, so that where it stands a placeholder stood.

use super::RequestPath;
use crate::placeholder::Placeholder;
use smol_str::{SmolStr, format_smolstr};
use std::ops::Range;

/// What stands for a placeholder.
pub const CREDENTIAL_WORD: &str = "{credential}";

/// A target with its plain placeholders named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Named {
    /// The target.
    pub path: RequestPath,
    /// The placeholders of the path, in order.
    pub in_path: Vec<Placeholder>,
    /// The placeholders of the query, in order.
    pub in_query: Vec<Placeholder>,
}

impl RequestPath {
    /// Writes [`CREDENTIAL_WORD`] where a plain placeholder stands. One that hides in an encoding
    /// stays as it is: nothing is put there.
    #[must_use]
    pub fn name_placeholders(&self) -> Named {
        let (path, in_path) = named(&self.path);
        let (query, in_query) = match &self.query {
            Some(query) => {
                let (query, found) = named(query);
                (Some(query), found)
            }
            None => (None, Vec::new()),
        };
        Named {
            path: Self { path, query },
            in_path,
            in_query,
        }
    }

    /// Any text with its plain placeholders named, for the record.
    #[must_use]
    pub fn shown(text: &str) -> String {
        name(text).0
    }

    /// How many placeholders are named in path and query.
    #[must_use]
    pub fn words(&self) -> (usize, usize) {
        let count = |text: &str| text.matches(CREDENTIAL_WORD).count();
        (count(&self.path), self.query.as_deref().map_or(0, count))
    }

    /// The same with other text at a range of the path. The caller sees to it that it is canonical.
    pub(crate) fn replaced(&self, range: Range<usize>, text: &str) -> Self {
        let before = self.path.get(..range.start).unwrap_or_default();
        let after = self.path.get(range.end..).unwrap_or_default();
        Self {
            path: format_smolstr!("{before}{text}{after}"),
            query: self.query.clone(),
        }
    }

    /// The same with another path; see [`Self::replaced`].
    pub(crate) fn with_path(&self, path: String) -> Self {
        Self {
            path: path.into(),
            query: self.query.clone(),
        }
    }
}

/// A part of a target with its placeholders named; mostly there are none.
fn named(text: &SmolStr) -> (SmolStr, Vec<Placeholder>) {
    let (named, placeholders) = name(text);
    if placeholders.is_empty() {
        (text.clone(), placeholders)
    } else {
        (named.into(), placeholders)
    }
}

fn name(text: &str) -> (String, Vec<Placeholder>) {
    let mut named = String::with_capacity(text.len());
    let mut placeholders = Vec::new();
    let mut at = 0;
    for (range, placeholder) in Placeholder::find_all(text.as_bytes()) {
        // A shape may reach back over the placeholder before it.
        let start = range.start.max(at);
        named.push_str(text.get(at..start).unwrap_or_default());
        named.push_str(CREDENTIAL_WORD);
        placeholders.push(placeholder);
        at = range.end;
    }
    named.push_str(text.get(at..).unwrap_or_default());
    (named, placeholders)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_client_can_write_the_word_and_rows_can() {
        for target in [
            "/bot{credential}/x",
            "/x?key={credential}",
            "/x?{credential}",
        ] {
            assert!(RequestPath::parse(target).is_err(), "{target}");
            let read = RequestPath::parse_named(target).unwrap();
            assert_eq!(read.to_string(), target);
            let json = serde_json::to_string(&read).unwrap();
            assert_eq!(serde_json::from_str::<RequestPath>(&json).unwrap(), read);
        }
        // Other braces are no part of a path; in a query they are data.
        assert!(RequestPath::parse_named("/{other}").is_err());
        assert!(RequestPath::parse("/x?filter={a}").is_ok());
        assert!(RequestPath::parse_named("/%{credential}41").is_err());
        assert!(RequestPath::parse_named("/..{credential}/x").is_ok());
        assert!(RequestPath::parse_named("/{credential}/../x").is_err());
    }

    #[test]
    fn plain_placeholders_are_named_and_the_rest_is_as_it_was() {
        let one = Placeholder::new("ghp_", [7; 16]);
        let two = Placeholder::new("", [8; 16]);
        let (a, b) = (one.as_str(), two.as_str());
        let target = format!("/bot{a}/x?q={b}&r={a}{b}&s=%41");
        let named = RequestPath::parse(&target).unwrap().name_placeholders();
        let shown = "/bot{credential}/x?q={credential}&r={credential}{credential}&s=%41";
        assert_eq!(named.path.to_string(), shown);
        assert_eq!(named.in_path, std::slice::from_ref(&one));
        assert_eq!(named.in_query, [two.clone(), one, two]);
        assert_eq!(named.path.words(), (1, 3));
        let plain = RequestPath::parse("/a?b=c").unwrap();
        assert_eq!(plain.name_placeholders().path, plain);
    }
}
