// SPDX-License-Identifier: Apache-2.0
//! A far end that records what it gets and answers by script.

use rustls::ServerConfig;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

/// What an origin does with a request's bytes (head and body as sent).
pub(in crate::pipeline::tests) type Script = Arc<dyn Fn(&[u8]) -> Vec<u8> + Send + Sync>;

pub(in crate::pipeline::tests) fn fixed(answer: impl AsRef<[u8]>) -> Script {
    let answer = answer.as_ref().to_vec();
    Arc::new(move |_| answer.clone())
}

pub(in crate::pipeline::tests) const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

pub(in crate::pipeline::tests) struct Origin {
    pub(in crate::pipeline::tests) address: SocketAddr,
    pub(in crate::pipeline::tests) requests: Arc<Mutex<Vec<Vec<u8>>>>,
    pub(in crate::pipeline::tests) connections: Arc<Mutex<u32>>,
}

impl Origin {
    pub(in crate::pipeline::tests) fn count(&self) -> usize {
        self.requests.lock().unwrap().len()
    }
    pub(in crate::pipeline::tests) fn request(&self, at: usize) -> String {
        String::from_utf8_lossy(&self.requests.lock().unwrap()[at]).into_owned()
    }
}

pub(in crate::pipeline::tests) struct Identity {
    pub(in crate::pipeline::tests) chain: Vec<CertificateDer<'static>>,
    key: Vec<u8>,
}

pub(in crate::pipeline::tests) fn identity(names: &[&str]) -> Identity {
    let names: Vec<String> = names.iter().map(|n| (*n).to_owned()).collect();
    let made = rcgen::generate_simple_self_signed(names).unwrap();
    Identity {
        chain: vec![made.cert.der().clone()],
        key: made.signing_key.serialize_der(),
    }
}

/// The server side of TLS, choosing among protocols.
pub(in crate::pipeline::tests) fn acceptor(
    identity: &Identity,
    protocols: &[&[u8]],
) -> tokio_rustls::TlsAcceptor {
    let key = PrivateKeyDer::Pkcs8(identity.key.clone().into());
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(identity.chain.clone(), key)
        .unwrap();
    config.alpn_protocols = protocols.iter().map(|p| p.to_vec()).collect();
    tokio_rustls::TlsAcceptor::from(Arc::new(config))
}

/// Starts an origin, with TLS when there is an identity.
pub(in crate::pipeline::tests) async fn origin(
    identity: Option<&Identity>,
    script: Script,
) -> Origin {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let made = Origin {
        address: listener.local_addr().unwrap(),
        requests: Arc::default(),
        connections: Arc::default(),
    };
    let acceptor = identity.map(|identity| acceptor(identity, &[]));
    let (requests, connections) = (made.requests.clone(), made.connections.clone());
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            *connections.lock().unwrap() += 1;
            stream.set_nodelay(true).ok();
            let (script, requests, acceptor) = (script.clone(), requests.clone(), acceptor.clone());
            tokio::spawn(async move {
                match acceptor {
                    None => answer_all(stream, script, requests).await,
                    Some(acceptor) => {
                        if let Ok(stream) = acceptor.accept(stream).await {
                            answer_all(stream, script, requests).await;
                        }
                    }
                }
            });
        }
    });
    made
}

async fn answer_all<S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin>(
    mut stream: S,
    script: Script,
    requests: Arc<Mutex<Vec<Vec<u8>>>>,
) {
    let mut bytes = Vec::new();
    loop {
        while let Some(end) = whole_request(&bytes) {
            let request: Vec<u8> = bytes.drain(..end).collect();
            requests.lock().unwrap().push(request.clone());
            let answer = script(&request);
            let close = answer.ends_with(b"\0CLOSE");
            let answer = answer.strip_suffix(b"\0CLOSE").unwrap_or(&answer);
            // `\0PAUSE` splits an answer into writes.
            for part in split(answer, b"\0PAUSE") {
                stream.write_all(part).await.ok();
                stream.flush().await.ok();
                tokio::time::sleep(Duration::from_millis(15)).await;
            }
            if close {
                stream.shutdown().await.ok();
                return;
            }
        }
        let mut buf = [0; 4096];
        match stream.read(&mut buf).await {
            Ok(0) | Err(_) => return,
            Ok(n) => bytes.extend_from_slice(&buf[..n]),
        }
    }
}

fn split<'a>(bytes: &'a [u8], at: &[u8]) -> Vec<&'a [u8]> {
    let mut parts = Vec::new();
    let mut rest = bytes;
    while let Some(i) = memchr::memmem::find(rest, at) {
        parts.push(&rest[..i]);
        rest = &rest[i + at.len()..];
    }
    parts.push(rest);
    parts
}

fn whole_request(bytes: &[u8]) -> Option<usize> {
    let head = memchr::memmem::find(bytes, b"\r\n\r\n")? + 4;
    let text = String::from_utf8_lossy(&bytes[..head]).to_ascii_lowercase();
    if let Some((_, length)) = text.split_once("content-length: ") {
        let length: usize = length.split("\r\n").next()?.parse().ok()?;
        return (bytes.len() >= head + length).then_some(head + length);
    }
    if text.contains("transfer-encoding: chunked") {
        let body = &bytes[head..];
        let last = if body.starts_with(b"0\r\n") {
            0
        } else {
            memchr::memmem::find(body, b"\r\n0\r\n")? + 2
        };
        let end = memchr::memmem::find(&body[last..], b"\r\n\r\n")? + 4;
        return Some(head + last + end);
    }
    Some(head)
}
