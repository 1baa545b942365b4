// SPDX-License-Identifier: Apache-2.0
//! The sandbox's ways to the pipeline: every caught dial, the loopback proxy, the DNS stub. The
//! sockets were made by the launcher inside the sandbox's network namespace.

use crate::orders::GateConfiguration;
use crate::upstreams::Upstreams;
use anyhow::{Context, ensure};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use torno_egress::{AskedDestination, Clock, HostLimits, Limits};
use torno_egress::{Peer, PinnedRoots, Pipeline, Ports, SessionConfig};
use torno_guest_protocol::{Entry, NamePool, dns};
use torno_policy::names::Host;

/// LIMIT: one question over TCP; the stub reads no longer one over UDP either.
const DNS_BYTES_MAX: usize = dns::QUERY_BYTES_MAX;
/// LIMIT: a client of the DNS stub over TCP that says nothing is let go.
const DNS_WAIT: Duration = Duration::from_secs(10);

/// The sockets of the session's way out.
pub(super) struct WayOut {
    pub(super) tcp_v4: OwnedFd,
    pub(super) tcp_v6: OwnedFd,
    pub(super) dns_udp: OwnedFd,
    pub(super) dns_tcp: OwnedFd,
    pub(super) proxy: OwnedFd,
}

/// The wall clock, for certificates.
#[derive(Debug)]
pub(super) struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> SystemTime {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
        let seconds = u64::try_from(now.tv_sec).unwrap_or_default();
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
    }
}

/// Whom the gate believes at the far end. Read before the gate gives up the file system.
pub(super) struct Trust {
    roots: Arc<rustls::RootCertStore>,
    pins: Vec<PinnedRoots>,
}

impl Trust {
    /// Reads the system's certificates and the operator's.
    pub(super) fn load(upstreams: &Upstreams) -> anyhow::Result<Self> {
        // What the TLS library reads of the machine for its generator, it reads once and here.
        let provider = rustls::crypto::aws_lc_rs::default_provider();
        provider
            .secure_random
            .fill(&mut [0; 32])
            .ok()
            .context("no random bytes")?;
        let system = rustls_native_certs::load_native_certs();
        let mut roots = rustls::RootCertStore::empty();
        roots.add_parsable_certificates(system.certs);
        for pem in &upstreams.roots {
            let (added, _) = roots.add_parsable_certificates(certificates(pem)?);
            ensure!(
                added > 0,
                "a [[root]] of upstreams.toml has no usable certificate"
            );
        }
        let mut pins = Vec::new();
        for pin in &upstreams.pins {
            let Some(pem) = &pin.ca else { continue };
            let mut only = rustls::RootCertStore::empty();
            only.add_parsable_certificates(certificates(pem)?);
            pins.push(PinnedRoots {
                host: pin.host.clone(),
                roots: Arc::new(only),
            });
        }
        Ok(Self {
            roots: Arc::new(roots),
            pins,
        })
    }
}

/// Makes the session's pipeline.
pub(super) fn pipeline(
    configuration: &GateConfiguration,
    trust: Trust,
    ports: Ports,
) -> anyhow::Result<Arc<Pipeline>> {
    let granted = &configuration.limits;
    let places = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    let limits = Limits {
        connections_max: places(granted.streams),
        egress_bytes_max: granted.egress_bytes,
        ingress_bytes_max: granted.ingress_bytes,
        each_host: HostLimits {
            egress_bytes_max: granted.each_host.egress_bytes,
            ingress_bytes_max: granted.each_host.ingress_bytes,
            streams_max: places(granted.each_host.streams),
        },
        ..Limits::default()
    };
    let config = SessionConfig {
        upstream_roots: trust.roots,
        pinned: trust.pins,
        limits,
        tripwires: configuration.tripwires.clone(),
    };
    Pipeline::new(&config, ports).context("the session's certificate authority")
}

fn certificates(pem: &str) -> anyhow::Result<Vec<CertificateDer<'static>>> {
    CertificateDer::pem_slice_iter(pem.as_bytes())
        .collect::<Result<_, _>>()
        .context("a certificate of upstreams.toml can't be read")
}

/// What connections come to, however they come.
#[derive(Clone)]
pub(super) struct Entries {
    pipeline: Arc<Pipeline>,
    names: Arc<Mutex<NamePool>>,
}

impl Entries {
    pub(super) fn new(pipeline: Arc<Pipeline>) -> Self {
        Self {
            pipeline,
            names: Arc::default(),
        }
    }

    /// Serves one connection in a task of its own.
    pub(super) fn serve<P: Peer>(&self, stream: P, entry: Entry) {
        let Self { pipeline, names } = self.clone();
        match entry {
            Entry::Captured {
                destination: address,
            } => {
                let name = name_of(&names, address.ip());
                let asked = AskedDestination { address, name };
                tokio::spawn(async move { pipeline.serve_captured(stream, asked).await });
            }
            Entry::Proxy {} => {
                tokio::spawn(async move { pipeline.serve_proxy(stream).await });
            }
            Entry::NameServer {} => {
                tokio::spawn(async move {
                    // A client that is late or goes away is let go.
                    let _ = tokio::time::timeout(DNS_WAIT, dns_over_tcp(stream, &names)).await;
                });
            }
        }
    }
}

/// Serves every socket, each connection in a task of its own.
pub(super) fn serve(way_out: WayOut, pipeline: Arc<Pipeline>) -> anyhow::Result<()> {
    let entries = Entries::new(pipeline);
    for listener in [way_out.tcp_v4, way_out.tcp_v6] {
        tokio::spawn(captured(tcp_listener(listener)?, entries.clone()));
    }
    let proxy = tcp_listener(way_out.proxy)?;
    tokio::spawn(landed(proxy, entries.clone(), Entry::Proxy {}));
    let name_server = tcp_listener(way_out.dns_tcp)?;
    tokio::spawn(landed(name_server, entries.clone(), Entry::NameServer {}));
    let udp = std::net::UdpSocket::from(way_out.dns_udp);
    udp.set_nonblocking(true)?;
    tokio::spawn(dns_udp(UdpSocket::from_std(udp)?, entries.names));
    Ok(())
}

fn tcp_listener(socket: OwnedFd) -> anyhow::Result<TcpListener> {
    let listener = std::net::TcpListener::from(socket);
    listener.set_nonblocking(true)?;
    Ok(TcpListener::from_std(listener)?)
}

/// The next connection; a failed accept (descriptors used up) is tried again after a moment.
async fn accept(listener: &TcpListener) -> TcpStream {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                // Small answers must not wait for acknowledgements; a socket without it works too.
                let _ = stream.set_nodelay(true);
                return stream;
            }
            Err(error) => {
                tracing::warn!("accept: {error}");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
}

async fn captured(listener: TcpListener, entries: Entries) {
    loop {
        let stream = accept(&listener).await;
        if let Some(destination) = original_destination(&stream) {
            entries.serve(stream, Entry::Captured { destination });
        }
    }
}

/// What lands on a socket that has one purpose.
async fn landed(listener: TcpListener, entries: Entries, entry: Entry) {
    loop {
        entries.serve(accept(&listener).await, entry);
    }
}

/// Where the program dialled to, as the kernel's redirect remembers it (SO_ORIGINAL_DST).
fn original_destination(stream: &TcpStream) -> Option<SocketAddr> {
    use rustix::net::sockopt::{ip_original_dst, ipv6_original_dst};
    match stream.local_addr().ok()? {
        SocketAddr::V4(_) => ip_original_dst(stream.as_fd()).ok().map(SocketAddr::V4),
        SocketAddr::V6(_) => ipv6_original_dst(stream.as_fd()).ok().map(SocketAddr::V6),
    }
}

/// The canonical name that an address of the pool was given out for.
fn name_of(names: &Mutex<NamePool>, address: IpAddr) -> Option<Host> {
    let IpAddr::V4(address) = address else {
        return None;
    };
    let names = names.lock().unwrap_or_else(PoisonError::into_inner);
    Host::parse(names.name_of(address)?).ok()
}

fn answer(names: &Mutex<NamePool>, query: &[u8]) -> Option<Vec<u8>> {
    // The pool is consistent after every answer, so a poisoned lock is still good.
    dns::answer(
        query,
        &mut names.lock().unwrap_or_else(PoisonError::into_inner),
    )
}

async fn dns_udp(socket: UdpSocket, names: Arc<Mutex<NamePool>>) {
    let mut query = [0_u8; DNS_BYTES_MAX + 1];
    loop {
        match socket.recv_from(&mut query).await {
            Ok((bytes, from)) => {
                let answer = answer(&names, query.get(..bytes).unwrap_or_default());
                if let Some(answer) = answer {
                    // A datagram may be lost; the client asks again.
                    let _ = socket.send_to(&answer, from).await;
                }
            }
            Err(error) => {
                tracing::warn!("dns: {error}");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
}

/// One question and its answer, each behind its length (RFC 1035 §4.2.2).
async fn dns_over_tcp<P: Peer>(mut stream: P, names: &Mutex<NamePool>) -> std::io::Result<()> {
    let length = usize::from(stream.read_u16().await?);
    if length > DNS_BYTES_MAX {
        return Ok(());
    }
    let mut query = vec![0_u8; length];
    stream.read_exact(&mut query).await?;
    let Some(answer) = answer(names, &query) else {
        return Ok(());
    };
    let Ok(length) = u16::try_from(answer.len()) else {
        return Ok(());
    };
    stream.write_u16(length).await?;
    stream.write_all(&answer).await
}
