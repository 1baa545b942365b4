// SPDX-License-Identifier: Apache-2.0
//! Canonical names: one spelling each, refused rather than repaired when there is doubt.
//!
//! Every name here is parsed once from hostile text and then compared byte by byte. Serde goes
//! through the same `parse`, so a name that came over a socket has passed the same door.

mod authority;
mod host;
mod id;
mod image;
mod path;

pub use authority::{Authority, AuthorityError};
pub use host::{Host, HostError};
pub use id::{
    BindingId, CheckpointName, CredentialName, Generation, IdError, ImageName, PresetName,
    RecordSeq, RuleName, SessionId, TenantName, ToolName,
};
pub use image::{ImageDigest, ImageDigestError};
pub(crate) use path::ENCODED_SLASH;
pub use path::{CREDENTIAL_WORD, Named, PathError, RequestPath};

use serde::{Deserialize, Serialize};
use smol_str::SmolStr;
use std::fmt;
use std::num::NonZeroU16;

/// The scheme of a request, known from how the bytes came (inside TLS or not), never from a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scheme {
    /// HTTP without TLS. No credential goes here.
    Http,
    /// HTTP over TLS that the gate ended.
    Https,
    /// PostgreSQL; towards the far end always over TLS.
    Postgres,
}

impl Scheme {
    /// The port a URL of this scheme means when it names none (RFC 9110 §4.2; libpq's default).
    #[must_use]
    pub const fn default_port(self) -> Port {
        match self {
            Self::Http => Port::HTTP,
            Self::Https => Port::HTTPS,
            Self::Postgres => Port::POSTGRES,
        }
    }

    /// The word before `://`.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
            Self::Postgres => "postgres",
        }
    }
}

/// A TCP port, 1 to 65535.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Port(NonZeroU16);

impl Port {
    /// 80
    pub const HTTP: Self = Self(NonZeroU16::new(80).unwrap());
    /// 443
    pub const HTTPS: Self = Self(NonZeroU16::new(443).unwrap());
    /// 5432
    pub const POSTGRES: Self = Self(NonZeroU16::new(5432).unwrap());

    /// A port from its number; 0 is no port.
    #[must_use]
    pub const fn new(number: u16) -> Option<Self> {
        match NonZeroU16::new(number) {
            Some(number) => Some(Self(number)),
            None => None,
        }
    }

    /// Reads decimal digits only: no sign, no space, no leading zero, at most 65535.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.as_bytes();
        if digits.is_empty() || digits.len() > 5 || digits.first() == Some(&b'0') {
            return None;
        }
        if !digits.iter().all(u8::is_ascii_digit) {
            return None;
        }
        text.parse::<u16>().ok().and_then(Self::new)
    }

    /// The number.
    #[must_use]
    pub const fn number(self) -> u16 {
        self.0.get()
    }
}

impl fmt::Display for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Where a request goes: the canonical triple that decides, dials, injects and is logged (I4).
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Endpoint {
    /// Inside TLS or not.
    pub scheme: Scheme,
    /// The canonical host.
    pub host: Host,
    /// The port.
    pub port: Port,
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = self.scheme.word();
        write!(f, "{scheme}://{}:{}", self.host, self.port)
    }
}

/// A request method: an upper-case token of at most 20 letters, compared exactly (RFC 9110 §9.1).
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "SmolStr", into = "SmolStr")]
pub struct Method(SmolStr);

impl Method {
    /// Upper-case ASCII letters and `-` only, 1 to 20 of them; CONNECT, TRACE and TRACK are not
    /// request methods here.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::try_from(SmolStr::new(text)).ok()
    }

    /// A word of this crate, which keeps the rule of [`Self::parse`].
    pub(crate) const fn known(word: &'static str) -> Self {
        Self(SmolStr::new_static(word))
    }

    /// The token.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<SmolStr> for Method {
    type Error = &'static str;
    fn try_from(text: SmolStr) -> Result<Self, Self::Error> {
        let fits = (1..=20).contains(&text.len())
            && text.bytes().all(|b| b.is_ascii_uppercase() || b == b'-');
        let refused = matches!(text.as_str(), "CONNECT" | "TRACE" | "TRACK");
        if fits && !refused {
            Ok(Self(text))
        } else {
            Err("not a request method")
        }
    }
}

impl From<Method> for SmolStr {
    fn from(method: Method) -> Self {
        method.0
    }
}
