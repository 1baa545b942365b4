// SPDX-License-Identifier: Apache-2.0
//! Stands between a gate and a far end, ends TLS where there is some, and keeps what the gate sent.

use anyhow::{Context, Result};
use rustls::ServerConfig;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

/// What was sent on each connection.
#[derive(Debug, Clone, Default)]
pub struct Kept(Arc<Mutex<Vec<Vec<u8>>>>);

impl Kept {
    /// What each connection brought so far.
    #[must_use]
    pub fn connections(&self) -> Vec<Vec<u8>> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn open(&self) -> usize {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.push(Vec::new());
        all.len() - 1
    }

    fn add(&self, at: usize, bytes: &[u8]) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kept) = all.get_mut(at) {
            kept.extend_from_slice(bytes);
        }
    }
}

/// Listens on loopback and passes on to a far end, until the runtime ends.
///
/// # Errors
/// When no port can be had.
pub async fn listen(
    tls: Option<Arc<ServerConfig>>,
    far: SocketAddr,
    kept: Kept,
) -> Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .await
        .context("no port")?;
    let address = listener.local_addr().context("no address")?;
    let acceptor = tls.map(TlsAcceptor::from);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (acceptor, kept) = (acceptor.clone(), kept.clone());
            tokio::spawn(async move {
                // A far end that hangs up, and a gate that resets, are part of what is tried.
                let _broken = match acceptor {
                    None => pass(stream, far, &kept).await,
                    Some(acceptor) => match acceptor.accept(stream).await {
                        Ok(stream) => pass(stream, far, &kept).await,
                        Err(error) => Err(error),
                    },
                };
            });
        }
    });
    Ok(address)
}

async fn pass(
    stream: impl AsyncRead + AsyncWrite,
    far: SocketAddr,
    kept: &Kept,
) -> std::io::Result<()> {
    let far = TcpStream::connect(far).await?;
    far.set_nodelay(true)?;
    let (mut from_gate, mut to_gate) = tokio::io::split(stream);
    let (mut from_far, mut to_far) = far.into_split();
    let page = kept.open();
    let sending = async {
        let mut buffer = vec![0; 16 * 1024];
        loop {
            let count = from_gate.read(&mut buffer).await?;
            let fresh = buffer.get(..count).unwrap_or_default();
            if fresh.is_empty() {
                return to_far.shutdown().await;
            }
            // Kept before it is passed on: no far end sees what was not kept.
            kept.add(page, fresh);
            to_far.write_all(fresh).await?;
        }
    };
    let answering = async {
        tokio::io::copy(&mut from_far, &mut to_gate).await?;
        to_gate.shutdown().await
    };
    // When the far end is done there is nobody to pass on to.
    tokio::select! {
        done = answering => done,
        Err(broken) = sending => Err(broken),
    }
}
