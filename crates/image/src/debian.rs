// SPDX-License-Identifier: Apache-2.0
//! Debian by the names of its packages: what may be asked for, as values that no later word can be
//! made of. `mmdebstrap` makes the root directory, apt checks its sources by their keyring, and the
//! archive that comes out is unpacked like a stranger's.

mod run;
mod sources;

pub use run::{DebianError, Wanted, build, checks_age, is_installed};
pub use sources::{Source, SourceError, own_sources, own_suite};

use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// LIMIT: Debian's longest name of a package has some seventy characters.
const PACKAGE_CHARACTERS_MAX: usize = 128;
/// LIMIT: `bookworm-backports-sloppy`, and room.
const SUITE_CHARACTERS_MAX: usize = 64;
/// LIMIT: a host name and a path.
const MIRROR_CHARACTERS_MAX: usize = 512;
/// LIMIT: packages that are named; what they need comes besides.
pub const PACKAGES_MAX: usize = 512;

/// Why a word is none of these.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum NameError {
    /// Of a package.
    #[error(
        "a package's name has two or more of a-z, 0-9, `+`, `-` and `.`, begins with a letter or \
         digit and does not end with `-`; versions and architectures can't be asked for"
    )]
    Package,
    /// Of a suite.
    #[error("a suite's name has a-z, 0-9, `-` and `.`, and begins with a letter")]
    Suite,
    /// Of a mirror.
    #[error(
        "a mirror is `http://HOST/PATH` or `https://HOST/PATH`, without a name, password, question \
         mark or blank in it"
    )]
    Mirror,
}

macro_rules! word {
    ($name:ident, $what:literal, $error:ident, $is_one:ident) => {
        #[doc = $what]
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
        pub struct $name(String);

        impl FromStr for $name {
            type Err = NameError;

            fn from_str(text: &str) -> Result<Self, NameError> {
                if $is_one(text) {
                    Ok(Self(text.to_owned()))
                } else {
                    Err(NameError::$error)
                }
            }
        }

        impl $name {
            /// The spelling.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

word!(
    PackageName,
    "A package's name (Debian Policy §5.6.1). apt takes a `-` at its end for a wish to remove.",
    Package,
    is_package
);
word!(Suite, "A suite, as sources name it.", Suite, is_suite);
word!(
    Mirror,
    "Where packages come from. apt checks what comes by its keyring, so `http` does.",
    Mirror,
    is_mirror
);

fn is_package(text: &str) -> bool {
    let first = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let plain = |byte: u8| first(&byte) || matches!(byte, b'+' | b'-' | b'.');
    (2..=PACKAGE_CHARACTERS_MAX).contains(&text.len())
        && text.as_bytes().first().is_some_and(first)
        && text.bytes().all(plain)
        && !text.ends_with('-')
}

fn is_suite(text: &str) -> bool {
    let plain = |byte: u8| {
        byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'.')
    };
    (1..=SUITE_CHARACTERS_MAX).contains(&text.len())
        && text.starts_with(|first: char| first.is_ascii_lowercase())
        && text.bytes().all(plain)
}

fn is_mirror(text: &str) -> bool {
    let rest = text.strip_prefix("https://");
    let rest = rest.or_else(|| text.strip_prefix("http://"));
    let plain = |byte: u8| {
        byte.is_ascii_alphanumeric()
            || matches!(
                byte,
                b'.' | b'-' | b'_' | b'~' | b'/' | b':' | b'+' | b'%' | b'[' | b']'
            )
    };
    // Brackets hold an address of IPv6, and nothing else.
    let host_end = |rest: &str| rest.find('/').unwrap_or(rest.len());
    rest.is_some_and(|rest| {
        let (host, path) = rest.split_at(host_end(rest));
        !host.is_empty() && !path.contains(['[', ']'])
    }) && text.len() <= MIRROR_CHARACTERS_MAX
        && text.bytes().all(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_package_is_one_of_debians_and_no_option_of_anything() {
        for good in [
            "python3",
            "g++",
            "libstdc++-12-dev",
            "0ad",
            "python3.11",
            "nodejs",
        ] {
            assert!(good.parse::<PackageName>().is_ok(), "{good}");
        }
        for bad in [
            "",
            "a",
            "-y",
            "--mode=root",
            "Python",
            "a b",
            "a,b",
            "a=1",
            "a/sid",
            "a:i386",
            "apt-",
            "?obsolete",
            "~nx",
            "./x.deb",
            "/x.deb",
            "a\nb",
            "a*",
            "a_b",
            "é1",
            ".a",
            "+a",
        ] {
            assert_eq!(bad.parse::<PackageName>(), Err(NameError::Package), "{bad}");
        }
        let long = "a".repeat(PACKAGE_CHARACTERS_MAX + 1);
        assert!(long.parse::<PackageName>().is_err());
    }

    #[test]
    fn suites_and_mirrors_are_words_of_a_source_and_no_second_one() {
        for good in ["bookworm", "trixie-security", "sid", "bookworm-backports"] {
            assert!(good.parse::<Suite>().is_ok(), "{good}");
        }
        for bad in ["", "-x", "Bookworm", "a/b", "a b", "../a", "a\n"] {
            assert_eq!(bad.parse::<Suite>(), Err(NameError::Suite), "{bad}");
        }
        for good in [
            "http://mirror.test/debian",
            "https://mirror.test:8443/a/b/",
            "http://[::1]/",
        ] {
            assert!(good.parse::<Mirror>().is_ok(), "{good}");
        }
        for bad in [
            "",
            "http://",
            "http:///x",
            "ftp://mirror.test/",
            "file:///x",
            "mirror.test",
            "http://u:p@mirror.test/",
            "http://mirror.test/ x",
            "http://mirror.test/?a",
            "http://mirror.test/]",
            "[trusted=yes] http://mirror.test/",
            "http://m/\nx",
            "http://m/\"x",
            "copy:/x",
        ] {
            assert_eq!(bad.parse::<Mirror>(), Err(NameError::Mirror), "{bad}");
        }
    }
}
