// SPDX-License-Identifier: Apache-2.0
//! The stage: an origin that records what it gets and answers by script, ports that record what
//! they are asked, and a client that trusts the session's CA.

use crate::{
    Answered, Ask, AskedDestination, AtHand, Clock, Dial, Dialed, Granted, Limits, Pending,
    PinnedRoots, Pipeline, Ports, SessionConfig, Unlocked,
};
use flate2::Compression;
use flate2::write::GzEncoder;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use std::collections::HashMap;
use std::io::Write;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use torno_notary_protocol::gate::{Allowed, Injection, Keeping, Outcome, WireRefusal};
use torno_notary_protocol::receipt::{Receipt, ReceiptClaims, ReceiptKey, VALID_MS};
use torno_notary_protocol::transit::CredentialInTransit;
use torno_policy::binding::{Mode, Slot};
use torno_policy::facts::{RequestFacts, Unread};
use torno_policy::names::*;
use torno_policy::placeholder::Placeholder;
use torno_policy::tripwire::{Tripwire, Wire};
use torno_policy::{Layer, Reason, Refusal};
use zeroize::Zeroizing;

pub(super) const SECRET: &str = "ghp_CANARYcanary0123456789ABCDEF";

pub(super) fn placeholder() -> Placeholder {
    Placeholder::new("ghp_", [7; 16])
}

pub(super) fn tripwire() -> Tripwire {
    Tripwire::new(Wire::AwsCredentials, [9; 16])
}

/// The newest watch.
pub(super) const WATCH: u64 = 7;

#[derive(Debug)]
pub(super) struct Now;
impl Clock for Now {
    fn now(&self) -> SystemTime {
        // 2026-11-29, close enough to the certificates below, which never end.
        SystemTime::UNIX_EPOCH + Duration::from_secs(1_795_910_400)
    }
}

type Decide = dyn Fn(&RequestFacts) -> Result<Yes, Refusal> + Send + Sync;

/// Decides by a function; remembers everything.
pub(super) struct Notary {
    pub(super) decide: Box<Decide>,
    pub(super) asked: Mutex<Vec<RequestFacts>>,
    pub(super) outcomes: Mutex<Vec<Outcome>>,
    pub(super) refused: Mutex<Vec<WireRefusal>>,
    pub(super) unlocks: Mutex<u32>,
    pub(super) secret: Mutex<String>,
    /// Another credential of the session: its placeholder and value.
    pub(super) watched: Mutex<Option<(String, String)>>,
    /// Whether the last yes puts a credential in.
    pub(super) injects: Mutex<bool>,
    /// It wants to read what was read.
    pub(super) reads_always: Mutex<bool>,
    /// The watch that each question said was taken up.
    pub(super) watches: Mutex<Vec<u64>>,
    /// What stands for minted values; each may be used.
    pub(super) minted: Mutex<Vec<Placeholder>>,
    /// It names no minted value.
    pub(super) mints_nothing: Mutex<bool>,
}

/// What a yes says.
#[derive(Clone, Default)]
pub(super) struct Yes {
    pub(super) slot: Option<Slot>,
    pub(super) own_credentials: bool,
    /// It wants to know something of the body first.
    pub(super) reads: Option<Unread>,
    /// When it is put in.
    pub(super) mode: Option<Mode>,
    /// A model runs there.
    pub(super) transcripts: bool,
    /// What is kept of the answer.
    pub(super) keeping: Option<Keeping>,
    /// It is for another credential than the one of the stage.
    pub(super) placeholder: Option<Placeholder>,
}

fn key() -> ReceiptKey {
    ReceiptKey::new([9; 32])
}

pub(super) fn no(reason: Reason) -> Refusal {
    Refusal {
        reason,
        layer: Layer::Session,
        rule: RuleName::new("grant"),
        hint: "ask for <another> host".to_owned(),
    }
}

pub(super) fn bearer() -> Slot {
    Slot::Header {
        name: "authorization".to_owned(),
        scheme: Some("Bearer".to_owned()),
    }
}

impl Notary {
    pub(super) fn new(
        decide: impl Fn(&RequestFacts) -> Result<Yes, Refusal> + Send + Sync + 'static,
    ) -> Arc<Self> {
        Arc::new(Self {
            decide: Box::new(decide),
            asked: Mutex::default(),
            outcomes: Mutex::default(),
            refused: Mutex::default(),
            unlocks: Mutex::default(),
            secret: Mutex::new(SECRET.to_owned()),
            watched: Mutex::default(),
            injects: Mutex::default(),
            reads_always: Mutex::default(),
            watches: Mutex::default(),
            minted: Mutex::default(),
            mints_nothing: Mutex::default(),
        })
    }

    pub(super) fn yes() -> Arc<Self> {
        Self::new(|_| Ok(Yes::default()))
    }

    pub(super) fn bearer() -> Arc<Self> {
        Self::new(|_| {
            Ok(Yes {
                slot: Some(bearer()),
                ..Yes::default()
            })
        })
    }

    pub(super) fn never() -> Arc<Self> {
        Self::new(|facts| panic!("must not be asked about {facts:?}"))
    }

    /// What stands for the minted value that a request presents.
    fn presented(&self, facts: &RequestFacts) -> Option<String> {
        let minted = self.minted.lock().unwrap();
        let is_there =
            |p: &&Placeholder| facts.presented.iter().any(|one| one.digest == p.digest());
        minted.iter().find(is_there).map(|p| p.as_str().to_owned())
    }

    fn credential(&self) -> CredentialInTransit {
        let secret = self.secret.lock().unwrap().clone();
        CredentialInTransit::new(Zeroizing::new(secret.into_bytes()))
    }
}

impl Ask for Notary {
    fn ask<'a>(
        &'a self,
        facts: &'a RequestFacts,
        at_hand: AtHand,
    ) -> Pending<'a, Result<Answered, Refusal>> {
        Box::pin(async move {
            let mut asked = self.asked.lock().unwrap();
            asked.push(facts.clone());
            let record = RecordSeq(asked.len() as u64);
            drop(asked);
            let yes = (self.decide)(facts)?;
            let always = *self.reads_always.lock().unwrap();
            let is_read = match &yes.reads {
                Some(Unread::Slot(_)) => facts.body.is_some(),
                Some(Unread::Content(_)) | None => facts.content.is_some(),
            };
            if let (Some(unread), true) = (yes.reads, always || !is_read) {
                return Ok(Answered::Read(unread));
            }
            let receipt = key()
                .seal(&ReceiptClaims {
                    session: SessionId::parse("s1").unwrap(),
                    generation: Generation(1),
                    endpoint: facts.endpoint.clone(),
                    record,
                    issued_ms: 0,
                })
                .unwrap();
            self.watches.lock().unwrap().push(at_hand.watch);
            let watches = self.watched.lock().unwrap().is_some() && at_hand.watch != WATCH;
            let minted = self.presented(facts);
            let is_minted = minted.is_some();
            let unlock = (yes.slot.is_some() && !is_minted) || watches;
            let c1 = CredentialName::parse("c1");
            let pooled = at_hand.pooled && at_hand.serves == c1.ok() && !watches && !is_minted;
            *self.injects.lock().unwrap() = yes.slot.is_some() && !is_minted;
            let credential = (pooled && yes.slot.is_some()).then(|| self.credential());
            let allowed = Box::new(Allowed {
                record,
                receipt: credential.is_none().then_some(receipt),
                endpoint: facts.endpoint.clone(),
                strip: yes
                    .slot
                    .iter()
                    .flat_map(|s| {
                        s.fields()
                            .into_iter()
                            .map(str::to_owned)
                            .collect::<Vec<_>>()
                    })
                    .collect(),
                injection: yes.slot.map(|slot| Injection {
                    binding: BindingId::parse("b1").unwrap(),
                    credential: CredentialName::parse("c1").unwrap(),
                    slot,
                    mode: yes.mode.unwrap_or(Mode::PlaceholderOrInject),
                    placeholder: minted.unwrap_or_else(|| {
                        let of_another = yes.placeholder.unwrap_or_else(placeholder);
                        of_another.as_str().to_owned()
                    }),
                }),
                minted: is_minted,
                keeping: yes.keeping,
                own_credentials: yes.own_credentials,
                unlock,
                transcripts: yes.transcripts,
            });
            Ok(Answered::Granted(Granted {
                allowed,
                credential,
            }))
        })
    }

    fn unlock<'a>(&'a self, receipt: &'a Receipt) -> Pending<'a, Result<Unlocked, Refusal>> {
        Box::pin(async move {
            assert!(key().open(receipt, VALID_MS).is_ok());
            *self.unlocks.lock().unwrap() += 1;
            let watched = self.watched.lock().unwrap().clone();
            let transit = |value: String| CredentialInTransit::new(value.into_bytes().into());
            let injects = *self.injects.lock().unwrap();
            Ok(Unlocked {
                watch: if watched.is_some() { WATCH } else { 0 },
                watched: watched
                    .into_iter()
                    .map(|(placeholder, value)| (placeholder, transit(value)))
                    .collect(),
                injected: injects.then(|| self.credential()),
            })
        })
    }

    fn mint(&self, _: RecordSeq, count: u32) -> Pending<'_, Result<Vec<String>, Refusal>> {
        Box::pin(async move {
            if *self.mints_nothing.lock().unwrap() {
                return Err(no(Reason::LimitReached));
            }
            let mut minted = self.minted.lock().unwrap();
            let first = u8::try_from(100 + minted.len()).unwrap();
            let numbers = (first..).take(usize::try_from(count).unwrap());
            let made: Vec<_> = numbers.map(|n| Placeholder::new("", [n; 16])).collect();
            minted.extend(made.iter().cloned());
            Ok(made.iter().map(|p| p.as_str().to_owned()).collect())
        })
    }

    fn report(&self, outcome: Outcome) {
        self.outcomes.lock().unwrap().push(outcome);
    }

    fn refused(&self, refusal: WireRefusal) {
        self.refused.lock().unwrap().push(refusal);
    }
}

/// Dials the origin that a receipt's host stands for.
#[derive(Default)]
pub(super) struct Dialer {
    pub(super) hosts: Mutex<HashMap<String, SocketAddr>>,
    pub(super) dialled: Mutex<Vec<Endpoint>>,
}

impl Dial for Dialer {
    fn dial<'a>(&'a self, receipt: &'a Receipt) -> Pending<'a, Result<Dialed, Refusal>> {
        Box::pin(async move {
            let claims = key().open(receipt, VALID_MS).unwrap();
            self.dialled.lock().unwrap().push(claims.endpoint.clone());
            let host = claims.endpoint.host.name().unwrap().to_owned();
            let address = *self
                .hosts
                .lock()
                .unwrap()
                .get(&host)
                .expect("must not be dialled");
            Ok(Dialed {
                stream: TcpStream::connect(address).await.unwrap(),
                address: address.to_string(),
                resolved_by_proxy: false,
            })
        })
    }
}

/// What an origin does with a request's bytes (head and body as sent).
pub(super) type Script = Arc<dyn Fn(&[u8]) -> Vec<u8> + Send + Sync>;

pub(super) fn fixed(answer: impl AsRef<[u8]>) -> Script {
    let answer = answer.as_ref().to_vec();
    Arc::new(move |_| answer.clone())
}

pub(super) const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

pub(super) struct Origin {
    pub(super) address: SocketAddr,
    pub(super) requests: Arc<Mutex<Vec<Vec<u8>>>>,
    pub(super) connections: Arc<Mutex<u32>>,
}

impl Origin {
    pub(super) fn count(&self) -> usize {
        self.requests.lock().unwrap().len()
    }
    pub(super) fn request(&self, at: usize) -> String {
        String::from_utf8_lossy(&self.requests.lock().unwrap()[at]).into_owned()
    }
}

pub(super) struct Identity {
    pub(super) chain: Vec<CertificateDer<'static>>,
    key: Vec<u8>,
}

pub(super) fn identity(names: &[&str]) -> Identity {
    let names: Vec<String> = names.iter().map(|n| (*n).to_owned()).collect();
    let made = rcgen::generate_simple_self_signed(names).unwrap();
    Identity {
        chain: vec![made.cert.der().clone()],
        key: made.signing_key.serialize_der(),
    }
}

/// The server side of TLS, choosing among protocols.
pub(super) fn acceptor(identity: &Identity, protocols: &[&[u8]]) -> tokio_rustls::TlsAcceptor {
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
pub(super) async fn origin(identity: Option<&Identity>, script: Script) -> Origin {
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
