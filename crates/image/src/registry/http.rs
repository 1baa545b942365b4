// SPDX-License-Identifier: Apache-2.0
//! As much HTTP/1.1 over TLS as a registry takes: one GET for each connection, a bounded head, a
//! body of one plain framing. What could be framed in two ways is refused.

mod body;

use crate::archive::EntryPath;
use body::Body;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use std::fmt;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;

/// LIMIT: a far end that says nothing for so long is gone.
const QUIET_MAX: Duration = Duration::from_secs(30);
/// LIMIT: one address of a name.
const CONNECT_WAIT: Duration = Duration::from_secs(10);
/// LIMIT: heads of registries have a few kB, with cookies and policies.
const HEAD_BYTES_MAX: u64 = 64 << 10;
/// LIMIT: lines of a head.
const HEADERS_MAX: usize = 100;

/// Why there is no answer.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum HttpError {
    /// Roots.
    #[error("`{0}` holds no certificate that can be used")]
    Roots(PathBuf),
    /// The system's own roots.
    #[error("this system has no trust bundle; name one with `--ca-file`")]
    NoRoots,
    /// No connection.
    #[error("`{0}` can't be reached")]
    Connect(String, #[source] io::Error),
    /// No TLS.
    #[error("`{0}` can't be spoken to over TLS")]
    Tls(String, #[source] rustls::Error),
    /// It broke.
    #[error("the connection broke")]
    Read(#[source] io::Error),
    /// A head.
    #[error("the answer can't be read: {0}")]
    Head(&'static str),
    /// A redirection.
    #[error("the registry points to `{0}`, which is not followed")]
    Redirect(String),
}

/// Whom to trust.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trust {
    /// The system's roots.
    System,
    /// These alone.
    File(PathBuf),
}

/// A host and port that speak TLS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) host: String,
    pub(super) port: u16,
}

impl Place {
    /// `host` or `host:port`; a name, no address in brackets.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (host, port) = match text.split_once(':') {
            Some((host, port)) => (host, port.parse().ok().filter(|port| *port != 0)?),
            None => (text, 443),
        };
        let plain = |byte: u8| {
            byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'.' | b'-')
        };
        let ok = !host.is_empty() && host.len() <= 253 && host.bytes().all(plain);
        ok.then(|| Self {
            host: host.to_owned(),
            port,
        })
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.port {
            443 => f.write_str(&self.host),
            port => write!(f, "{}:{port}", self.host),
        }
    }
}

/// Where a far end points to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) place: Place,
    /// Path and query.
    pub(super) path: String,
}

impl Target {
    /// An `https` URL, or a path at the same place.
    pub(super) fn parse(text: &str, at: &Place) -> Option<Self> {
        let plain = text
            .bytes()
            .all(|byte| byte.is_ascii_graphic() && byte != b'#');
        if !plain {
            return None;
        }
        if text.starts_with('/') && !text.starts_with("//") {
            return Some(Self {
                place: at.clone(),
                path: text.to_owned(),
            });
        }
        let rest = text.strip_prefix("https://")?;
        let (place, path) = match rest.split_once('/') {
            Some((place, path)) => (place, format!("/{path}")),
            None => (rest, "/".to_owned()),
        };
        Some(Self {
            place: Place::parse(&place.to_ascii_lowercase())?,
            path,
        })
    }
}

/// An answer; its body is read from the connection.
pub(super) struct Response {
    pub(super) status: u16,
    headers: Vec<(String, String)>,
    pub(super) body: Box<dyn Read>,
}

impl Response {
    /// The first header of that name.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }
}

/// A client.
#[derive(Debug, Clone)]
pub struct Http {
    tls: Arc<ClientConfig>,
}

impl Http {
    /// With these roots.
    ///
    /// # Errors
    /// [`HttpError`] when there are none.
    pub fn new(trust: &Trust) -> Result<Self, HttpError> {
        let mut roots = RootCertStore::empty();
        match trust {
            Trust::System => {
                let found = rustls_native_certs::load_native_certs().certs;
                if roots.add_parsable_certificates(found).0 == 0 {
                    return Err(HttpError::NoRoots);
                }
            }
            Trust::File(path) => add_file(&mut roots, path)?,
        }
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let tls = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| HttpError::Tls("anybody".to_owned(), error))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self { tls: Arc::new(tls) })
    }

    /// One GET. `headers` are whole lines.
    pub(super) fn get(&self, target: &Target, headers: &[&str]) -> Result<Response, HttpError> {
        let mut stream = self.connect(&target.place)?;
        let mut head = format!("GET {} HTTP/1.1\r\nHost: {}\r\n", target.path, target.place);
        for header in headers {
            head.push_str(header);
            head.push_str("\r\n");
        }
        head.push_str(
            "User-Agent: torno\r\nAccept-Encoding: identity\r\nConnection: close\r\n\r\n",
        );
        let sent = stream
            .write_all(head.as_bytes())
            .and_then(|()| stream.flush());
        sent.map_err(HttpError::Read)?;
        let mut stream = BufReader::new(stream);
        let (status, headers) = read_head(&mut stream)?;
        let body = Body::of(&headers, stream)?;
        Ok(Response {
            status,
            headers,
            body: Box::new(body),
        })
    }

    fn connect(
        &self,
        place: &Place,
    ) -> Result<StreamOwned<ClientConnection, TcpStream>, HttpError> {
        let unreachable = |error| HttpError::Connect(place.to_string(), error);
        let unspoken = |error| HttpError::Tls(place.to_string(), error);
        let addresses = (place.host.as_str(), place.port).to_socket_addrs();
        let mut outcome = Err(io::Error::other("the name has no address"));
        for address in addresses.map_err(unreachable)? {
            outcome = TcpStream::connect_timeout(&address, CONNECT_WAIT);
            if outcome.is_ok() {
                break;
            }
        }
        let socket = outcome.map_err(unreachable)?;
        let limited = socket
            .set_read_timeout(Some(QUIET_MAX))
            .and_then(|()| socket.set_write_timeout(Some(QUIET_MAX)));
        limited.map_err(unreachable)?;
        let name = ServerName::try_from(place.host.clone())
            .map_err(|_| HttpError::Head("the host is no name"))?;
        let tls = ClientConnection::new(Arc::clone(&self.tls), name).map_err(unspoken)?;
        Ok(StreamOwned::new(tls, socket))
    }
}

fn add_file(roots: &mut RootCertStore, path: &Path) -> Result<(), HttpError> {
    use rustls::pki_types::CertificateDer;
    use rustls::pki_types::pem::PemObject;
    let unusable = || HttpError::Roots(path.to_owned());
    let certificates = CertificateDer::pem_file_iter(path).map_err(|_| unusable())?;
    let mut count = 0;
    for certificate in certificates {
        roots
            .add(certificate.map_err(|_| unusable())?)
            .map_err(|_| unusable())?;
        count += 1;
    }
    if count == 0 { Err(unusable()) } else { Ok(()) }
}

type Head = (u16, Vec<(String, String)>);

/// A status line and headers, in lower case; nothing folded.
fn read_head(stream: &mut impl BufRead) -> Result<Head, HttpError> {
    let mut stream = stream.take(HEAD_BYTES_MAX);
    let mut next = || -> Result<String, HttpError> {
        let mut line = Vec::new();
        stream
            .read_until(b'\n', &mut line)
            .map_err(HttpError::Read)?;
        let line = line
            .strip_suffix(b"\r\n")
            .ok_or(HttpError::Head("a line has no end"))?;
        let plain = line
            .iter()
            .all(|byte| *byte == b'\t' || (b' '..=b'~').contains(byte));
        if !plain {
            return Err(HttpError::Head("a line has other bytes than text"));
        }
        String::from_utf8(line.to_vec()).map_err(|_| HttpError::Head("a line is no text"))
    };
    let status = next()?;
    let status = status
        .strip_prefix("HTTP/1.1 ")
        .and_then(|rest| rest.get(..3));
    let status = status.and_then(|status| status.parse().ok());
    let status = status
        .filter(|status| (200..600).contains(status))
        .ok_or(HttpError::Head("it begins with no status"))?;
    let mut headers = Vec::new();
    loop {
        let line = next()?;
        if line.is_empty() {
            return Ok((status, headers));
        }
        let (name, value) = line
            .split_once(':')
            .ok_or(HttpError::Head("a header is none"))?;
        let token = |byte: u8| byte.is_ascii_alphanumeric() || b"-_!#$%&'*+.^`|~".contains(&byte);
        if name.is_empty() || !name.bytes().all(token) || headers.len() >= HEADERS_MAX {
            return Err(HttpError::Head("a header is none, or one too many"));
        }
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
}

/// A place of a redirection for a person.
pub(super) fn not_followed(text: &str) -> HttpError {
    HttpError::Redirect(EntryPath::inert(text.as_bytes()))
}

#[cfg(test)]
mod tests;
