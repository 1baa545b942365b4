// SPDX-License-Identifier: Apache-2.0
//! A recipe: what a signature covers, or what a header field says, as fixed text and words in
//! braces. The words are a closed list, and there is one spelling of each recipe.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Fixed text and words, in order: `v0:{timestamp}:{body}`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Recipe(Vec<Part>);

/// One part of a recipe.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Part {
    /// Printable ASCII without braces, as it stands.
    Fixed(String),
    /// `{lf}`: one line feed.
    LineFeed,
    /// `{method}`.
    Method,
    /// `{host}`, with the port where it is not the scheme's: as it is sent.
    Host,
    /// `{path}`, as it is sent.
    Path,
    /// `{query}`, as it is sent and without its question mark; nothing where there is none.
    Query,
    /// `{target}`: path and query, as they are sent.
    Target,
    /// `{header:NAME}`: the value of a field that goes out once.
    Header(String),
    /// `{timestamp}`: the gate's time in Unix seconds.
    Seconds,
    /// `{timestamp_ms}`: the same in milliseconds.
    Milliseconds,
    /// `{body}`, as it is sent.
    Body,
    /// `{body_sha256}`: its digest in lower-case hex.
    BodySha256,
    /// `{hex}`: the signature in lower-case hex.
    Hex,
    /// `{base64}`: the signature in base64 with padding.
    Base64,
}

/// LIMIT: the longest recipe of a known service has about 80 characters.
const RECIPE_BYTES_MAX: usize = 512;
/// LIMIT: header names of real services have at most about 30 bytes.
const NAME_BYTES_MAX: usize = 64;

const WORDS: [(&str, Part); 12] = [
    ("lf", Part::LineFeed),
    ("method", Part::Method),
    ("host", Part::Host),
    ("path", Part::Path),
    ("query", Part::Query),
    ("target", Part::Target),
    ("timestamp", Part::Seconds),
    ("timestamp_ms", Part::Milliseconds),
    ("body", Part::Body),
    ("body_sha256", Part::BodySha256),
    ("hex", Part::Hex),
    ("base64", Part::Base64),
];

impl Recipe {
    /// Reads a recipe; nothing when it has an unknown word, a brace of its own, or anything but
    /// printable ASCII.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let printable = |b: u8| (b' '..0x7f).contains(&b);
        if !(1..=RECIPE_BYTES_MAX).contains(&text.len()) || !text.bytes().all(printable) {
            return None;
        }
        let mut parts = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            let (fixed, more) = rest.split_once('{').unwrap_or((rest, ""));
            if fixed.contains('}') {
                return None;
            }
            if !fixed.is_empty() {
                parts.push(Part::Fixed(fixed.to_owned()));
            }
            if rest.len() == fixed.len() {
                break;
            }
            let (name, more) = more.split_once('}')?;
            parts.push(word(name)?);
            rest = more;
        }
        Some(Self(parts))
    }

    /// In order; never none.
    #[must_use]
    pub fn parts(&self) -> &[Part] {
        &self.0
    }

    /// Whether the body must be known.
    #[must_use]
    pub fn reads_body(&self) -> bool {
        self.has(&Part::Body) || self.has(&Part::BodySha256)
    }

    pub(super) fn has(&self, part: &Part) -> bool {
        self.0.contains(part)
    }
}

fn word(name: &str) -> Option<Part> {
    if let Some(field) = name.strip_prefix("header:") {
        let known = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
        let fits = (1..=NAME_BYTES_MAX).contains(&field.len()) && field.bytes().all(known);
        return fits.then(|| Part::Header(field.to_owned()));
    }
    let found = WORDS.iter().find(|(known, _)| *known == name);
    found.map(|(_, part)| part.clone())
}

impl fmt::Display for Recipe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|part| match part {
            Part::Fixed(text) => f.write_str(text),
            Part::Header(name) => write!(f, "{{header:{name}}}"),
            other => {
                let found = WORDS.iter().find(|(_, part)| part == other);
                write!(f, "{{{}}}", found.map_or("", |(word, _)| word))
            }
        })
    }
}

impl TryFrom<String> for Recipe {
    type Error = &'static str;
    fn try_from(text: String) -> Result<Self, Self::Error> {
        Self::parse(&text).ok_or(
            "a recipe is printable text with words in braces: {method} {host} {path} {query} \
             {target} {header:NAME} {timestamp} {timestamp_ms} {body} {body_sha256} {lf}, and {hex} \
             or {base64} for the signature",
        )
    }
}

impl From<Recipe> for String {
    fn from(recipe: Recipe) -> Self {
        recipe.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn words_are_known_and_braces_are_theirs() {
        let text = "a={method}{host}{path}{query}{target}{header:x-id}{timestamp}{timestamp_ms}\
                    {body}{body_sha256}{lf},{hex}{base64}";
        let recipe = Recipe::parse(text).unwrap();
        assert_eq!(recipe.parts().len(), 15);
        assert_eq!(recipe.to_string(), text);
        assert!(recipe.reads_body());
        assert!(!Recipe::parse("{timestamp}{target}").unwrap().reads_body());
        for wrong in [
            "",
            "{",
            "}",
            "a}",
            "{}",
            "{body",
            "{body}}",
            "{{body}}",
            "{Body}",
            "{ body}",
            "{header:}",
            "{header:X-Id}",
            "{header:a b}",
            "{header:x_id}",
            "{credential}",
            "a\n",
            "\u{f6}",
            "\t{body}",
        ] {
            assert_eq!(Recipe::parse(wrong), None, "{wrong:?}");
        }
        assert_eq!(Recipe::parse(&"a".repeat(513)), None);
        let name = "x".repeat(65);
        assert_eq!(Recipe::parse(&format!("{{header:{name}}}")), None);
    }

    proptest! {
        /// There is one spelling: what is read is written as it stood.
        #[test]
        fn a_recipe_is_written_as_it_was_read(
            text in concat!(
                "([ -~]{0,6}(\\{(body|timestamp|header:[a-z-]{1,4}",
                "|hex|lf|[a-z]{1,4})\\})?){0,4}",
            ),
        ) {
            if let Some(recipe) = Recipe::parse(&text) {
                prop_assert_eq!(recipe.to_string(), text);
            }
        }
    }
}
