// SPDX-License-Identifier: Apache-2.0
//! What the application at a far end saw, and the far end that is hyper itself: an origin, and what
//! stands behind the servers that only pass requests on.

use super::wire::{Seen, digest};
use anyhow::{Context, Result};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::net::TcpListener;

/// What an application saw, in order.
#[derive(Debug, Clone, Default)]
pub struct Book(Arc<Mutex<Vec<Seen>>>);

impl Book {
    /// Everything so far.
    #[must_use]
    pub fn seen(&self) -> Vec<Seen> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// One more request.
    pub fn write(&self, seen: Seen) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(seen);
    }

    /// A line that an application said; what is no such line is something else that it said.
    pub(super) fn take(&self, line: &str) {
        let Ok(said) = serde_json::from_str::<serde_json::Value>(line) else {
            return;
        };
        let text = |name: &str| said.get(name).and_then(|v| v.as_str()).map(str::to_owned);
        self.write(Seen {
            method: text("method").unwrap_or_default(),
            target: text("target").unwrap_or_default(),
            host: text("host").unwrap_or_default(),
            body: text("body"),
        });
    }
}

/// Serves with hyper on loopback until the runtime, which must be the current one, ends.
///
/// # Errors
/// When no port can be had.
pub async fn serve(book: Book) -> Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .await
        .context("no port")?;
    let address = listener.local_addr().context("no address")?;
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let book = book.clone();
            let service = service_fn(move |request| answer(request, book.clone()));
            tokio::spawn(async move {
                // Broken clients are what it is here for.
                let _broken = hyper::server::conn::http1::Builder::new()
                    .serve_connection(TokioIo::new(stream), service)
                    .await;
            });
        }
    });
    Ok(address)
}

/// Notes a request when its body came, or broke off, or was no longer waited for.
struct Noting {
    book: Book,
    seen: Seen,
}

impl Drop for Noting {
    fn drop(&mut self) {
        self.book.write(self.seen.clone());
    }
}

async fn answer(
    request: hyper::Request<Incoming>,
    book: Book,
) -> Result<hyper::Response<Full<Bytes>>, Infallible> {
    let hosts: Vec<_> = request
        .headers()
        .get_all("host")
        .iter()
        .map(|host| String::from_utf8_lossy(host.as_bytes()).into_owned())
        .collect();
    let target = request.uri().to_string();
    let mut noting = Noting {
        book,
        seen: Seen {
            method: request.method().to_string(),
            target: target.clone(),
            host: hosts.join(","),
            body: None,
        },
    };
    let body = request.into_body().collect().await;
    noting.seen.body = body.ok().map(|body| digest(body.to_bytes()));
    let status = match target.rsplit('/').next() {
        Some("204") => hyper::StatusCode::NO_CONTENT,
        Some("304") => hyper::StatusCode::NOT_MODIFIED,
        _ => hyper::StatusCode::OK,
    };
    let content = if status == hyper::StatusCode::OK {
        "ok"
    } else {
        ""
    };
    let mut answer = hyper::Response::new(Full::new(Bytes::from_static(content.as_bytes())));
    *answer.status_mut() = status;
    Ok(answer)
}
