// SPDX-License-Identifier: Apache-2.0
//! Text that others chose, made inert: escaped to printable characters, bounded, and, where it was
//! cut, kept with length and digest of the original. Nothing in it can end a line, start a field,
//! or steer a terminal.

use crate::digest::Digest;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use std::fmt::{self, Write as _};

/// Names of rules, tools, places, targets.
pub type ShortText = Text<256>;
/// Paths of requests and repositories, single arguments.
pub type LongText = Text<1024>;

/// Inert text of at most `MAX` bytes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Text<const MAX: usize> {
    shown: String,
    cut: Option<Cut>,
}

/// What stood there before it was cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cut {
    /// Bytes of the original.
    pub bytes: u64,
    /// Its digest.
    pub sha256: Digest,
}

impl<const MAX: usize> Text<MAX> {
    /// Escapes and bounds whatever it is given.
    #[must_use]
    pub fn new(original: impl AsRef<[u8]>) -> Self {
        let original = original.as_ref();
        let mut shown = String::with_capacity(original.len().min(MAX));
        let whole = escape_into(&mut shown, original, MAX);
        let cut = (!whole).then(|| Cut {
            bytes: u64::try_from(original.len()).unwrap_or(u64::MAX),
            sha256: Digest::of(original),
        });
        Self { shown, cut }
    }

    /// The escaped text, up to the cut.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.shown
    }

    /// What stood there, when it was longer than the bound.
    #[must_use]
    pub const fn cut(&self) -> Option<&Cut> {
        self.cut.as_ref()
    }
}

impl<const MAX: usize> fmt::Display for Text<MAX> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)?;
        match &self.cut {
            Some(cut) => write!(f, "… ({} bytes, sha256 {})", cut.bytes, cut.sha256),
            None => Ok(()),
        }
    }
}

impl<const MAX: usize> From<&str> for Text<MAX> {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

impl<const MAX: usize> From<&torno_policy::names::RuleName> for Text<MAX> {
    fn from(rule: &torno_policy::names::RuleName) -> Self {
        Self::new(rule.as_str())
    }
}

/// Appends the escaped bytes while they fit; whether all of them did.
fn escape_into(shown: &mut String, original: &[u8], limit: usize) -> bool {
    for chunk in original.utf8_chunks() {
        for character in chunk.valid().chars() {
            if !push_escaped(shown, character, limit) {
                return false;
            }
        }
        for byte in chunk.invalid() {
            if shown.len() + "\\xff".len() > limit {
                return false;
            }
            // Writing to a String can't fail.
            let _ = write!(shown, "\\x{byte:02x}");
        }
    }
    true
}

fn push_escaped(shown: &mut String, character: char, limit: usize) -> bool {
    let before = shown.len();
    if character == '\\' {
        shown.push_str("\\\\");
    } else if is_inert(character) {
        shown.push(character);
    } else {
        shown.extend(character.escape_unicode());
    }
    if shown.len() > limit {
        shown.truncate(before);
        return false;
    }
    true
}

/// Characters that show as themselves and change nothing around them: no control, no separator of
/// lines, no direction mark, no invisible joiner, no tag.
fn is_inert(character: char) -> bool {
    !(character.is_control()
        || matches!(
            character,
            '\u{ad}'
                | '\u{34f}'
                | '\u{61c}'
                | '\u{115f}'..='\u{1160}'
                | '\u{17b4}'..='\u{17b5}'
                | '\u{180b}'..='\u{180f}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{3164}'
                | '\u{fe00}'..='\u{fe0f}'
                | '\u{feff}'
                | '\u{ffa0}'
                | '\u{fff0}'..='\u{fffb}'
                | '\u{e0000}'..='\u{e0fff}'
        ))
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct CutForm<'a> {
    text: std::borrow::Cow<'a, str>,
    bytes: u64,
    sha256: Digest,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Form<'a> {
    Whole(String),
    Cut(CutForm<'a>),
}

impl<const MAX: usize> Serialize for Text<MAX> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.cut {
            None => serializer.serialize_str(&self.shown),
            Some(Cut { bytes, sha256 }) => CutForm {
                text: self.shown.as_str().into(),
                bytes,
                sha256,
            }
            .serialize(serializer),
        }
    }
}

impl<'de, const MAX: usize> Deserialize<'de> for Text<MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let (shown, cut) = match Form::deserialize(deserializer)? {
            Form::Whole(text) => (text, None),
            Form::Cut(CutForm {
                text,
                bytes,
                sha256,
            }) => (text.into_owned(), Some(Cut { bytes, sha256 })),
        };
        if shown.len() > MAX {
            return Err(D::Error::custom("a text is longer than its bound"));
        }
        if !shown.chars().all(is_inert) {
            return Err(D::Error::custom(
                "a text holds a character that is never printed",
            ));
        }
        Ok(Self { shown, cut })
    }
}

/// The first `MAX` of some items, and how many there were.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "ListForm<T>")]
pub struct List<T, const MAX: usize> {
    count: u64,
    first: Vec<T>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ListForm<T> {
    count: u64,
    first: Vec<T>,
}

impl<T, const MAX: usize> List<T, MAX> {
    /// Keeps the first `MAX` and counts the rest.
    pub fn new(items: impl IntoIterator<Item = T>) -> Self {
        let mut items = items.into_iter();
        let first: Vec<T> = items.by_ref().take(MAX).collect();
        let count = u64::try_from(first.len() + items.count()).unwrap_or(u64::MAX);
        Self { count, first }
    }

    /// How many there were.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// Those that were kept.
    #[must_use]
    pub fn first(&self) -> &[T] {
        &self.first
    }
}

impl<T, const MAX: usize> TryFrom<ListForm<T>> for List<T, MAX> {
    type Error = &'static str;
    fn try_from(form: ListForm<T>) -> Result<Self, Self::Error> {
        let kept = u64::try_from(form.first.len()).unwrap_or(u64::MAX);
        if form.first.len() > MAX || kept > form.count {
            return Err("a list holds more than its bound or its count");
        }
        Ok(Self {
            count: form.count,
            first: form.first,
        })
    }
}

#[cfg(test)]
mod tests;
