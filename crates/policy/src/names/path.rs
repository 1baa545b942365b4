// SPDX-License-Identifier: Apache-2.0
//! The canonical request path: the same bytes decide and go on the wire.
//!
//! An encoded slash (`%2F`) is data of its segment, as RFC 3986 has it, and stays as it is; no
//! pattern that does not spell it means such a path. Servers that decode it first read a longer
//! path: so its parts are held to the rules of segments, and [`RequestPath::decoded`] is that
//! second reading for whoever forbids.

mod named;

pub use named::{CREDENTIAL_WORD, Named};

use serde::{Deserialize, Serialize};
use smol_str::SmolStr;
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
    /// A `%` without two hexadecimal digits, or one that hides `\`, `;`, `.`-segments or NUL.
    #[error("a percent-encoding in the path is malformed or hides a separator")]
    Escape,
    /// A `.`, `..` or empty segment, or part of a segment beside an encoded slash.
    #[error("a path has a dot segment or an empty segment")]
    Segment,
}

/// A path and the query that follows it. The path is canonical: unreserved escapes decoded, hex
/// digits of the others in upper case. The query's bytes are kept as they came (checked for
/// control bytes) and never take part in a path rule.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(
    try_from = "(SmolStr, Option<SmolStr>)",
    into = "(SmolStr, Option<SmolStr>)"
)]
pub struct RequestPath {
    path: SmolStr,
    query: Option<SmolStr>,
}

impl RequestPath {
    /// Reads an origin-form target (RFC 9112 §3.2.1).
    ///
    /// # Errors
    /// See [`PathError`].
    pub fn parse(target: &str) -> Result<Self, PathError> {
        // A client can't write what stands for a placeholder in this type.
        if target.contains(CREDENTIAL_WORD) {
            return Err(PathError::Character);
        }
        Self::parse_named(target)
    }

    /// Reads a target in which `{credential}` stands for a placeholder: patterns, rows and acts
    /// are written so. Never for bytes of a client.
    ///
    /// # Errors
    /// See [`PathError`].
    pub fn parse_named(target: &str) -> Result<Self, PathError> {
        if !target.starts_with('/') || target.len() > TARGET_BYTES_MAX {
            return Err(PathError::Form);
        }
        let (raw_path, query) = match target.split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (target, None),
        };
        let path = read_path(raw_path)?;
        check_query(query)?;
        Ok(Self {
            path,
            query: query.map(SmolStr::new),
        })
    }

    /// The canonical path.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The path as a server reads it that decodes slashes before it looks at segments; nothing
    /// when there is none to decode and both readings are one.
    #[must_use]
    pub fn decoded(&self) -> Option<Self> {
        self.path.contains(ENCODED_SLASH).then(|| Self {
            path: self.path.replace(ENCODED_SLASH, "/").into(),
            query: self.query.clone(),
        })
    }

    /// Every other way in which a server may read the path: slashes decoded or not, and the escapes
    /// of bytes that are canonical raw as well (`%3A` and `:`) decoded or not.
    pub(crate) fn readings(&self) -> Vec<Self> {
        if !self.path.contains('%') {
            return Vec::new();
        }
        let decoded = |path: &str| {
            let escapes = OTHER_ESCAPES.iter();
            escapes.fold(path.to_owned(), |path, (from, to)| path.replace(from, to))
        };
        let slashes = self.path.replace(ENCODED_SLASH, "/");
        let mut readings = vec![decoded(&self.path), decoded(&slashes), slashes];
        readings.sort();
        readings.dedup();
        readings.retain(|path| *path != self.path);
        let whole = |path: String| Self {
            path: path.into(),
            query: self.query.clone(),
        };
        readings.into_iter().map(whole).collect()
    }

    /// The query's bytes, without `?`.
    #[must_use]
    pub fn query(&self) -> Option<&str> {
        self.query.as_deref()
    }
}

/// A slash that is data of its segment, in its one spelling.
pub(crate) const ENCODED_SLASH: &str = "%2F";

/// Escapes of what may also stand in a path unescaped, but for the slash. Both are canonical: to
/// some servers they are not the same (RFC 3986 §2.2).
const OTHER_ESCAPES: [(&str, &str); 12] = [
    ("%21", "!"),
    ("%24", "$"),
    ("%26", "&"),
    ("%27", "'"),
    ("%28", "("),
    ("%29", ")"),
    ("%2A", "*"),
    ("%2B", "+"),
    ("%2C", ","),
    ("%3A", ":"),
    ("%3D", "="),
    ("%40", "@"),
];

/// LIMIT: 8192 bytes of target; RFC 9110 §4.1 asks for 8000, and real clients stay far below.
const TARGET_BYTES_MAX: usize = 8192;

/// The canonical path of raw text, in which `{credential}` may stand.
fn read_path(raw: &str) -> Result<SmolStr, PathError> {
    let mut path = String::with_capacity(raw.len());
    for (at, between) in raw.split(CREDENTIAL_WORD).enumerate() {
        if at > 0 {
            path.push_str(CREDENTIAL_WORD);
        }
        path.push_str(&canonical(between)?);
    }
    check_segments(&path)?;
    Ok(path.into())
}

fn check_query(query: Option<&str>) -> Result<(), PathError> {
    match query {
        Some(query) if !query.bytes().all(is_query_byte) => Err(PathError::Character),
        Some(_) | None => Ok(()),
    }
}

/// Decodes unreserved escapes, writes the others in upper case and refuses what could be read in
/// two ways.
fn canonical(raw: &str) -> Result<String, PathError> {
    let mut path = String::with_capacity(raw.len());
    // The bytes of the escapes that stand side by side and are not ASCII: they must be UTF-8.
    let mut wide = Vec::new();
    let mut rest = raw.bytes();
    while let Some(byte) = rest.next() {
        let escaped = byte == b'%';
        let byte = if escaped {
            unescape(rest.next(), rest.next())?
        } else {
            byte
        };
        if escaped && !byte.is_ascii() {
            wide.push(byte);
        } else {
            check_wide(&mut wide)?;
        }
        if escaped && !is_unreserved(byte) {
            if hides_separator(byte) {
                return Err(PathError::Escape);
            }
            push_escape(&mut path, byte);
        } else if escaped || is_path_byte(byte) {
            path.push(char::from(byte));
        } else {
            return Err(PathError::Character);
        }
    }
    check_wide(&mut wide)?;
    if has_double_escape(&path) {
        Err(PathError::Escape)
    } else {
        Ok(path)
    }
}

fn unescape(high: Option<u8>, low: Option<u8>) -> Result<u8, PathError> {
    let digit = |byte: Option<u8>| match byte? {
        digit @ b'0'..=b'9' => Some(digit - b'0'),
        digit @ b'a'..=b'f' => Some(digit - b'a' + 10),
        digit @ b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    };
    match (digit(high), digit(low)) {
        (Some(high), Some(low)) => Ok(high * 16 + low),
        _ => Err(PathError::Escape),
    }
}

fn push_escape(path: &mut String, byte: u8) {
    let digit = |nibble: u8| char::from_digit(u32::from(nibble), 16).unwrap_or('0');
    path.push('%');
    path.push(digit(byte >> 4).to_ascii_uppercase());
    path.push(digit(byte & 15).to_ascii_uppercase());
}

/// Overlong and broken sequences are refused: a server may repair them into something else.
fn check_wide(wide: &mut Vec<u8>) -> Result<(), PathError> {
    let valid = std::str::from_utf8(wide).is_ok();
    wide.clear();
    if valid {
        Ok(())
    } else {
        Err(PathError::Escape)
    }
}

/// `%252f` and the like, looked for in the canonical text so that `%25%32%66` counts too. A `%25`
/// before anything but two hexadecimal digits is a percent sign and stays.
fn has_double_escape(path: &str) -> bool {
    path.match_indices("%25").any(|(at, _)| {
        let mut after = path.bytes().skip(at + 3);
        let mut hex = || after.next().is_some_and(|b| b.is_ascii_hexdigit());
        hex() && hex()
    })
}

fn check_segments(path: &str) -> Result<(), PathError> {
    let mut segments = path.split('/').skip(1).peekable();
    while let Some(segment) = segments.next() {
        let last = segments.peek().is_none();
        // ATTACK: 075 – neither reading has a dot segment or an empty one.
        let mut parts = segment.split(ENCODED_SLASH);
        let alone = !segment.contains(ENCODED_SLASH);
        let odd = |part: &str| matches!(part, "." | "..") || (part.is_empty() && !(alone && last));
        if parts.any(odd) {
            return Err(PathError::Segment);
        }
    }
    Ok(())
}

fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

/// What may stand in a path unescaped (RFC 3986 pchar and `/`), without `;`: some servers cut
/// parameters at it, others don't.
fn is_path_byte(byte: u8) -> bool {
    is_unreserved(byte)
        || matches!(
            byte,
            b'/' | b'!' | b'$' | b'&' | b'\'' | b'(' | b')' | b'*' | b'+'
        )
        || matches!(byte, b',' | b'=' | b':' | b'@')
}

fn hides_separator(byte: u8) -> bool {
    byte.is_ascii_control() || matches!(byte, b'\\' | b';')
}

fn is_query_byte(byte: u8) -> bool {
    byte.is_ascii_graphic() && byte != b'#'
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

impl TryFrom<(SmolStr, Option<SmolStr>)> for RequestPath {
    type Error = PathError;
    /// The two parts as [`RequestPath::parse_named`] cuts them, canonical already.
    fn try_from((path, query): (SmolStr, Option<SmolStr>)) -> Result<Self, PathError> {
        let bytes = path.len() + query.as_ref().map_or(0, |query| 1 + query.len());
        if !path.starts_with('/') || bytes > TARGET_BYTES_MAX {
            return Err(PathError::Form);
        }
        check_query(query.as_deref())?;
        // A `?` is no byte of a path.
        if read_path(&path)? == path {
            Ok(Self { path, query })
        } else {
            Err(PathError::Form)
        }
    }
}

impl From<RequestPath> for (SmolStr, Option<SmolStr>) {
    fn from(path: RequestPath) -> Self {
        (path.path, path.query)
    }
}

#[cfg(test)]
mod tests;
