// SPDX-License-Identifier: Apache-2.0
//! What a person types: `registry.example/tools/python:3.12`, with or without `@sha256:…`. The
//! registry is always named: no name is looked up at somebody's registry by default.

use super::http::Place;
use std::fmt;
use thiserror::Error;
use torno_policy::names::ImageDigest;

/// Why a text names no image of a registry.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ReferenceError {
    /// No registry.
    #[error("name the registry too, as in `docker.io/library/python:3.12`")]
    Registry,
    /// The repository.
    #[error("`{0}` is no repository: parts of `a-z 0-9 . _ -` between slashes")]
    Repository(String),
    /// The tag.
    #[error("`{0}` is no tag: 1 to 128 characters of `A-Z a-z 0-9 . _ -`")]
    Tag(String),
    /// The digest.
    #[error("what follows `@` is no digest: `sha256:` and 64 characters of `0-9 a-f`")]
    Digest,
}

/// An image at a registry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference {
    place: Place,
    repository: String,
    tag: String,
    digest: Option<ImageDigest>,
}

/// LIMIT: what registries take.
const REPOSITORY_BYTES_MAX: usize = 255;
const TAG_BYTES_MAX: usize = 128;

impl Reference {
    /// Reads it.
    ///
    /// # Errors
    /// [`ReferenceError`].
    pub fn parse(text: &str) -> Result<Self, ReferenceError> {
        let (text, digest) = match text.split_once('@') {
            Some((text, digest)) => {
                let digest = ImageDigest::parse(digest).map_err(|_| ReferenceError::Digest)?;
                (text, Some(digest))
            }
            None => (text, None),
        };
        let (registry, rest) = text.split_once('/').ok_or(ReferenceError::Registry)?;
        let (repository, tag) = match rest.split_once(':') {
            Some((repository, tag)) => (repository, tag),
            None => (rest, "latest"),
        };
        // A name without a dot or a port is a part of a repository elsewhere.
        if !registry.contains(['.', ':']) && registry != "localhost" {
            return Err(ReferenceError::Registry);
        }
        // The one registry whose host is not its name.
        let host = if registry == "docker.io" {
            "registry-1.docker.io"
        } else {
            registry
        };
        let place = Place::parse(host).ok_or(ReferenceError::Registry)?;
        check_repository(repository)?;
        check_tag(tag)?;
        Ok(Self {
            place,
            repository: repository.to_owned(),
            tag: tag.to_owned(),
            digest,
        })
    }

    /// The registry's host and port.
    #[must_use]
    pub(super) fn place(&self) -> &Place {
        &self.place
    }

    /// The registry, as a person's own configuration has it.
    #[must_use]
    pub fn registry(&self) -> String {
        self.place.to_string()
    }

    pub(super) fn repository(&self) -> &str {
        &self.repository
    }

    pub(super) fn digest(&self) -> Option<&ImageDigest> {
        self.digest.as_ref()
    }

    /// Digest or tag.
    pub(super) fn wanted(&self) -> &str {
        self.digest.as_ref().map_or(&self.tag, ImageDigest::as_str)
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.place, self.repository)?;
        match &self.digest {
            Some(digest) => write!(f, "@{digest}"),
            None => write!(f, ":{}", self.tag),
        }
    }
}

fn check_repository(text: &str) -> Result<(), ReferenceError> {
    let plain = |byte: u8| {
        byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'.' | b'_' | b'-')
    };
    let part_ok = |part: &str| {
        let first = part.bytes().next();
        first.is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
            && part.bytes().all(plain)
            && !part.contains("..")
    };
    if text.len() <= REPOSITORY_BYTES_MAX && text.split('/').all(part_ok) {
        Ok(())
    } else {
        let inert = crate::archive::EntryPath::inert(text.as_bytes());
        Err(ReferenceError::Repository(inert))
    }
}

fn check_tag(text: &str) -> Result<(), ReferenceError> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    let first = text.bytes().next();
    let first_ok = first.is_some_and(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if first_ok && text.len() <= TAG_BYTES_MAX && text.bytes().all(plain) {
        Ok(())
    } else {
        let inert = crate::archive::EntryPath::inert(text.as_bytes());
        Err(ReferenceError::Tag(inert))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reference_names_registry_repository_and_tag_or_digest() {
        let read = Reference::parse("docker.io/library/python:3.12").unwrap();
        assert_eq!(read.registry(), "registry-1.docker.io");
        assert_eq!(
            (read.repository(), read.wanted()),
            ("library/python", "3.12")
        );
        let digest = format!("sha256:{}", "ab".repeat(32));
        let read = Reference::parse(&format!("r.test:5000/a/b@{digest}")).unwrap();
        assert_eq!(
            (read.registry().as_str(), read.wanted()),
            ("r.test:5000", digest.as_str())
        );
        assert_eq!(Reference::parse("r.test/a").unwrap().wanted(), "latest");
        for bad in [
            "python",
            "library/python",
            "r.test/../a",
            "r.test/A",
            "r.test/a:",
            "r.test/a:b/c",
            "r.test/a//b",
            "r.test/a@sha512:12",
            "r.test/a b",
            "r.test/a?x",
            "u@r.test/a",
            "r.test:0/a",
            "r.test:x/a",
            "r.test/",
            "/a",
            "r.test/a:b%2f",
            "[::1]/a",
        ] {
            assert!(Reference::parse(bad).is_err(), "{bad}");
        }
    }
}
