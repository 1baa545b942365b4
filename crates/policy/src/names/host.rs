// SPDX-License-Identifier: Apache-2.0
//! The canonical host: a lower-case A-label name without trailing dot, or an IP address.

use idna::uts46::{AsciiDenyList, DnsLength, Hyphens, Uts46};
use serde::{Deserialize, Serialize};
use smol_str::{SmolStr, ToSmolStr as _};
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
#[serde(try_from = "SmolStr", into = "SmolStr")]
pub enum Host {
    /// A DNS name: lower-case A-labels, no trailing dot.
    Name(SmolStr),
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
        if text.starts_with('[') {
            return parse_bracketed(text);
        }
        check_characters(text)?;
        let lower = text.to_ascii_lowercase();
        let name = lower.strip_suffix('.').unwrap_or(&lower);
        if name.is_empty() || name.len() > NAME_BYTES_MAX {
            return Err(HostError::Length);
        }
        if ends_in_number(name) {
            // A trailing dot belongs to names only, so the whole text must be the quad.
            return parse_quad(text);
        }
        name.split('.').try_for_each(check_label)?;
        check_punycode(name)?;
        Ok(Self::Name(SmolStr::new(name)))
    }

    /// Whether it is a cloud's metadata service, by name or address; the IPv4 ones also where they
    /// hide in IPv6.
    #[must_use]
    pub fn is_metadata(&self) -> bool {
        match self {
            Self::Name(name) => METADATA_NAMES.contains(&name.as_str()),
            Self::V4(address) => METADATA_V4.contains(address),
            Self::V6(address) => {
                let embedded = address.to_ipv4().or_else(|| embedded_v4(*address));
                METADATA_V6.contains(address)
                    || embedded.is_some_and(|address| METADATA_V4.contains(&address))
            }
        }
    }

    /// Whether it is an address and no name.
    #[must_use]
    pub fn is_address(&self) -> bool {
        self.name().is_none()
    }

    /// The one spelling.
    fn spelling(&self) -> SmolStr {
        match self {
            Self::Name(name) => name.clone(),
            Self::V4(_) | Self::V6(_) => self.to_smolstr(),
        }
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

/// Addresses and names under which clouds hand credentials to whoever asks from inside: AWS, Azure,
/// GCP, Oracle and OpenStack share the first; ECS, EKS, Alibaba and Azure's wire server follow.
const METADATA_V4: [Ipv4Addr; 5] = [
    Ipv4Addr::new(169, 254, 169, 254),
    Ipv4Addr::new(169, 254, 170, 2),
    Ipv4Addr::new(169, 254, 170, 23),
    Ipv4Addr::new(100, 100, 100, 200),
    Ipv4Addr::new(168, 63, 129, 16),
];
const METADATA_V6: [Ipv6Addr; 3] = [
    Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254),
    Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x23),
    Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254),
];
const METADATA_NAMES: [&str; 5] = [
    "metadata",
    "metadata.google.internal",
    "metadata.goog",
    "instance-data",
    "instance-data.ec2.internal",
];

/// LIMIT: 253 bytes is the longest name that DNS can carry (RFC 1035 §2.3.4, as text).
const NAME_BYTES_MAX: usize = 253;
/// LIMIT: 63 bytes is the longest DNS label (RFC 1035 §2.3.4).
const LABEL_BYTES_MAX: usize = 63;

fn parse_bracketed(text: &str) -> Result<Host, HostError> {
    let inside = text
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'));
    // The standard parser knows neither zones nor prefixes, so `%lo` and `/64` fail here.
    inside
        .and_then(|inside| inside.parse().ok())
        .map(Host::V6)
        .ok_or(HostError::Address)
}

/// NAT64 (64:ff9b::/96) and 6to4 (2002::/16) carry an IPv4 address.
fn embedded_v4(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let [a, b, c, d, .., g, h] = address.segments();
    let join = |high: u16, low: u16| Ipv4Addr::from((u32::from(high) << 16) | u32::from(low));
    match (a, b, c, d) {
        (0x64, 0xff9b, _, _) => Some(join(g, h)),
        (0x2002, high, low, _) => Some(join(high, low)),
        _ => None,
    }
}

fn parse_quad(text: &str) -> Result<Host, HostError> {
    // The standard parser takes four decimal parts without leading zeros and nothing else.
    text.parse().map(Host::V4).map_err(|_| HostError::Address)
}

fn check_characters(text: &str) -> Result<(), HostError> {
    // LIMIT: one more byte than a name, for the trailing dot; checked before anything is copied.
    if text.is_empty() || text.len() > NAME_BYTES_MAX + 1 {
        return Err(HostError::Length);
    }
    let known = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_');
    if text.bytes().all(known) {
        Ok(())
    } else {
        Err(HostError::Character)
    }
}

/// Resolvers read `0x7f.1`, `2130706433` and `010.0.0.1` as addresses; the last label tells
/// (WHATWG URL, "ends in a number").
fn ends_in_number(name: &str) -> bool {
    let last = name.rsplit('.').next().unwrap_or(name);
    let decimal = !last.is_empty() && last.bytes().all(|b| b.is_ascii_digit());
    let hexadecimal = last
        .strip_prefix("0x")
        .is_some_and(|hex| hex.bytes().all(|b| b.is_ascii_hexdigit()));
    decimal || hexadecimal
}

fn check_label(label: &str) -> Result<(), HostError> {
    let edged = |edge: char| label.starts_with(edge) || label.ends_with(edge);
    if label.is_empty() || label.len() > LABEL_BYTES_MAX || edged('-') {
        return Err(HostError::Label);
    }
    if edged('_') {
        Err(HostError::Character)
    } else {
        Ok(())
    }
}

/// An `xn--` label must decode, to something that is not plain ASCII, and encode to itself again.
fn check_punycode(name: &str) -> Result<(), HostError> {
    if !name.split('.').any(is_punycode) {
        return Ok(());
    }
    let uts46 = Uts46::new();
    let (decoded, valid) = uts46.to_unicode(name.as_bytes(), AsciiDenyList::URL, Hyphens::Allow);
    let plain = name
        .split('.')
        .zip(decoded.split('.'))
        .any(|(a, u)| is_punycode(a) && u.is_ascii());
    let again = uts46.to_ascii(
        decoded.as_bytes(),
        AsciiDenyList::URL,
        Hyphens::Allow,
        DnsLength::Verify,
    );
    let round_trip = again.is_ok_and(|again| again == name);
    if valid.is_ok() && !plain && round_trip {
        Ok(())
    } else {
        Err(HostError::Punycode)
    }
}

fn is_punycode(label: &str) -> bool {
    label.starts_with("xn--")
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

impl TryFrom<SmolStr> for Host {
    type Error = HostError;
    fn try_from(text: SmolStr) -> Result<Self, HostError> {
        let host = Self::parse(&text)?;
        if host.spelling() == text {
            Ok(host)
        } else {
            Err(HostError::Character)
        }
    }
}

impl From<Host> for SmolStr {
    fn from(host: Host) -> Self {
        host.spelling()
    }
}

#[cfg(test)]
mod tests;
