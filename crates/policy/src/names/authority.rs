// SPDX-License-Identifier: Apache-2.0
//! `host[:port]`, as it stands in a Host header, an absolute-form target or a CONNECT target.
//! Userinfo has no place in it: `@` is no byte of a host.

use super::{Host, HostError, Port, Scheme};
use std::fmt;
use thiserror::Error;

/// Why bytes are not an authority.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum AuthorityError {
    /// The part before the port is not a host.
    #[error(transparent)]
    Host(#[from] HostError),
    /// The port is empty, signed, 0, above 65535, has a leading zero, or is missing where it must
    /// stand.
    #[error("a port is a decimal number from 1 to 65535, without sign or leading zero")]
    Port,
}

/// A host and a port, both canonical.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Authority {
    /// The host.
    pub host: Host,
    /// The port.
    pub port: Port,
}

impl Authority {
    /// Reads `host[:port]`; where no port stands, it is the scheme's.
    ///
    /// # Errors
    /// See [`AuthorityError`].
    pub fn parse(text: &str, scheme: Scheme) -> Result<Self, AuthorityError> {
        let (host, port) = split(text);
        let port = match port {
            Some(digits) => Port::parse(digits).ok_or(AuthorityError::Port)?,
            None => scheme.default_port(),
        };
        Ok(Self {
            host: Host::parse(host)?,
            port,
        })
    }

    /// Reads `host:port`, the target of CONNECT: the port must stand there (RFC 9110 §9.3.6).
    ///
    /// # Errors
    /// See [`AuthorityError`].
    pub fn parse_with_port(text: &str) -> Result<Self, AuthorityError> {
        let (host, port) = split(text);
        let host = Host::parse(host)?;
        let port = port.and_then(Port::parse).ok_or(AuthorityError::Port)?;
        Ok(Self { host, port })
    }

    /// The two values.
    #[must_use]
    pub fn into_parts(self) -> (Host, Port) {
        (self.host, self.port)
    }
}

impl fmt::Display for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

/// Cuts at the last colon that stands after the brackets. Everything odd is left in one of the two
/// parts, whose own parsers refuse it.
fn split(text: &str) -> (&str, Option<&str>) {
    match text.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, Some(port)),
        Some(_) | None => (text, None),
    }
}

#[cfg(test)]
mod tests;
