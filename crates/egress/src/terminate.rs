// SPDX-License-Identifier: Apache-2.0
//! Phase 3: ends the client's TLS with a leaf of the session's own authority, for the *asked*
//! host. A hello that names another host, or none, is let through to the first request, which is
//! then refused in words that the client can read.

mod authority;

pub(crate) use authority::{AuthorityFault, SessionAuthority};

use crate::identify::Asked;
use crate::refuse::Fault;
use crate::wire::{Duplex, ReadBuffer, SEALED_BYTES_MAX, below_tls};
use rustls::server::{Accepted, Acceptor};
use std::sync::Arc;
use tokio::io::AsyncWriteExt;
use tokio_rustls::StartHandshake;
use torno_policy::Reason;
use torno_policy::names::Host;

/// A client whose TLS was ended.
pub(crate) struct Terminated {
    pub(crate) io: Box<dyn Duplex>,
    /// Set when SNI and the asked host disagree.
    pub(crate) disagreement: Option<Fault>,
    /// The hello named a host.
    pub(crate) is_named: bool,
    /// HTTP/2 was chosen in the handshake: there is no other way to it.
    pub(crate) is_http2: bool,
}

/// What is spoken inside TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Spoken {
    Http,
    Postgres,
}

/// The protocol's name in the hello.
const POSTGRES: &[u8] = b"postgresql";

/// Reads the hello, checks its name and finishes the handshake.
pub(crate) async fn terminate(
    mut io: Box<dyn Duplex>,
    buffer: &mut ReadBuffer,
    (asked, protocol): (&Asked, Spoken),
    authority: &SessionAuthority,
) -> Result<Terminated, Fault> {
    let accepted = read_hello(&mut io, buffer).await?;
    let named = accepted.client_hello().server_name().map(Host::parse);
    let named = named.and_then(Result::ok);
    let is_named = accepted.client_hello().server_name().is_some();
    let is_postgres = accepted.client_hello().alpn().is_some_and(|mut names| {
        // libpq says so since version 17.
        names.any(|name| name == POSTGRES)
    });
    let disagreement = check_name(named.as_ref(), asked);
    let leaf_host = match (asked, named) {
        (Asked::Name(authority), _) => authority.host.clone(),
        (Asked::Address(_) | Asked::Proxy, Some(named)) => named,
        (Asked::Address(address), None) => match address.ip() {
            std::net::IpAddr::V4(v4) => Host::V4(v4),
            std::net::IpAddr::V6(v6) => Host::V6(v6),
        },
        (Asked::Proxy, None) => return Err(no_tls_on_the_proxy()),
    };
    let mut config = authority.leaf(&leaf_host).map_err(|_| cannot_mint())?;
    if is_postgres && protocol == Spoken::Postgres {
        let own = Arc::make_mut(&mut config);
        own.alpn_protocols = vec![POSTGRES.to_vec()];
    }
    let mut stream = StartHandshake::from_parts(accepted, below_tls(io))
        .into_stream(config)
        .await
        .map_err(|_| handshake_failed())?;
    stream.get_mut().1.set_buffer_limit(Some(SEALED_BYTES_MAX));
    Ok(Terminated {
        is_http2: stream.get_ref().1.alpn_protocol() == Some(b"h2"),
        io: Box::new(stream),
        disagreement,
        is_named,
    })
}

async fn read_hello(io: &mut Box<dyn Duplex>, buffer: &mut ReadBuffer) -> Result<Accepted, Fault> {
    let mut acceptor = Acceptor::default();
    loop {
        let mut unread = buffer.unread();
        while !unread.is_empty() {
            // INVARIANT: reading from a slice never fails; a full deframer is a hello too long.
            let taken = acceptor.read_tls(&mut unread);
            if taken.is_err() || matches!(taken, Ok(0)) {
                return Err(handshake_failed());
            }
        }
        let all = buffer.unread().len();
        buffer.consume(all);
        match acceptor.accept() {
            Ok(Some(accepted)) => return Ok(accepted),
            Ok(None) => {}
            Err((_, mut alert)) => {
                let mut bytes = Vec::new();
                if alert.write_all(&mut bytes).is_ok() {
                    // The client may be gone already; the refusal stands either way.
                    let _ = io.write_all(&bytes).await;
                    let _ = io.flush().await;
                }
                return Err(handshake_failed());
            }
        }
        match buffer.fill(io.as_mut()).await {
            Ok(0) | Err(_) => return Err(handshake_failed()),
            Ok(_) => {}
        }
    }
}

/// ATTACK: 037, 040 – SNI and the asked host are one name, or nothing is forwarded.
fn check_name(named: Option<&Host>, asked: &Asked) -> Option<Fault> {
    match (asked, named) {
        (Asked::Name(authority), Some(named)) if *named == authority.host => None,
        (Asked::Name(_), None) => Some(Fault::new(
            Reason::NamesDisagree,
            "send the host in the TLS hello (SNI), equal to the one that was dialled",
        )),
        (Asked::Name(_), Some(_)) => Some(Fault::new(
            Reason::NamesDisagree,
            "use one host: the TLS hello names another than the one that was dialled",
        )),
        // Refused for its own reason by `normalize`.
        (Asked::Address(_) | Asked::Proxy, _) => None,
    }
}

fn handshake_failed() -> Fault {
    Fault::new(
        Reason::UnknownProtocol,
        "the TLS handshake failed: trust the session's CA, offer TLS 1.2 or 1.3, h2 or http/1.1",
    )
}

fn cannot_mint() -> Fault {
    Fault::new(
        Reason::RoleUnavailable,
        "no certificate can be made for this host: start a new session",
    )
}

fn no_tls_on_the_proxy() -> Fault {
    Fault::new(
        Reason::UnknownProtocol,
        "speak plain HTTP to the proxy and reach TLS hosts by CONNECT",
    )
}
