// SPDX-License-Identifier: Apache-2.0
//! The canonical host: a lower-case A-label name without trailing dot, or an IP address.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};
use thiserror::Error;

/// Why bytes are not a host.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum HostError {
    /// Empty, or longer than 253 bytes.
    #[error("a host name has 1 to 253 bytes")]
    Length,
    /// A byte outside letters, digits, `-`, `.` (and `_` in a label's inside).
    #[error("a host name has letters, digits, `-` and `.` only")]
    Character,
    /// An empty label, a label over 63 bytes, or one that starts or ends with `-`.
    #[error("a label of the host name is empty, too long or edged with `-`")]
    Label,
    /// An `xn--` label that is not valid IDNA2008, or one that decodes to plain ASCII.
    #[error("an `xn--` label does not decode to the name it encodes")]
    Punycode,
    /// Digits and dots (or hex) that are not a dotted quad in its one spelling.
    #[error("an address must be written as a dotted quad or a bracketed IPv6 address")]
    Address,
}

/// A host in its one spelling.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Host {
    /// A DNS name: lower-case A-labels, no trailing dot.
    Name(String),
    /// An IPv4 address.
    V4(Ipv4Addr),
    /// An IPv6 address, without zone.
    V6(Ipv6Addr),
}

impl Host {
    /// Reads a host as it stands in a URL or a Host header, without port: IPv6 in brackets.
    /// Upper case is folded and one trailing dot is dropped; everything else that is not already
    /// canonical is refused.
    ///
    /// # Errors
    /// See [`HostError`].
    pub fn parse(text: &str) -> Result<Self, HostError> {
        let _ = text;
        unimplemented!()
    }

    /// The name, when this is one.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        match self {
            Self::Name(name) => Some(name),
            Self::V4(_) | Self::V6(_) => None,
        }
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::V4(address) => address.fmt(f),
            Self::V6(address) => write!(f, "[{address}]"),
        }
    }
}

impl TryFrom<String> for Host {
    type Error = HostError;
    fn try_from(text: String) -> Result<Self, HostError> {
        let host = Self::parse(&text)?;
        if host.to_string() == text { Ok(host) } else { Err(HostError::Character) }
    }
}

impl From<Host> for String {
    fn from(host: Host) -> Self {
        host.to_string()
    }
}
