// SPDX-License-Identifier: Apache-2.0
//! Phase 7: a connection to the endpoint that was allowed. The dialer resolves, checks and dials;
//! here its TLS is verified against the bound name. Nothing is sent before that, and no switch
//! turns it off.

mod pool;

pub(crate) use pool::Pool;

use crate::accept::Limits;
use crate::http2::client::{self, Heads};
use crate::normalize::Protocol;
use crate::ports::{Clock, Dialed, Ports};
use crate::postgres::startup::tls_request;
use crate::refuse::Fault;
use crate::wire::{BelowTls, CutFlag, Cuttable, Duplex, ReadBuffer, SEALED_BYTES_MAX, below_tls};
use rustls::client::Resumption;
use rustls::crypto::CryptoProvider;
use rustls::time_provider::TimeProvider;
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use torno_notary_protocol::gate::Allowed;
use torno_notary_protocol::receipt::Receipt;
use torno_policy::names::{CredentialName, Endpoint, Host, Scheme};
use torno_policy::{Reason, Refusal};

/// An upstream that the operator pinned to certificate authorities of its own: no others count.
#[derive(Debug, Clone)]
pub struct PinnedRoots {
    /// The exact host.
    pub host: Host,
    /// Its authorities.
    pub roots: Arc<RootCertStore>,
}

/// A verified connection to one endpoint, used for one credential (or none) in all its life.
pub(crate) struct Upstream {
    pub(crate) io: Box<dyn Duplex>,
    pub(crate) buffer: ReadBuffer,
    pub(crate) cut: CutFlag,
    pub(crate) endpoint: Endpoint,
    pub(crate) credential: Option<CredentialName>,
    pub(crate) address: String,
    pub(crate) resolved_by_proxy: bool,
    /// It was used before: the far end may have closed it meanwhile.
    pub(crate) is_reused: bool,
    pub(crate) protocol: Protocol,
    /// Where heads go when HTTP/2 is spoken: `io` is a pipe then, for bodies and answers.
    pub(crate) heads: Option<Heads>,
    /// The far end's certificate, where a login is bound to it.
    pub(crate) certificate: Option<CertificateDer<'static>>,
}

/// TLS with one set of authorities, for each protocol.
struct Tls {
    http1: TlsConnector,
    http2: TlsConnector,
    /// Servers of PostgreSQL choose no protocol here.
    postgres: TlsConnector,
}

/// Verifies far ends.
pub(crate) struct Connector {
    tls: Tls,
    pinned: HashMap<Host, Tls>,
    wait: Duration,
}

impl Connector {
    pub(crate) fn new(
        roots: &Arc<RootCertStore>,
        pinned: &[PinnedRoots],
        provider: &Arc<CryptoProvider>,
        (clock, limits): (&Arc<dyn Clock>, &Limits),
    ) -> Result<Self, rustls::Error> {
        let connector = |roots: &Arc<RootCertStore>| {
            let one = |alpn: &[&[u8]]| tls_connector((roots, alpn), provider, clock);
            Ok::<_, rustls::Error>(Tls {
                http1: one(&[b"http/1.1"])?,
                http2: one(&[b"h2", b"http/1.1"])?,
                postgres: one(&[])?,
            })
        };
        let pinned = pinned
            .iter()
            .map(|pin| Ok((pin.host.clone(), connector(&pin.roots)?)))
            .collect::<Result<_, rustls::Error>>()?;
        Ok(Self {
            tls: connector(roots)?,
            pinned,
            wait: limits.connect_wait,
        })
    }

    /// Uses the connection in hand when it is for the same credential, else makes one.
    pub(crate) async fn connect(
        &self,
        ports: &Ports,
        (allowed, protocol): (&Allowed, Protocol),
        (idle, pool): (Option<Upstream>, &Pool),
    ) -> Result<Upstream, Refusal> {
        let credential = allowed.credential();
        if let Some(idle) = idle {
            if idle.credential.as_ref() == credential {
                return Ok(idle);
            }
            pool.put(idle);
        }
        let connecting = self.dial(ports, allowed, (credential, protocol));
        match tokio::time::timeout(self.wait, connecting).await {
            Ok(result) => result,
            Err(_) => Err(Fault::new(
                Reason::UpstreamTimeout,
                "the far end did not accept a connection in time: try again later",
            )
            .refusal()),
        }
    }

    async fn dial(
        &self,
        ports: &Ports,
        allowed: &Allowed,
        (credential, protocol): (Option<&CredentialName>, Protocol),
    ) -> Result<Upstream, Refusal> {
        let Dialed {
            stream,
            address,
            resolved_by_proxy,
        } = ports.dial.dial(receipt(allowed)?).await?;
        // A missing nodelay costs time, nothing else.
        let _ = stream.set_nodelay(true);
        let cut = CutFlag::default();
        let plain = Cuttable::new(stream, Arc::clone(&cut));
        let host = &allowed.endpoint.host;
        let mut certificate = None;
        let (io, heads): (Box<dyn Duplex>, _) = match (allowed.endpoint.scheme, protocol) {
            (Scheme::Http, Protocol::Http1) => (Box::new(plain), None),
            (Scheme::Http, Protocol::Http2) => return Err(no_http2()),
            (Scheme::Https, _) => self.verify(plain, host, protocol).await?,
            (Scheme::Postgres, _) => {
                let stream = self.verify_database(plain, host).await?;
                let chain = stream.get_ref().1.peer_certificates().unwrap_or_default();
                certificate = chain.first().cloned();
                (Box::new(stream), None)
            }
        };
        Ok(Upstream {
            io,
            buffer: ReadBuffer::new(),
            cut,
            endpoint: allowed.endpoint.clone(),
            credential: credential.cloned(),
            address,
            resolved_by_proxy,
            is_reused: false,
            protocol,
            heads,
            certificate,
        })
    }

    /// Asks a server of PostgreSQL for TLS and verifies it. One byte is read before: what is glued
    /// behind it would have to be TLS.
    async fn verify_database(
        &self,
        mut plain: Cuttable<TcpStream>,
        host: &Host,
    ) -> Result<TlsStream<BelowTls<Cuttable<TcpStream>>>, Refusal> {
        let lost = Fault::new(
            Reason::ConnectFailed,
            "the far end closed the connection: check its address and port",
        );
        let mut answer = [0];
        let asking = async {
            plain.write_all(&tls_request()).await?;
            plain.read_exact(&mut answer).await
        };
        asking.await.map_err(|_| lost.refusal())?;
        if answer != *b"S" {
            let hint = "the far end offers no TLS: turn ssl on there, no password is sent without";
            return Err(Fault::new(Reason::UpstreamTls, hint).refusal());
        }
        let (name, tls) = self.towards(host)?;
        let stream = tls.postgres.connect(name, below_tls(plain)).await;
        stream.map_err(|_| unverified())
    }

    /// The name to verify, and the authorities to verify it by.
    fn towards(&self, host: &Host) -> Result<(ServerName<'static>, &Tls), Refusal> {
        let name = match host {
            Host::Name(name) => ServerName::try_from(name.to_string()).ok(),
            Host::V4(address) => Some(ServerName::from(std::net::IpAddr::V4(*address))),
            Host::V6(address) => Some(ServerName::from(std::net::IpAddr::V6(*address))),
        };
        let name = name.ok_or_else(unverified)?;
        Ok((name, self.pinned.get(host).unwrap_or(&self.tls)))
    }

    /// ATTACK: 046
    async fn verify(
        &self,
        plain: Cuttable<TcpStream>,
        host: &Host,
        protocol: Protocol,
    ) -> Result<(Box<dyn Duplex>, Option<Heads>), Refusal> {
        let (name, tls) = self.towards(host)?;
        let tls = match protocol {
            Protocol::Http1 => &tls.http1,
            Protocol::Http2 => &tls.http2,
        };
        let stream = tls.connect(name, below_tls(plain)).await;
        let mut stream = stream.map_err(|_| unverified())?;
        stream.get_mut().1.set_buffer_limit(Some(SEALED_BYTES_MAX));
        let chosen = stream.get_ref().1.alpn_protocol();
        match protocol {
            Protocol::Http1 => Ok((Box::new(stream), None)),
            Protocol::Http2 if chosen != Some(b"h2") => Err(no_http2()),
            Protocol::Http2 => {
                let opened = client::open(Box::new(stream)).await;
                let (heads, pipe) = opened.map_err(|_| no_http2())?;
                Ok((Box::new(pipe), Some(heads)))
            }
        }
    }
}

/// The right to a connection or to an unlock, where the answer gave one.
pub(crate) fn receipt(allowed: &Allowed) -> Result<&Receipt, Refusal> {
    allowed.receipt.as_ref().ok_or_else(|| {
        let hint = "what was allowed was for a connection that is gone: try again";
        Fault::new(Reason::RoleUnavailable, hint).refusal()
    })
}

fn unverified() -> Refusal {
    Fault::new(
        Reason::UpstreamTls,
        "the far end's certificate is not valid for this host: nothing was sent to it",
    )
    .refusal()
}

/// gRPC can't be told in HTTP/1.1.
fn no_http2() -> Refusal {
    let hint = "the far end does not speak HTTP/2, which gRPC needs: nothing was sent to it";
    Fault::answer(hint).refusal()
}

/// LIMIT: TLS sessions that can be resumed: about as many hosts as a session talks to at once.
const RESUMABLE_MAX: usize = 64;

fn tls_connector(
    (roots, alpn): (&Arc<RootCertStore>, &[&[u8]]),
    provider: &Arc<CryptoProvider>,
    clock: &Arc<dyn Clock>,
) -> Result<TlsConnector, rustls::Error> {
    let time = Arc::new(ClockTime(Arc::clone(clock)));
    let mut config = ClientConfig::builder_with_details(Arc::clone(provider), time)
        .with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12])?
        .with_root_certificates(Arc::clone(roots))
        .with_no_client_auth();
    config.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
    config.resumption = Resumption::in_memory_sessions(RESUMABLE_MAX);
    Ok(TlsConnector::from(Arc::new(config)))
}

/// The port's clock in the form that certificate verification takes.
#[derive(Debug)]
struct ClockTime(Arc<dyn Clock>);

impl TimeProvider for ClockTime {
    fn current_time(&self) -> Option<UnixTime> {
        let since = self.0.now().duration_since(SystemTime::UNIX_EPOCH).ok()?;
        Some(UnixTime::since_unix_epoch(since))
    }
}

impl fmt::Debug for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Upstream")
            .field("endpoint", &self.endpoint)
            .finish_non_exhaustive()
    }
}
