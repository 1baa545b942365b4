// SPDX-License-Identifier: Apache-2.0
//! TLS origins, on loopback or wherever they are put: accept, keep everything in the journal, serve
//! HTTP/1.1 with hyper.

use crate::world::journal::{ConnectionIndex, Journal, Request, RequestIndex};
use anyhow::{Context as _, Result};
use bytes::Bytes;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rustls::ServerConfig;
use sha2::{Digest, Sha256};
use std::convert::Infallible;
use std::future::Future;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

/// What an origin answers with.
pub type Answer = hyper::Response<BoxBody<Bytes, Infallible>>;

/// A request at an origin, with its page in the journal.
#[derive(Debug)]
pub struct Visit {
    /// The request.
    pub request: hyper::Request<Incoming>,
    journal: Journal,
    connection: ConnectionIndex,
    index: RequestIndex,
}

/// An origin's logic.
pub trait Origin: Send + Sync + 'static {
    /// Answers one request.
    fn answer(self: Arc<Self>, visit: Visit) -> impl Future<Output = Answer> + Send;
}

/// Where an origin listens and what it saw.
#[derive(Debug, Clone)]
pub struct Listening {
    /// Its address.
    pub address: SocketAddr,
    /// Its book.
    pub journal: Journal,
}

/// LIMIT: a body that an origin takes into memory.
const BODY_BYTES_MAX: usize = 64 << 20;

impl Visit {
    /// Reads the body to its end, noting each part in the journal as it comes.
    ///
    /// # Errors
    /// When the connection breaks, or the body is larger than an origin takes.
    pub async fn body(&mut self) -> Result<Vec<u8>> {
        let mut body = Vec::new();
        self.each_part(|part| {
            body.extend_from_slice(part);
            body.len() <= BODY_BYTES_MAX
        })
        .await?;
        Ok(body)
    }

    /// Reads the body to its end and keeps none of it.
    ///
    /// # Errors
    /// When the connection breaks.
    pub async fn drain(&mut self) -> Result<()> {
        self.each_part(|_| true).await
    }

    async fn each_part(&mut self, mut take: impl FnMut(&[u8]) -> bool) -> Result<()> {
        let mut digest = Sha256::new();
        while let Some(frame) = self.request.body_mut().frame().await {
            let frame = frame.context("the body broke off")?;
            if let Some(part) = frame.data_ref() {
                digest.update(part);
                let bytes = u64::try_from(part.len()).unwrap_or(u64::MAX);
                self.note(|request| request.body_bytes += bytes);
                anyhow::ensure!(take(part), "the body is too large for this origin");
            } else if let Some(trailers) = frame.trailers_ref() {
                let fields: Vec<_> = fields(trailers);
                self.note(|request| request.headers.extend(fields));
            }
        }
        let digest = data_encoding::HEXLOWER.encode(&digest.finalize());
        self.note(|request| request.body_sha256 = Some(digest));
        Ok(())
    }

    fn note(&self, change: impl FnOnce(&mut Request)) {
        self.journal.amend(self.connection, self.index, change);
    }

    /// A header field as text.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.request
            .headers()
            .get(name)
            .and_then(|value| value.to_str().ok())
    }
}

/// Listens on loopback and serves an origin until the runtime ends.
///
/// # Errors
/// When no port can be had.
pub async fn serve<O: Origin>(tls: Arc<ServerConfig>, origin: Arc<O>) -> Result<Listening> {
    let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no port")?;
    serve_at(listener, tls, origin)
}

/// Serves an origin on a listener until the runtime, which must be the current one, ends.
///
/// # Errors
/// When the listener can't be used.
pub fn serve_at<O: Origin>(
    listener: std::net::TcpListener,
    tls: Arc<ServerConfig>,
    origin: Arc<O>,
) -> Result<Listening> {
    listener.set_nonblocking(true).context("a listener")?;
    let listener = TcpListener::from_std(listener).context("a listener")?;
    let address = listener.local_addr().context("no address")?;
    let journal = Journal::default();
    let book = journal.clone();
    tokio::spawn(async move {
        let acceptor = TlsAcceptor::from(tls);
        while let Ok((stream, _)) = listener.accept().await {
            let (acceptor, book, origin) = (acceptor.clone(), book.clone(), Arc::clone(&origin));
            tokio::spawn(async move {
                let page = book.open();
                book.write(page, |connection| {
                    connection.dialled = stream.local_addr().ok()
                });
                // An origin meets broken clients all day; what matters is in the journal.
                let _broken = converse(stream, &acceptor, (&book, page), origin).await;
                book.write(page, |connection| connection.closed = true);
            });
        }
    });
    Ok(Listening { address, journal })
}

async fn converse<O: Origin>(
    stream: TcpStream,
    acceptor: &TlsAcceptor,
    (journal, page): (&Journal, ConnectionIndex),
    origin: Arc<O>,
) -> Result<()> {
    stream.set_nodelay(true)?;
    let tls = acceptor.accept(stream).await.context("TLS")?;
    let sni = tls.get_ref().1.server_name().map(str::to_owned);
    journal.write(page, |connection| connection.sni = sni);
    let noted = Noted {
        inner: tls,
        journal: journal.clone(),
        page,
    };
    let service = service_fn(|request: hyper::Request<Incoming>| {
        let seen = Request {
            method: request.method().to_string(),
            target: request.uri().to_string(),
            headers: fields(request.headers()),
            ..Request::default()
        };
        let index = journal.begin(page, seen);
        let visit = Visit {
            request,
            journal: journal.clone(),
            connection: page,
            index,
        };
        let answer = Arc::clone(&origin).answer(visit);
        async move {
            let answer = answer.await;
            let status = answer.status().as_u16();
            journal.amend(page, index, |request| request.status = Some(status));
            Ok::<_, Infallible>(answer)
        }
    });
    hyper::server::conn::http1::Builder::new()
        .serve_connection(TokioIo::new(noted), service)
        .await
        .context("HTTP")
}

fn fields(headers: &hyper::HeaderMap) -> Vec<(String, Vec<u8>)> {
    headers
        .iter()
        .map(|(name, value)| (name.to_string(), value.as_bytes().to_vec()))
        .collect()
}

/// A whole answer.
#[must_use]
pub fn answer(status: u16, body: impl Into<Bytes>) -> Answer {
    let body = Full::new(body.into()).boxed();
    let mut answer = hyper::Response::new(body);
    if let Ok(status) = hyper::StatusCode::from_u16(status) {
        *answer.status_mut() = status;
    }
    answer
}

/// An answer with one more header field; a value that is no header value is left out.
#[must_use]
pub fn with(mut answer: Answer, name: &'static str, value: &str) -> Answer {
    if let Ok(value) = hyper::header::HeaderValue::from_str(value) {
        answer.headers_mut().append(name, value);
    }
    answer
}

/// A stream whose plaintext is kept in the journal.
struct Noted<S> {
    inner: S,
    journal: Journal,
    page: ConnectionIndex,
}

impl<S: AsyncRead + Unpin> AsyncRead for Noted<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.inner).poll_read(context, buffer);
        let fresh = buffer.filled().get(before..).unwrap_or_default();
        if !fresh.is_empty() {
            self.journal
                .write(self.page, |connection| connection.receive(fresh));
        }
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Noted<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        let polled = Pin::new(&mut self.inner).poll_write(context, bytes);
        if let Poll::Ready(Ok(written)) = &polled {
            let sent = bytes.get(..*written).unwrap_or_default();
            self.journal
                .write(self.page, |connection| connection.send(sent));
        }
        polled
    }

    fn poll_flush(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}
