// SPDX-License-Identifier: Apache-2.0
//! The register of identifiers: one type per thing.

use serde::{Deserialize, Serialize};
use smol_str::SmolStr;
use std::fmt;
use thiserror::Error;

/// Why a text is not an identifier.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum IdError {
    /// Length outside 1..=64.
    #[error("an identifier has 1 to 64 characters")]
    Length,
    /// A character outside the identifier's alphabet.
    #[error("an identifier has `a-z 0-9 - _ .` only, and starts with a letter or digit")]
    Character,
    /// A name that the product itself generates.
    #[error("names that start with `torno` or `system`, and the image `host`, are reserved")]
    Reserved,
}

fn check(text: &str) -> Result<(), IdError> {
    if text.is_empty() || text.len() > 64 {
        return Err(IdError::Length);
    }
    let ok =
        |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'-' | b'_' | b'.');
    let first_ok = text
        .bytes()
        .next()
        .is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    if first_ok && text.bytes().all(ok) && !text.contains("..") {
        Ok(())
    } else {
        Err(IdError::Character)
    }
}

/// Names that people choose stay out of the product's own.
fn check_chosen(text: &str) -> Result<(), IdError> {
    let reserved = text.starts_with("torno") || text.starts_with("system");
    check(text)?;
    // ATTACK: 238
    if reserved {
        Err(IdError::Reserved)
    } else {
        Ok(())
    }
}

/// The host's own `/usr` is no image that could be stored, or removed.
fn check_image(text: &str) -> Result<(), IdError> {
    check_chosen(text)?;
    if text == "host" {
        Err(IdError::Reserved)
    } else {
        Ok(())
    }
}

macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident, $check:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(try_from = "SmolStr", into = "SmolStr")]
        pub struct $name(SmolStr);

        impl $name {
            /// Reads the canonical spelling.
            ///
            /// # Errors
            /// When the text is not one: see [`IdError`].
            pub fn parse(text: &str) -> Result<Self, IdError> {
                $check(text)?;
                Ok(Self(SmolStr::new(text)))
            }

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

        impl TryFrom<SmolStr> for $name {
            type Error = IdError;
            fn try_from(text: SmolStr) -> Result<Self, IdError> {
                $check(&text)?;
                Ok(Self(text))
            }
        }

        impl From<$name> for SmolStr {
            fn from(id: $name) -> Self {
                id.0
            }
        }
    };
}

text_id! {
    /// A session: 26 characters of lower-case base32 (128 random bits), made by the desk.
    SessionId, check
}
text_id! {
    /// A credential's name in the vault, chosen by its owner.
    CredentialName, check_chosen
}
text_id! {
    /// A row that ties a credential to where it may go.
    BindingId, check_chosen
}
text_id! {
    /// A preset: the hosts that the operator confirmed for a client (`pip`, `npm`).
    PresetName, check_chosen
}
text_id! {
    /// A tenant: the owner of credentials, sessions and keys.
    TenantName, check_chosen
}
text_id! {
    /// A checkpoint of a session's workspace, chosen by a person or made by the desk.
    CheckpointName, check_chosen
}
text_id! {
    /// An image of this machine; `host` is none of them.
    ImageName, check_image
}

/// A tool of the tool layer: `bash`, `write`, `mcp:mail/send`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "SmolStr", into = "SmolStr")]
pub struct ToolName(SmolStr);

impl ToolName {
    /// 1 to 128 characters of `a-z A-Z 0-9 - _ . : /`.
    ///
    /// # Errors
    /// [`IdError::Length`] or [`IdError::Character`].
    pub fn parse(text: &str) -> Result<Self, IdError> {
        Self::try_from(SmolStr::new(text))
    }

    /// The spelling.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ToolName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<SmolStr> for ToolName {
    type Error = IdError;
    fn try_from(text: SmolStr) -> Result<Self, IdError> {
        if text.is_empty() || text.len() > 128 {
            return Err(IdError::Length);
        }
        let ok = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.' | b':' | b'/');
        if text.bytes().all(ok) {
            Ok(Self(text))
        } else {
            Err(IdError::Character)
        }
    }
}

impl From<ToolName> for SmolStr {
    fn from(name: ToolName) -> Self {
        name.0
    }
}

/// Names the rule that decided, for people and models: `grant.allow[2]`, `org.no-metadata`,
/// `default`. It is made by the product from positions and identifiers, never from a request.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RuleName(SmolStr);

impl RuleName {
    /// A rule's name from product text.
    #[must_use]
    pub fn new(text: impl Into<SmolStr>) -> Self {
        Self(text.into())
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RuleName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The fencing number of a session: a start or resume raises it, so that what belonged to an
/// earlier life is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Generation(pub u64);

/// The place of a record in the log, from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RecordSeq(pub u64);

impl fmt::Display for RecordSeq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // ATTACK: 227, 229, 238
    #[test]
    fn names_have_one_spelling_and_stay_out_of_the_products_own() {
        for text in ["github", "a", "c1.prod_eu-2", "9"] {
            assert!(CredentialName::parse(text).is_ok(), "{text}");
        }
        let long = "a".repeat(65);
        for text in [
            "", "A", "a b", "a/b", "../a", "a..b", ".a", "-a", "_a", "*", "a,b", "é", "a\0", "%2e",
            &long,
        ] {
            assert!(CredentialName::parse(text).is_err(), "{text}");
        }
        for text in ["torno", "torno-ca", "system.root"] {
            assert_eq!(BindingId::parse(text), Err(IdError::Reserved));
            assert!(SessionId::parse(text).is_ok());
        }
    }

    #[test]
    fn tool_names_keep_their_case_and_have_no_spaces() {
        for text in ["bash", "mcp:mail/send", "A.b_c-d"] {
            assert_eq!(
                ToolName::parse(text).map(|name| name.to_string()),
                Ok(text.to_owned())
            );
        }
        for text in ["", "a b", "a*", "é", "a\n", &"a".repeat(129)] {
            assert!(ToolName::parse(text).is_err(), "{text}");
        }
    }
}
