// SPDX-License-Identifier: Apache-2.0
//! What a far end saw: every connection, every name asked for, every request and every byte.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// LIMIT: plaintext kept of one connection; the canary search reads all of it, and no story sends
/// more than this in one connection but the streaming upload, whose body is counted, not kept.
const KEPT_BYTES_MAX: usize = 4 << 20;

/// One far end's book, shared by its connections.
#[derive(Debug, Clone, Default)]
pub struct Journal {
    connections: Arc<Mutex<Vec<Connection>>>,
}

/// One connection.
#[derive(Debug, Clone)]
pub struct Connection {
    /// When it was accepted.
    pub at: Instant,
    /// The address that was dialled.
    pub dialled: Option<SocketAddr>,
    /// The name in the TLS hello.
    pub sni: Option<String>,
    /// Plaintext that came in (its beginning), or raw bytes where TLS was not spoken.
    pub received: Vec<u8>,
    /// Plaintext that went out (its beginning).
    pub sent: Vec<u8>,
    /// When the last byte came in.
    pub last_byte: Option<Instant>,
    /// Bytes that came in.
    pub received_bytes: u64,
    /// Its requests.
    pub requests: Vec<Request>,
    /// It is over.
    pub closed: bool,
}

/// One request, as parsed by the far end's own server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Request {
    /// The method.
    pub method: String,
    /// The request target.
    pub target: String,
    /// Its header fields in order.
    pub headers: Vec<(String, Vec<u8>)>,
    /// Bytes of its body so far.
    pub body_bytes: u64,
    /// SHA-256 of the body, hex, once it was whole.
    pub body_sha256: Option<String>,
    /// What was answered.
    pub status: Option<u16>,
}

impl Request {
    /// The first field of that name, as text.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<String> {
        let mut fields = self.headers.iter();
        let field = fields.find(|(field, _)| field.eq_ignore_ascii_case(name))?;
        Some(String::from_utf8_lossy(&field.1).into_owned())
    }
}

/// Which connection of a journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionIndex(usize);

/// Which request of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestIndex(usize);

impl Journal {
    /// Everything so far.
    #[must_use]
    pub fn connections(&self) -> Vec<Connection> {
        self.book().clone()
    }

    /// Every request so far.
    #[must_use]
    pub fn requests(&self) -> Vec<Request> {
        self.book()
            .iter()
            .flat_map(|c| c.requests.clone())
            .collect()
    }

    /// How many connections there were: a mark for [`Journal::since`].
    #[must_use]
    pub fn mark(&self) -> usize {
        self.book().len()
    }

    /// Connections after a mark.
    #[must_use]
    pub fn since(&self, mark: usize) -> Vec<Connection> {
        self.book()
            .get(mark..)
            .map(<[Connection]>::to_vec)
            .unwrap_or_default()
    }

    /// Every byte of plaintext in both directions, for a search.
    #[must_use]
    pub fn plaintext(&self) -> Vec<u8> {
        let book = self.book();
        let parts = book
            .iter()
            .flat_map(|c| [c.received.as_slice(), c.sent.as_slice()]);
        parts.collect::<Vec<_>>().join(&b'\n')
    }

    /// Opens a page for a connection.
    pub(crate) fn open(&self) -> ConnectionIndex {
        let mut book = self.book();
        book.push(Connection {
            at: Instant::now(),
            dialled: None,
            sni: None,
            received: Vec::new(),
            sent: Vec::new(),
            last_byte: None,
            received_bytes: 0,
            requests: Vec::new(),
            closed: false,
        });
        ConnectionIndex(book.len() - 1)
    }

    /// Writes on a connection's page.
    pub(crate) fn write(&self, at: ConnectionIndex, change: impl FnOnce(&mut Connection)) {
        if let Some(connection) = self.book().get_mut(at.0) {
            change(connection);
        }
    }

    /// Adds a request to a connection's page.
    pub(crate) fn begin(&self, at: ConnectionIndex, request: Request) -> RequestIndex {
        let mut index = RequestIndex(0);
        self.write(at, |connection| {
            index = RequestIndex(connection.requests.len());
            connection.requests.push(request);
        });
        index
    }

    /// Writes to a request.
    pub(crate) fn amend(
        &self,
        at: ConnectionIndex,
        request: RequestIndex,
        change: impl FnOnce(&mut Request),
    ) {
        self.write(at, |connection| {
            if let Some(request) = connection.requests.get_mut(request.0) {
                change(request);
            }
        });
    }

    fn book(&self) -> MutexGuard<'_, Vec<Connection>> {
        self.connections
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Connection {
    /// Takes bytes that came in.
    pub(crate) fn receive(&mut self, bytes: &[u8]) {
        self.last_byte = Some(Instant::now());
        self.received_bytes += u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        keep(&mut self.received, bytes);
    }

    /// Takes bytes that went out.
    pub(crate) fn send(&mut self, bytes: &[u8]) {
        keep(&mut self.sent, bytes);
    }
}

fn keep(kept: &mut Vec<u8>, bytes: &[u8]) {
    let room = KEPT_BYTES_MAX.saturating_sub(kept.len());
    kept.extend_from_slice(bytes.get(..room).unwrap_or(bytes));
}
