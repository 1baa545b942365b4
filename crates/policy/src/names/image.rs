// SPDX-License-Identifier: Apache-2.0
//! What an image is called: by the digest of its manifest, or by a name of this machine that stands
//! for one.

use serde::{Deserialize, Serialize};
use smol_str::SmolStr;
use std::fmt;
use thiserror::Error;

/// Why a text is no image's digest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("an image's digest is `sha256:` and 64 characters of `0-9 a-f`")]
pub struct ImageDigestError;

/// The SHA-256 of an image's manifest: the image itself, whatever it is called.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "SmolStr", into = "SmolStr")]
pub struct ImageDigest(SmolStr);

/// The one algorithm; what else OCI knows is refused.
const ALGORITHM: &str = "sha256:";
/// LIMIT: SHA-256 in hexadecimal.
const HEX_CHARACTERS: usize = 64;

impl ImageDigest {
    /// Reads the one spelling.
    ///
    /// # Errors
    /// [`ImageDigestError`] for any other.
    pub fn parse(text: &str) -> Result<Self, ImageDigestError> {
        let hex = text.strip_prefix(ALGORITHM).ok_or(ImageDigestError)?;
        let plain = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        if hex.len() == HEX_CHARACTERS && hex.bytes().all(plain) {
            Ok(Self(SmolStr::new(text)))
        } else {
            Err(ImageDigestError)
        }
    }

    /// The spelling.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The 64 characters after the algorithm: a file's name.
    #[must_use]
    pub fn hex(&self) -> &str {
        self.0.strip_prefix(ALGORITHM).unwrap_or(&self.0)
    }
}

impl fmt::Display for ImageDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<SmolStr> for ImageDigest {
    type Error = ImageDigestError;
    fn try_from(text: SmolStr) -> Result<Self, ImageDigestError> {
        Self::parse(&text)
    }
}

impl From<ImageDigest> for SmolStr {
    fn from(digest: ImageDigest) -> Self {
        digest.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_has_one_spelling() {
        let hex = "0123456789abcdef".repeat(4);
        let digest = ImageDigest::parse(&format!("sha256:{hex}")).unwrap();
        assert_eq!(digest.hex(), hex);
        for bad in [
            hex.clone(),
            format!("sha512:{hex}"),
            format!("SHA256:{hex}"),
            format!("sha256:{}", hex.to_uppercase()),
            format!("sha256:{hex}0"),
            format!("sha256:{}", hex.replacen('0', "", 1)),
            format!("sha256:{}", hex.replacen('0', "/", 1)),
            format!("sha256:{}", hex.replacen("012", "../", 1)),
            String::new(),
        ] {
            assert_eq!(ImageDigest::parse(&bad), Err(ImageDigestError), "{bad}");
        }
    }
}
