// SPDX-License-Identifier: Apache-2.0
//! Requests per second through the pipeline: TLS on both sides over loopback, a credential put in
//! and every answer searched, with a notary that always says yes.
//! `cargo run --release -p torno-egress --example throughput -- [connections] [seconds] [bytes]`

#![expect(
    clippy::unwrap_used,
    reason = "a measurement stops at the first surprise"
)]
#![expect(
    clippy::indexing_slicing,
    reason = "a measurement stops at the first surprise"
)]

use rustls::{ClientConfig, RootCertStore, ServerConfig};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use torno_egress::{
    Answered, Ask, AskedDestination, AtHand, Clock, Dial, Dialed, Granted, HostLimits, Limits,
    Pending, PinnedRoots, Pipeline, Ports, SessionConfig, Unlocked,
};
use torno_notary_protocol::gate::{Allowed, Injection, Outcome, WireRefusal};
use torno_notary_protocol::receipt::{Receipt, ReceiptClaims, ReceiptKey};
use torno_notary_protocol::transit::CredentialInTransit;
use torno_policy::Refusal;
use torno_policy::binding::{Mode, Slot};
use torno_policy::facts::RequestFacts;
use torno_policy::names::*;
use torno_policy::tripwire::{Tripwire, Wire};

#[derive(Debug)]
struct Fixed;
impl Clock for Fixed {
    fn now(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(1_795_910_400)
    }
}

struct Yes(AtomicU64);

fn credential() -> CredentialInTransit {
    let value = b"ghp_throughput0123456789abcdefghij".to_vec();
    CredentialInTransit::new(value.into())
}

impl Ask for Yes {
    fn ask<'a>(
        &'a self,
        facts: &'a RequestFacts,
        at_hand: AtHand,
    ) -> Pending<'a, Result<Answered, Refusal>> {
        Box::pin(async move {
            let record = RecordSeq(self.0.fetch_add(1, Ordering::Relaxed));
            let claims = ReceiptClaims {
                session: SessionId::parse("s1").unwrap(),
                generation: Generation(1),
                endpoint: facts.endpoint.clone(),
                record,
                issued_ms: 0,
            };
            let allowed = Box::new(Allowed {
                record,
                receipt: ReceiptKey::new([1; 32]).seal(&claims).ok(),
                endpoint: facts.endpoint.clone(),
                injection: Some(Injection {
                    binding: BindingId::parse("b1").unwrap(),
                    credential: CredentialName::parse("c1").unwrap(),
                    slot: Slot::Header {
                        name: "authorization".to_owned(),
                        scheme: Some("Bearer".to_owned()),
                    },
                    mode: Mode::Inject,
                    placeholder: "ghp_TRNOplaceholder".to_owned(),
                }),
                strip: Vec::new(),
                own_credentials: false,
                minted: false,
                keeping: None,
                unlock: true,
                transcripts: false,
            });
            Ok(Answered::Granted(Granted {
                allowed,
                credential: at_hand.pooled.then(credential),
            }))
        })
    }
    fn unlock<'a>(&'a self, _: &'a Receipt) -> Pending<'a, Result<Unlocked, Refusal>> {
        Box::pin(async {
            Ok(Unlocked {
                watched: Vec::new(),
                injected: Some(credential()),
                watch: 0,
            })
        })
    }
    fn mint(&self, _: RecordSeq, _: u32) -> Pending<'_, Result<Vec<String>, Refusal>> {
        Box::pin(async { Ok(Vec::new()) })
    }
    fn report(&self, _: Outcome) {}
    fn refused(&self, _: WireRefusal) {}
}

struct To(SocketAddr);
impl Dial for To {
    fn dial<'a>(&'a self, _: &'a Receipt) -> Pending<'a, Result<Dialed, Refusal>> {
        Box::pin(async {
            Ok(Dialed {
                stream: TcpStream::connect(self.0).await.unwrap(),
                address: self.0.to_string(),
                resolved_by_proxy: false,
            })
        })
    }
}

async fn origin(bytes: usize) -> (SocketAddr, CertificateDer<'static>) {
    let made = rcgen::generate_simple_self_signed(vec!["allow.test".to_owned()]).unwrap();
    let key = PrivateKeyDer::Pkcs8(made.signing_key.serialize_der().into());
    let certificate = made.cert.der().clone();
    let config = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.clone()], key)
        .unwrap();
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                stream.set_nodelay(true).unwrap();
                let Ok(mut stream) = acceptor.accept(stream).await else {
                    return;
                };
                let mut buf = vec![0; 8192];
                let head = format!(
                    "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: {bytes}\r\n\r\n"
                );
                let mut answer = head.into_bytes();
                answer.extend(b"Hello, world! ".iter().cycle().take(bytes));
                while let Ok(1..) = stream.read(&mut buf).await {
                    stream.write_all(&answer).await.unwrap();
                    stream.flush().await.unwrap();
                }
            });
        }
    });
    (address, certificate)
}

async fn client(pipeline: Arc<Pipeline>, done: Arc<AtomicU64>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stream, server) = tokio::join!(TcpStream::connect(address), listener.accept());
    let (stream, server) = (stream.unwrap(), server.unwrap().0);
    stream.set_nodelay(true).unwrap();
    server.set_nodelay(true).unwrap();
    let ca = CertificateDer::from_pem_slice(pipeline.ca_pem().as_bytes()).unwrap();
    let asked = AskedDestination {
        address: SocketAddr::from(([198, 18, 0, 1], 443)),
        name: Some(Host::parse("allow.test").unwrap()),
    };
    tokio::spawn(async move { pipeline.serve_captured(server, asked).await });
    let mut roots = RootCertStore::empty();
    roots.add(ca).unwrap();
    let config = ClientConfig::builder()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from("allow.test").unwrap();
    let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
    let mut stream = connector.connect(name, stream).await.unwrap();
    let mut buf = vec![0; 8192];
    loop {
        let request = b"GET /v1/items?page=2 HTTP/1.1\r\nHost: allow.test\r\nUser-Agent: bench\r\nAccept: */*\r\n\r\n";
        stream.write_all(request).await.unwrap();
        stream.flush().await.unwrap();
        let mut count = stream.read(&mut buf).await.unwrap();
        assert!(buf[..count].starts_with(b"HTTP/1.1 200"));
        // An answer that was not there at once comes in chunks.
        let is_chunked = buf[..count].windows(7).any(|part| part == b"chunked");
        let mut end = buf[..count].to_vec();
        while is_chunked && !end.ends_with(b"\r\n0\r\n\r\n") {
            count = stream.read(&mut buf).await.unwrap();
            assert_ne!(count, 0);
            end.drain(..end.len().saturating_sub(7));
            end.extend_from_slice(&buf[..count]);
        }
        done.fetch_add(1, Ordering::Relaxed);
    }
}

#[tokio::main]
async fn main() {
    let mut arguments = std::env::args().skip(1).map(|a| a.parse::<u64>().unwrap());
    let connections = arguments.next().unwrap_or(16);
    let seconds = arguments.next().unwrap_or(5);
    let bytes = arguments.next().unwrap_or(13);
    let (address, certificate) = origin(usize::try_from(bytes).unwrap()).await;
    let mut roots = RootCertStore::empty();
    roots.add(certificate).unwrap();
    let config = SessionConfig {
        upstream_roots: Arc::new(RootCertStore::empty()),
        pinned: vec![PinnedRoots {
            host: Host::parse("allow.test").unwrap(),
            roots: Arc::new(roots),
        }],
        limits: Limits {
            egress_bytes_max: u64::MAX,
            ingress_bytes_max: u64::MAX,
            each_host: HostLimits {
                egress_bytes_max: u64::MAX,
                ingress_bytes_max: u64::MAX,
                ..HostLimits::default()
            },
            ..Limits::default()
        },
        tripwires: Wire::ALL.map(|wire| Tripwire::new(wire, [7; 16])).to_vec(),
    };
    let ports = Ports {
        ask: Arc::new(Yes(AtomicU64::new(0))),
        dial: Arc::new(To(address)),
        clock: Arc::new(Fixed),
    };
    let pipeline = Pipeline::new(&config, ports).unwrap();
    let done = Arc::new(AtomicU64::new(0));
    for _ in 0..connections {
        tokio::spawn(client(Arc::clone(&pipeline), Arc::clone(&done)));
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    let before = done.load(Ordering::Relaxed);
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    let rate = (done.load(Ordering::Relaxed) - before) / seconds;
    println!(
        "{connections} connections: {rate} requests/s (client and origin in the same process)"
    );
}
