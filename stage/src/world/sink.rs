// SPDX-License-Identifier: Apache-2.0
//! The attacker's own server: takes any connection, TLS or not, answers whatever it is sent once,
//! and keeps every byte. Anything in its journal that came out of a sandbox is a failure.

use crate::world::journal::{ConnectionIndex, Journal};
use crate::world::listen::Listening;
use anyhow::{Context, Result};
use rustls::ServerConfig;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio_rustls::TlsAcceptor;

/// First byte of a TLS handshake record.
const TLS_HANDSHAKE: u8 = 22;
/// LIMIT: an idle connection to the sink is let go.
const IDLE: Duration = Duration::from_secs(20);
const OK: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 7\r\n\r\ncaught\n";

/// Listens on loopback, TCP and UDP on one port.
///
/// # Errors
/// When no port can be had.
pub async fn serve(tls: Arc<ServerConfig>) -> Result<Listening> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .await
        .context("no port")?;
    let address = listener.local_addr().context("no address")?;
    let datagrams = UdpSocket::bind(address).await.context("no UDP port")?;
    let journal = Journal::default();
    let book = journal.clone();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (tls, book) = (TlsAcceptor::from(Arc::clone(&tls)), book.clone());
            tokio::spawn(async move {
                let page = book.open();
                let _broken = converse(stream, &tls, &book, page).await;
                book.write(page, |connection| connection.closed = true);
            });
        }
    });
    let book = journal.clone();
    tokio::spawn(async move {
        let mut buffer = vec![0; 65_536];
        while let Ok((length, from)) = datagrams.recv_from(&mut buffer).await {
            let page = book.open();
            let datagram = buffer.get(..length).unwrap_or_default();
            book.write(page, |connection| {
                connection.receive(datagram);
                connection.closed = true;
            });
            let _lost = datagrams.send_to(b"caught\n", from).await;
        }
    });
    Ok(Listening { address, journal })
}

async fn converse(
    stream: TcpStream,
    tls: &TlsAcceptor,
    journal: &Journal,
    page: ConnectionIndex,
) -> Result<()> {
    let mut first = [0];
    if tokio::time::timeout(IDLE, stream.peek(&mut first)).await?? == 0 {
        return Ok(());
    }
    if first == [TLS_HANDSHAKE] {
        let stream = tls.accept(stream).await?;
        let sni = stream.get_ref().1.server_name().map(str::to_owned);
        journal.write(page, |connection| connection.sni = sni);
        swallow(stream, journal, page).await
    } else {
        swallow(stream, journal, page).await
    }
}

async fn swallow(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    journal: &Journal,
    page: ConnectionIndex,
) -> Result<()> {
    let mut buffer = vec![0; 65_536];
    let mut answered = false;
    loop {
        let length = tokio::time::timeout(IDLE, stream.read(&mut buffer)).await??;
        if length == 0 {
            return Ok(());
        }
        let bytes = buffer.get(..length).unwrap_or_default();
        journal.write(page, |connection| connection.receive(bytes));
        if !answered {
            answered = true;
            stream.write_all(OK).await?;
            stream.shutdown().await?;
            journal.write(page, |connection| connection.send(OK));
        }
    }
}
