// SPDX-License-Identifier: Apache-2.0
//! The stage: an origin that records what it gets and answers by script, ports that record what
//! they are asked, and a client that trusts the session's CA.

mod origin;
mod ports;

use crate::{AskedDestination, Limits, PinnedRoots, Pipeline, Ports, SessionConfig};
use flate2::Compression;
use flate2::write::GzEncoder;
pub(super) use origin::*;
pub(super) use ports::*;
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::{CertificateDer, ServerName};
use std::io::Write;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use torno_policy::Reason;
use torno_policy::names::*;

pub(super) struct Stage {
    pub(super) notary: Arc<Notary>,
    pub(super) dialer: Arc<Dialer>,
    pub(super) pipeline: Arc<Pipeline>,
    pub(super) origin: Origin,
}

/// One origin for allow.test, other.test and plain.test (the last without TLS).
pub(super) async fn stage(notary: Arc<Notary>, script: Script) -> Stage {
    stage_with(notary, script, Limits::default()).await
}

pub(super) async fn stage_with(notary: Arc<Notary>, script: Script, limits: Limits) -> Stage {
    let identity = identity(&["allow.test", "other.test"]);
    let tls = origin(Some(&identity), script.clone()).await;
    stage_at(notary, (&identity, tls), script, limits).await
}

/// The same with a far end that is there already.
pub(super) async fn stage_at(
    notary: Arc<Notary>,
    (identity, tls): (&Identity, Origin),
    script: Script,
    limits: Limits,
) -> Stage {
    let mut roots = RootCertStore::empty();
    roots.add(identity.chain[0].clone()).unwrap();
    let plain = origin(None, script).await;
    let dialer = Arc::new(Dialer::default());
    let mut hosts = dialer.hosts.lock().unwrap();
    hosts.insert("allow.test".to_owned(), tls.address);
    hosts.insert("other.test".to_owned(), tls.address);
    hosts.insert("plain.test".to_owned(), plain.address);
    drop(hosts);
    let config = SessionConfig {
        upstream_roots: Arc::new(RootCertStore::empty()),
        pinned: ["allow.test", "other.test"]
            .map(|host| PinnedRoots {
                host: Host::parse(host).unwrap(),
                roots: Arc::new(roots.clone()),
            })
            .to_vec(),
        limits,
        tripwires: vec![tripwire()],
    };
    let ports = Ports {
        ask: notary.clone(),
        dial: dialer.clone(),
        clock: Arc::new(Now),
    };
    Stage {
        notary,
        dialer,
        pipeline: Pipeline::new(&config, ports).unwrap(),
        origin: tls,
    }
}

pub(super) fn asked(host: &str, port: u16) -> AskedDestination {
    AskedDestination {
        address: SocketAddr::from(([198, 18, 0, 1], port)),
        name: Some(Host::parse(host).unwrap()),
    }
}

pub(super) type TlsClient = tokio_rustls::client::TlsStream<TcpStream>;

impl Stage {
    /// A connection whose other end is served as a captured one.
    pub(super) async fn captured(&self, destination: AskedDestination) -> TcpStream {
        let (client, server) = pair().await;
        let pipeline = self.pipeline.clone();
        tokio::spawn(async move { pipeline.serve_captured(server, destination).await });
        client
    }

    pub(super) async fn proxy(&self) -> TcpStream {
        let (client, server) = pair().await;
        let pipeline = self.pipeline.clone();
        tokio::spawn(async move { pipeline.serve_proxy(server).await });
        client
    }

    /// TLS as a client that trusts the session's CA.
    pub(super) async fn tls(&self, stream: TcpStream, name: &str) -> TlsClient {
        self.try_tls(stream, name).await.unwrap()
    }

    pub(super) async fn try_tls(
        &self,
        stream: TcpStream,
        name: &str,
    ) -> std::io::Result<TlsClient> {
        self.tls_speaking(stream, name, &[]).await
    }

    /// The same, offering protocols.
    pub(super) async fn tls_speaking(
        &self,
        stream: TcpStream,
        name: &str,
        protocols: &[&[u8]],
    ) -> std::io::Result<TlsClient> {
        use rustls_pki_types::pem::PemObject;
        let ca = CertificateDer::from_pem_slice(self.pipeline.ca_pem().as_bytes()).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(ca).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = protocols.iter().map(|p| p.to_vec()).collect();
        config.enable_sni = !name.starts_with('!');
        let name = ServerName::try_from(name.trim_start_matches('!').to_owned()).unwrap();
        tokio_rustls::TlsConnector::from(Arc::new(config))
            .connect(name, stream)
            .await
    }

    pub(super) async fn secure(&self) -> TlsClient {
        let stream = self.captured(asked("allow.test", 443)).await;
        self.tls(stream, "allow.test").await
    }

    /// Sends bytes over captured TLS to allow.test and reads until the end.
    pub(super) async fn send(&self, request: impl AsRef<[u8]>) -> String {
        let mut client = self.secure().await;
        talk(&mut client, request.as_ref()).await
    }

    pub(super) fn reasons(&self) -> Vec<Reason> {
        let refused = self.notary.refused.lock().unwrap();
        refused.iter().map(|r| r.refusal.reason).collect()
    }
}

pub(super) async fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (client, server) = tokio::join!(TcpStream::connect(address), listener.accept());
    (client.unwrap(), server.unwrap().0)
}

/// Bytes as a gzip body.
pub(super) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::default());
    packed.write_all(bytes).unwrap();
    packed.finish().unwrap()
}

/// Writes, then reads until the end or a pause of the peer.
pub(super) async fn talk<S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin>(
    stream: &mut S,
    request: &[u8],
) -> String {
    stream.write_all(request).await.ok();
    stream.flush().await.ok();
    hear(stream).await
}

pub(super) async fn hear<S: tokio::io::AsyncRead + Unpin>(stream: &mut S) -> String {
    let mut heard = Vec::new();
    let mut buf = vec![0; 65536];
    loop {
        let wait = Duration::from_millis(if heard.is_empty() { 3000 } else { 150 });
        match tokio::time::timeout(wait, stream.read(&mut buf)).await {
            Err(_) | Ok(Ok(0) | Err(_)) => return String::from_utf8_lossy(&heard).into_owned(),
            Ok(Ok(n)) => heard.extend_from_slice(&buf[..n]),
        }
    }
}

pub(super) fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: allow.test\r\nUser-Agent: t\r\n\r\n")
}

/// TLS as a hostile client does it: any certificate will do.
pub(super) async fn blind_tls(stream: TcpStream, name: &str) -> TlsClient {
    use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
    use rustls::{DigitallySignedStruct, Error, SignatureScheme};
    use rustls_pki_types::UnixTime;

    #[derive(Debug)]
    struct Blind;
    impl ServerCertVerifier for Blind {
        fn verify_server_cert(
            &self,
            _: &CertificateDer<'_>,
            _: &[CertificateDer<'_>],
            _: &ServerName<'_>,
            _: &[u8],
            _: UnixTime,
        ) -> Result<ServerCertVerified, Error> {
            Ok(ServerCertVerified::assertion())
        }
        fn verify_tls12_signature(
            &self,
            _: &[u8],
            _: &CertificateDer<'_>,
            _: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            Ok(HandshakeSignatureValid::assertion())
        }
        fn verify_tls13_signature(
            &self,
            _: &[u8],
            _: &CertificateDer<'_>,
            _: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            Ok(HandshakeSignatureValid::assertion())
        }
        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            vec![SignatureScheme::ECDSA_NISTP256_SHA256]
        }
    }

    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Blind))
        .with_no_client_auth();
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
    connector.connect(name, stream).await.unwrap()
}
