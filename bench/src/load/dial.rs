// SPDX-License-Identifier: Apache-2.0
//! One connection to the far end: TCP, a proxy's CONNECT where there is one, verified TLS.

use crate::answer::{Head, read_head};
use anyhow::{Context, Result, bail};
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, ServerName};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use tokio::io::{AsyncWriteExt, BufStream};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// What is dialled.
#[derive(Debug)]
pub(crate) enum Way {
    /// This address, whatever stands behind it.
    Direct(String),
    /// This proxy, by CONNECT.
    Proxy(String),
}

/// Makes connections that are all alike.
pub(crate) struct Dialer {
    address: SocketAddr,
    connect: Option<String>,
    name: ServerName<'static>,
    tls: TlsConnector,
}

impl Dialer {
    /// Resolves once and reads the roots once.
    pub(crate) async fn new(name: &str, way: Way, roots: &Path) -> Result<Self> {
        let mut store = RootCertStore::empty();
        let file = CertificateDer::pem_file_iter(roots).context("no file of roots")?;
        let certificates: Vec<_> = file.collect::<Result<_, _>>().context("roots")?;
        store.add_parsable_certificates(certificates);
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .context("no TLS versions")?
            .with_root_certificates(store)
            .with_no_client_auth();
        // Each connection pays for a whole handshake, with every peer.
        config.resumption = rustls::client::Resumption::disabled();
        let (dial, connect) = match way {
            Way::Direct(address) => (address, None),
            Way::Proxy(address) => (address, Some(connect_request(name))),
        };
        let address = tokio::net::lookup_host(&dial)
            .await
            .with_context(|| format!("cannot resolve {dial}"))?
            .next()
            .with_context(|| format!("{dial} has no address"))?;
        Ok(Self {
            address,
            connect,
            name: ServerName::try_from(name.to_owned()).context("not a server's name")?,
            tls: TlsConnector::from(Arc::new(config)),
        })
    }

    /// One connection, ready for requests.
    pub(crate) async fn dial(&self) -> Result<TlsStream<TcpStream>> {
        let mut tcp = TcpStream::connect(self.address).await.context("dial")?;
        tcp.set_nodelay(true).context("no delay")?;
        if let Some(connect) = &self.connect {
            let mut stream = BufStream::new(tcp);
            stream
                .write_all(connect.as_bytes())
                .await
                .context("CONNECT")?;
            stream.flush().await.context("CONNECT")?;
            let Head { status, .. } = read_head(&mut stream).await.context("CONNECT")?;
            if status != 200 {
                bail!("CONNECT was answered with {status}");
            }
            // A proxy says nothing before our hello, so that nothing is lost with the buffer.
            tcp = stream.into_inner();
        }
        self.tls
            .connect(self.name.clone(), tcp)
            .await
            .context("TLS")
    }
}

fn connect_request(name: &str) -> String {
    format!("CONNECT {name}:443 HTTP/1.1\r\nHost: {name}:443\r\n\r\n")
}
