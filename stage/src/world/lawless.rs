// SPDX-License-Identifier: Apache-2.0
//! A proxy without any law: CONNECT to wherever it is asked, the naive reading of authorities
//! included. Attempts are run through it with their wall off. It dials loopback only: names and
//! addresses that are none of ours lead to the attacker's sink.

use anyhow::{Context, Result, bail};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// LIMIT: the head of a CONNECT request.
const HEAD_BYTES_MAX: usize = 8192;

/// Where names and ports lead, and where everything else does.
#[derive(Debug, Clone)]
pub struct Map {
    /// `host:port` → loopback address.
    pub known: Vec<(String, SocketAddr)>,
    /// The sink.
    pub otherwise: SocketAddr,
}

impl Map {
    /// Where an authority leads.
    #[must_use]
    pub fn address(&self, authority: &str) -> SocketAddr {
        // The mistake that many proxies made: what follows the last `@` is the host.
        let authority = authority.rsplit('@').next().unwrap_or(authority);
        let found = self.known.iter().find(|(name, _)| name == authority);
        found.map_or(self.otherwise, |(_, address)| *address)
    }
}

/// Listens on loopback.
///
/// # Errors
/// When no port can be had.
pub async fn serve(map: Map) -> Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .await
        .context("no port")?;
    let address = listener.local_addr().context("no address")?;
    let map = Arc::new(map);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let map = Arc::clone(&map);
            tokio::spawn(async move {
                let _broken = connect(stream, &map).await;
            });
        }
    });
    Ok(address)
}

async fn connect(mut client: TcpStream, map: &Map) -> Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        if head.len() > HEAD_BYTES_MAX {
            bail!("the head is too long");
        }
        head.push(client.read_u8().await?);
    }
    let head = String::from_utf8_lossy(&head);
    let Some(authority) = head
        .strip_prefix("CONNECT ")
        .and_then(|rest| rest.split(' ').next())
    else {
        bail!("not CONNECT");
    };
    let mut far = TcpStream::connect(map.address(authority)).await?;
    client.write_all(b"HTTP/1.1 200 Connected\r\n\r\n").await?;
    tokio::io::copy_bidirectional(&mut client, &mut far).await?;
    Ok(())
}
