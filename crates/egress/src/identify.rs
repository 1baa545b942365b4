// SPDX-License-Identifier: Apache-2.0
//! Phase 2: who asks and for what. The session is the one whose ports this pipeline holds: nothing
//! in the bytes says or changes it (I3). The destination is what the link says was dialled; the
//! first bytes say only which protocol follows.

use crate::postgres::startup;
use crate::refuse::Fault;
use std::fmt;
use std::net::SocketAddr;
use torno_policy::Reason;
use torno_policy::facts::Entry;
use torno_policy::names::{Authority, Host, Port, Scheme};

/// What a captured connection was dialled to, as the session's network saw it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AskedDestination {
    /// The address and port that the program dialled.
    pub address: SocketAddr,
    /// The name that this address was handed out for by the session's DNS stub.
    pub name: Option<Host>,
}

/// What a connection asked for, whichever way it came in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Asked {
    /// A name and a port.
    Name(Authority),
    /// An address that stands for no name. Every request on it is refused, readably.
    Address(SocketAddr),
    /// The loopback proxy itself: each request's target says it.
    Proxy,
}

impl fmt::Display for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(authority) => authority.fmt(f),
            Self::Address(address) => address.fmt(f),
            Self::Proxy => f.write_str("proxy"),
        }
    }
}

impl From<AskedDestination> for Asked {
    fn from(destination: AskedDestination) -> Self {
        let port = Port::new(destination.address.port());
        match (destination.name, port) {
            (Some(host @ Host::Name(_)), Some(port)) => Self::Name(Authority { host, port }),
            _ => Self::Address(destination.address),
        }
    }
}

/// How requests arrive on one connection.
#[derive(Debug, Clone)]
pub(crate) struct Arrival {
    pub(crate) entry: Entry,
    /// Known from whether the bytes came inside TLS.
    pub(crate) scheme: Scheme,
    pub(crate) asked: Asked,
    /// Set when the TLS hello already disagreed: every request is answered with it.
    pub(crate) disagreement: Option<Fault>,
}

/// What a connection's first bytes are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Opening {
    /// A TLS handshake record.
    Tls,
    /// An HTTP request line.
    Http,
    /// The first packet of PostgreSQL.
    Postgres,
}

/// Looks at the first bytes; `None` asks for more. Nothing is consumed.
pub(crate) fn opening(bytes: &[u8]) -> Result<Option<Opening>, Fault> {
    // ATTACK: 070 – what is neither is refused before a byte of it goes anywhere.
    let unknown = not_http();
    match bytes.first() {
        None => Ok(None),
        Some(0x16) => match bytes.get(1) {
            None => Ok(None),
            Some(3) => Ok(Some(Opening::Tls)),
            Some(_) => Err(unknown),
        },
        Some(0) => match startup::opens(bytes) {
            None => Ok(None),
            Some(true) => Ok(Some(Opening::Postgres)),
            Some(false) => Err(unknown),
        },
        Some(_) => {
            // LIMIT: the longest method has 20 letters, as in `policy::names::Method`.
            let method = bytes.iter().take(21).take_while(|b| is_method_byte(**b));
            let length = method.count();
            match bytes.get(length) {
                // Longer than any method: no byte that comes later changes that.
                _ if length > 20 => Err(unknown),
                // A CR, LF or space up front is HTTP gone wrong: its parser says so.
                Some(b' ' | b'\r' | b'\n' | b'\t') => Ok(Some(Opening::Http)),
                Some(_) => Err(unknown),
                None => Ok(None),
            }
        }
    }
}

pub(crate) fn not_http() -> Fault {
    Fault::new(
        Reason::UnknownProtocol,
        "speak HTTP/1.1, inside TLS or not, or PostgreSQL: nothing else leaves the sandbox",
    )
}

/// Lower case is no method, but it is HTTP enough to be told so.
fn is_method_byte(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || byte == b'-'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_tls_record_or_a_request_line_opens_a_connection() {
        assert_eq!(opening(b""), Ok(None));
        assert_eq!(opening(b"\x16"), Ok(None));
        assert_eq!(opening(b"\x16\x03"), Ok(Some(Opening::Tls)));
        assert_eq!(opening(b"GE"), Ok(None));
        assert_eq!(opening(b"GET /"), Ok(Some(Opening::Http)));
        assert_eq!(opening(b"\r\nGET /"), Ok(Some(Opening::Http)));
        let start = b"\0\0\0\x09\0\x03\0\0\0";
        assert_eq!(opening(start), Ok(Some(Opening::Postgres)));
        assert_eq!(opening(&start[..7]), Ok(None));
        // ATTACK: 070, 124
        for bytes in [
            &b"SSH-2.0-x"[..],
            b"\x16\x02",
            b"\0\x01",
            b"\0\0\0\0\0\0\0\0",
            b"\r\n\r\n\0\r\nQUIT\n\x21".get(4..).unwrap_or_default(),
            b"PROXY/",
            b"ABCDEFGHIJKLMNOPQRSTUVWXYZ",
            b"ABCDEFGHIJKLMNOPQRSTU /",
        ] {
            let fault = opening(bytes).unwrap_err();
            assert_eq!(fault.reason, Reason::UnknownProtocol);
        }
    }
}
