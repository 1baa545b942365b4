// SPDX-License-Identifier: Apache-2.0
//! The hostile client: sends a payload in the writes of a split, on a connection of its own.

use anyhow::{Context, Result};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio_rustls::TlsConnector;
use torno_egress::{AskedDestination, Pipeline};
use torno_policy::names::Host;
use torno_stage::smuggle::{PREFACE, Payload, Speaks, Split};

/// Between two writes: long enough that most are read one by one.
const BETWEEN: Duration = Duration::from_micros(300);
/// LIMIT: the wait for the first byte of an answer. A gate that waits for more says nothing.
const FIRST_WAIT: Duration = Duration::from_millis(400);
/// LIMIT: the wait for each further one.
const NEXT_WAIT: Duration = Duration::from_millis(80);
/// LIMIT: of a pipe between client and gate.
const PIPE_BYTES: usize = 64 * 1024;

/// A client of one pipeline.
pub(crate) struct Client {
    pipeline: Arc<Pipeline>,
    host: String,
    connector: TlsConnector,
}

impl Client {
    pub(crate) fn new(pipeline: Arc<Pipeline>, host: &str) -> Result<Self> {
        let ca = CertificateDer::from_pem_slice(pipeline.ca_pem().as_bytes()).context("no CA")?;
        let mut roots = RootCertStore::empty();
        roots.add(ca).context("no CA")?;
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .context("no TLS versions")?
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![b"h2".to_vec()];
        Ok(Self {
            pipeline,
            host: host.to_owned(),
            connector: TlsConnector::from(Arc::new(config)),
        })
    }

    /// Sends one payload and hears the answer out.
    pub(crate) async fn send(&self, payload: &Payload, split: Split) -> Result<()> {
        let port = match payload.speaks {
            Speaks::Http1 => 80,
            Speaks::Http2 => 443,
        };
        let asked = AskedDestination {
            address: SocketAddr::from(([198, 18, 0, 1], port)),
            name: Host::parse(&self.host).ok(),
        };
        let (near, far) = tokio::io::duplex(PIPE_BYTES);
        let pipeline = Arc::clone(&self.pipeline);
        tokio::spawn(async move { pipeline.serve_captured(far, asked).await });
        let writes = payload.writes(split);
        match payload.speaks {
            Speaks::Http1 => talk(near, &writes).await,
            Speaks::Http2 => {
                let name = ServerName::try_from(self.host.clone()).context("not a name")?;
                let mut tls = self.connector.connect(name, near).await.context("TLS")?;
                tls.write_all(PREFACE).await.context("the preface")?;
                talk(tls, &writes).await;
            }
        }
        Ok(())
    }
}

async fn talk(stream: impl AsyncRead + AsyncWrite, writes: &[&[u8]]) {
    let (mut reading, mut writing) = tokio::io::split(stream);
    let send = async {
        for write in writes {
            // A gate that has refused already reads no more.
            if writing.write_all(write).await.is_err() || writing.flush().await.is_err() {
                return;
            }
            if writes.len() > 1 {
                tokio::time::sleep(BETWEEN).await;
            }
        }
    };
    send.await;
    let mut buffer = vec![0; 16 * 1024];
    let mut wait = FIRST_WAIT;
    while let Ok(Ok(1..)) = tokio::time::timeout(wait, reading.read(&mut buffer)).await {
        wait = NEXT_WAIT;
    }
}
