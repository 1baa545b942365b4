// SPDX-License-Identifier: Apache-2.0
//! Path patterns: exact segments, `*` for one segment, a final `/**` for the rest, and `%2F`
//! spelled out where a segment has an encoded slash.

use crate::names::{CREDENTIAL_WORD, ENCODED_SLASH, PathError, RequestPath};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Why a text is not a path pattern.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PathPatternError {
    /// It does not start with `/`.
    #[error("a path pattern starts with `/`")]
    Start,
    /// It has a query: rules are about paths only.
    #[error("a path pattern has no query; rules are about paths only")]
    Query,
    /// `**` stands elsewhere than at the end.
    #[error("`**` stands only as the last segment, as in `/v1/**`")]
    DoubleStar,
    /// A `*` beside other characters of its segment.
    #[error("`*` stands for one whole segment or one part beside `%2F`; write a star as `%2A`")]
    PartialStar,
    /// No request path looks like this.
    #[error("no request path looks like this: {0}")]
    Path(#[from] PathError),
    /// Another spelling of a canonical path: it would never match.
    #[error("write it as `{0}`: this is the one spelling that requests are compared in")]
    Spelling(String),
}

/// A pattern of canonical paths, compiled when made.
///
/// `/v1/*/items` has one segment for its star. `/v1/**` is `/v1` itself and everything below it.
/// A trailing slash is a segment of its own (an empty one), which no `*` stands for.
///
/// A segment with an encoded slash is meant by a pattern only that spells `%2F` there: `/*%2F*` is
/// one segment of two parts. Neither `*` nor `/**` stands for such a segment, so no rule that was
/// written without it has two meanings.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PathPattern {
    segments: Vec<Segment>,
    /// Whether everything below counts too.
    below: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Segment {
    Exact(String),
    Any,
    /// Two parts or more, with encoded slashes between.
    Parts(Vec<Part>),
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Part {
    Exact(String),
    Any,
}

impl PathPattern {
    /// Compiles a pattern; only the canonical spelling is taken.
    ///
    /// # Errors
    /// See [`PathPatternError`].
    pub fn parse(text: &str) -> Result<Self, PathPatternError> {
        if !text.starts_with('/') {
            return Err(PathPatternError::Start);
        }
        if text.contains('?') {
            return Err(PathPatternError::Query);
        }
        let (above, below) = match text.strip_suffix("/**") {
            Some(above) => (above, true),
            None => (text, false),
        };
        // `/**` alone has nothing above it, and `/` is then the path to look at.
        let path = RequestPath::parse_named(if above.is_empty() { "/" } else { above })?;
        if !above.is_empty() && path.path() != above {
            let rest = if below { "/**" } else { "" };
            return Err(PathPatternError::Spelling(format!("{}{rest}", path.path())));
        }
        if below && above.ends_with('/') {
            return Err(PathPatternError::Path(PathError::Segment));
        }
        let segments = above
            .split('/')
            .skip(1)
            .map(Segment::parse)
            .collect::<Result<_, _>>()?;
        Ok(Self { segments, below })
    }

    /// Whether a canonical path is meant. The query takes no part.
    #[must_use]
    pub fn is_match(&self, path: &RequestPath) -> bool {
        self.is_match_by(path, |wanted, given| wanted == given)
    }

    /// As [`Self::is_match`], but letters of either case are the same: for who forbids.
    pub(super) fn is_match_in_any_case(&self, path: &RequestPath) -> bool {
        self.is_match_by(path, str::eq_ignore_ascii_case)
    }

    fn is_match_by(&self, path: &RequestPath, same: fn(&str, &str) -> bool) -> bool {
        let mut given = path.path().split('/').skip(1);
        for wanted in &self.segments {
            let fits = |segment| wanted.is_match(segment, same);
            if !given.next().is_some_and(fits) {
                return false;
            }
        }
        if self.below {
            given.all(|segment| !segment.contains(ENCODED_SLASH))
        } else {
            given.next().is_none()
        }
    }

    /// The text that every path it means begins with, up to a slash or the end: its exact segments
    /// before any other.
    pub(crate) fn beginning(&self) -> String {
        let mut text = String::new();
        for segment in &self.segments {
            let Segment::Exact(exact) = segment else {
                break;
            };
            text.push('/');
            text.push_str(exact);
        }
        text
    }

    /// The one segment with `{credential}` in it: its number, and what stands before and after the
    /// word. Nothing when there is none or more than one.
    pub(super) fn credential(&self) -> Option<(usize, &str, &str)> {
        let mut found = None;
        for (number, segment) in self.segments.iter().enumerate() {
            let text = match segment {
                Segment::Exact(text) => text,
                Segment::Any => continue,
                Segment::Parts(parts) if parts.iter().any(Part::has_word) => return None,
                Segment::Parts(_) => continue,
            };
            if let Some((before, after)) = text.split_once(CREDENTIAL_WORD) {
                if found.is_some() || after.contains(CREDENTIAL_WORD) {
                    return None;
                }
                found = Some((number, before, after));
            }
        }
        found
    }

    /// Whether `{credential}` stands in it anywhere.
    pub(super) fn has_word(&self) -> bool {
        self.to_string().contains(CREDENTIAL_WORD)
    }

    /// Whether every path that `other` means is meant by this one too.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        let longer = other.segments.len() > self.segments.len() || other.below;
        if other.segments.len() < self.segments.len() || (longer && !self.below) {
            return false;
        }
        let rest = other.segments.iter().skip(self.segments.len());
        let mut rest = rest.map(|segment| !matches!(segment, Segment::Parts(_)));
        let mut pairs = self.segments.iter().zip(&other.segments);
        pairs.all(|(mine, theirs)| mine.covers(theirs)) && rest.all(|plain| plain)
    }
}

impl Segment {
    fn parse(text: &str) -> Result<Self, PathPatternError> {
        if text.contains("**") {
            return Err(PathPatternError::DoubleStar);
        }
        let parts = text.split(ENCODED_SLASH).map(Part::parse);
        if text.contains(ENCODED_SLASH) {
            return parts.collect::<Result<_, _>>().map(Self::Parts);
        }
        Ok(match Part::parse(text)? {
            Part::Exact(exact) => Self::Exact(exact),
            Part::Any => Self::Any,
        })
    }

    fn is_match(&self, given: &str, same: fn(&str, &str) -> bool) -> bool {
        match self {
            Self::Exact(exact) => same(exact, given),
            Self::Any => !given.is_empty() && !given.contains(ENCODED_SLASH),
            Self::Parts(parts) => {
                let mut given = given.split(ENCODED_SLASH);
                let fits = |part: &Part| match (part, given.next()) {
                    (Part::Exact(exact), Some(given)) => same(exact, given),
                    (Part::Any, Some(given)) => !given.is_empty(),
                    (Part::Exact(_) | Part::Any, None) => false,
                };
                parts.iter().all(fits) && given.next().is_none()
            }
        }
    }

    fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Any, Self::Exact(exact)) => !exact.is_empty(),
            (Self::Any, Self::Any) => true,
            (Self::Any, Self::Parts(_)) => false,
            (Self::Exact(_), _) => self == other,
            (Self::Parts(mine), Self::Parts(theirs)) => {
                let fits = |(mine, theirs): (&Part, &Part)| *mine == Part::Any || mine == theirs;
                mine.len() == theirs.len() && mine.iter().zip(theirs).all(fits)
            }
            (Self::Parts(_), Self::Exact(_) | Self::Any) => false,
        }
    }
}

impl Part {
    fn has_word(&self) -> bool {
        matches!(self, Self::Exact(text) if text.contains(CREDENTIAL_WORD))
    }

    fn parse(text: &str) -> Result<Self, PathPatternError> {
        match text {
            "*" => Ok(Self::Any),
            _ if text.contains('*') => Err(PathPatternError::PartialStar),
            _ => Ok(Self::Exact(text.to_owned())),
        }
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Exact(exact) => exact,
            Self::Any => "*",
        })
    }
}

impl fmt::Display for PathPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for segment in &self.segments {
            match segment {
                Segment::Exact(exact) => write!(f, "/{exact}")?,
                Segment::Any => f.write_str("/*")?,
                Segment::Parts(parts) => {
                    let mut between = "/";
                    for part in parts {
                        write!(f, "{between}{part}")?;
                        between = ENCODED_SLASH;
                    }
                }
            }
        }
        f.write_str(if self.below { "/**" } else { "" })
    }
}

impl TryFrom<String> for PathPattern {
    type Error = PathPatternError;
    fn try_from(text: String) -> Result<Self, Self::Error> {
        Self::parse(&text)
    }
}

impl From<PathPattern> for String {
    fn from(pattern: PathPattern) -> Self {
        pattern.to_string()
    }
}

#[cfg(test)]
mod tests;
