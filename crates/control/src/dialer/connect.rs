// SPDX-License-Identifier: Apache-2.0
//! Resolve once, check all, dial one of the checked. A name with one refused address is refused
//! whole: an answer that mixes public and internal addresses is an attack or a mistake.

use super::{address, refusal};
use crate::upstreams::Upstreams;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use torno_policy::decision::{Reason, Refusal};
use torno_policy::names::{Endpoint, Host};

/// LIMIT: the whole of one dial; clients give up at about this time.
const DIAL_WAIT: Duration = Duration::from_secs(15);
/// LIMIT: one address of several.
const ADDRESS_WAIT: Duration = Duration::from_secs(5);
/// LIMIT: addresses of one name that are looked at; a longer answer is refused, not cut.
const ADDRESSES_MAX: usize = 64;
/// LIMIT: a company proxy's answer to CONNECT.
const PROXY_HEAD_BYTES_MAX: usize = 8 * 1024;

/// A connected socket and how it came about.
#[derive(Debug)]
pub(super) struct Dialed {
    pub(super) socket: std::net::TcpStream,
    pub(super) address: SocketAddr,
    pub(super) by_proxy: bool,
}

/// Dials an endpoint within [`DIAL_WAIT`].
pub(super) async fn dial(endpoint: &Endpoint, upstreams: &Upstreams) -> Result<Dialed, Refusal> {
    let late = |_| {
        refusal(
            Reason::ConnectFailed,
            "the far end did not accept in 15 s; try later",
        )
    };
    timeout(DIAL_WAIT, dial_unbounded(endpoint, upstreams))
        .await
        .map_err(late)?
}

async fn dial_unbounded(endpoint: &Endpoint, upstreams: &Upstreams) -> Result<Dialed, Refusal> {
    if let Some(pin) = upstreams.pin(&endpoint.host, endpoint.port) {
        return connected(connect_one(pin.address).await?, pin.address, false);
    }
    if let Some(proxy) = upstreams.proxy {
        let mut stream = connect_one(proxy).await?;
        through_proxy(&mut stream, endpoint).await?;
        return connected(stream, proxy, true);
    }
    let addresses = checked_addresses(endpoint).await?;
    let mut failure = refusal(
        Reason::NameUnresolved,
        "the name has no address; check its spelling",
    );
    for address in addresses {
        match connect_one(address).await {
            Ok(stream) => return connected(stream, address, false),
            Err(refused) => failure = refused,
        }
    }
    Err(failure)
}

/// Every address of the endpoint, each of which may be dialled.
async fn checked_addresses(endpoint: &Endpoint) -> Result<Vec<SocketAddr>, Refusal> {
    let port = endpoint.port.number();
    let addresses: Vec<IpAddr> = match &endpoint.host {
        Host::V4(v4) => vec![IpAddr::V4(*v4)],
        Host::V6(v6) => vec![IpAddr::V6(*v6)],
        Host::Name(name) => {
            // The dot at the end keeps the resolver from trying the search list.
            let lookup = tokio::net::lookup_host((format!("{name}."), port)).await;
            let unresolved = |_| {
                refusal(
                    Reason::NameUnresolved,
                    "the name has no address; check its spelling",
                )
            };
            lookup
                .map_err(unresolved)?
                .map(|a| a.ip())
                .take(ADDRESSES_MAX + 1)
                .collect()
        }
    };
    let refused = |a: &IpAddr| !address::may_dial(*a) || address::is_own(*a);
    if addresses.len() > ADDRESSES_MAX || addresses.iter().any(refused) {
        let hint = "an address of the name is internal or special; an operator can pin the name";
        return Err(refusal(Reason::AddressRefused, hint));
    }
    Ok(addresses
        .into_iter()
        .map(|ip| SocketAddr::new(ip, port))
        .collect())
}

async fn connect_one(address: SocketAddr) -> Result<TcpStream, Refusal> {
    let failed = || {
        refusal(
            Reason::ConnectFailed,
            "the far end did not accept; try later",
        )
    };
    let stream = timeout(ADDRESS_WAIT, TcpStream::connect(address)).await;
    stream.map_err(|_| failed())?.map_err(|_| failed())
}

fn connected(stream: TcpStream, address: SocketAddr, by_proxy: bool) -> Result<Dialed, Refusal> {
    let failed = |_| {
        refusal(
            Reason::ConnectFailed,
            "the far end closed at once; try later",
        )
    };
    let peer = stream.peer_addr().map_err(failed)?;
    // Refusing to trust the loop above: the socket's own word decides.
    if peer != address {
        return Err(refusal(
            Reason::ConnectFailed,
            "the socket's peer is not the checked address",
        ));
    }
    // Small writes of heads must not wait for acknowledgements; a socket without the option works.
    let _ = stream.set_nodelay(true);
    let socket = stream.into_std().map_err(failed)?;
    Ok(Dialed {
        socket,
        address,
        by_proxy,
    })
}

/// Asks a company proxy for a tunnel (RFC 9110 §9.3.6). Its answer is read byte by byte up to the
/// empty line, so that nothing of the tunnel is swallowed.
async fn through_proxy(stream: &mut TcpStream, endpoint: &Endpoint) -> Result<(), Refusal> {
    let failed = || {
        refusal(
            Reason::ConnectFailed,
            "the company proxy refused the tunnel",
        )
    };
    let authority = format!("{}:{}", endpoint.host, endpoint.port);
    let request = format!("CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\r\n");
    stream
        .write_all(request.as_bytes())
        .await
        .map_err(|_| failed())?;
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        if head.len() >= PROXY_HEAD_BYTES_MAX {
            return Err(failed());
        }
        head.push(stream.read_u8().await.map_err(|_| failed())?);
    }
    let accepted = head.starts_with(b"HTTP/1.1 200 ") || head.starts_with(b"HTTP/1.0 200 ");
    if accepted { Ok(()) } else { Err(failed()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use torno_policy::names::{Port, Scheme};

    fn endpoint(host: &str, port: u16) -> Endpoint {
        let (host, port) = (Host::parse(host).unwrap(), Port::new(port).unwrap());
        Endpoint {
            scheme: Scheme::Https,
            host,
            port,
        }
    }

    // ATTACK: 026
    #[tokio::test]
    async fn an_internal_address_is_refused_before_any_connection() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let port = listener.local_addr().unwrap().port();
        for host in ["127.0.0.1", "localhost"] {
            let refused = dial(&endpoint(host, port), &Upstreams::default())
                .await
                .unwrap_err();
            assert_ne!(refused.reason, Reason::ConnectFailed, "{host}");
        }
        assert!(listener.accept().is_err(), "somebody connected");
    }

    #[tokio::test]
    async fn a_pinned_name_is_dialled_at_its_pin() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let host = Host::parse("api.test").unwrap();
        let pin = crate::upstreams::Pin {
            host,
            port: Port::HTTPS,
            address,
            ca: None,
        };
        let upstreams = Upstreams {
            pins: vec![pin],
            ..Upstreams::default()
        };
        let dialed = dial(&endpoint("api.test", 443), &upstreams).await.unwrap();
        assert_eq!((dialed.address, dialed.by_proxy), (address, false));
        assert!(dialed.socket.peer_addr().is_ok());
    }

    #[tokio::test]
    async fn a_company_proxy_is_asked_for_the_name_and_swallows_nothing_of_the_tunnel() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let proxy = listener.local_addr().unwrap();
        let served = std::thread::spawn(move || {
            use std::io::{Read, Write};
            let (mut stream, _) = listener.accept().unwrap();
            let mut head = [0_u8; 256];
            let n = stream.read(&mut head).unwrap();
            stream
                .write_all(b"HTTP/1.1 200 ok\r\nX: y\r\n\r\ntunnel")
                .unwrap();
            String::from_utf8_lossy(&head[..n]).into_owned()
        });
        let upstreams = Upstreams {
            proxy: Some(proxy),
            ..Upstreams::default()
        };
        let mut dialed = dial(&endpoint("far.test", 443), &upstreams).await.unwrap();
        assert!(dialed.by_proxy);
        assert!(
            served
                .join()
                .unwrap()
                .starts_with("CONNECT far.test:443 HTTP/1.1\r\n")
        );
        dialed.socket.set_nonblocking(false).unwrap();
        let mut rest = [0_u8; 6];
        std::io::Read::read_exact(&mut dialed.socket, &mut rest).unwrap();
        assert_eq!(&rest, b"tunnel");
    }
}
