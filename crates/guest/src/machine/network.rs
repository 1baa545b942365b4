// SPDX-License-Identifier: Apache-2.0
//! The machine's own stack, sealed by the rules that seal a namespace of the host elsewhere:
//! loopback alone, every dial redirected to one listener, all else dropped.

use std::io::{self, Write as _};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, UdpSocket};
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use torno_guest_protocol::MachineNetwork;

/// Where the workload's dials and questions land.
#[derive(Debug)]
pub(crate) struct Listeners {
    pub(crate) captured: [TcpListener; 2],
    pub(crate) proxy: TcpListener,
    pub(crate) name_tcp: TcpListener,
    pub(crate) name_udp: UdpSocket,
}

/// Sets the network up and takes its sockets.
pub(super) fn seal(network: &MachineNetwork) -> anyhow::Result<Listeners> {
    let rules = Command::new(&network.nft)
        .args(["-f", "-"])
        .env_clear()
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let mut rules = rules.with_context(|| format!("{} does not start", network.nft))?;
    if let Some(mut stdin) = rules.stdin.take() {
        // A failed write shows in nft's own status.
        let _failed = stdin.write_all(network.rules.as_bytes());
    }
    let socket = rustix::net::socket_with(
        AddressFamily::NETLINK,
        SocketType::RAW,
        SocketFlags::CLOEXEC,
        None, // protocol 0 is NETLINK_ROUTE
    )?;
    for message in &network.routes {
        ask(&socket, message).context("loopback and its routes")?;
    }
    if !rules.wait().context("nft")?.success() {
        bail!("nft refused the rules");
    }
    let v4 = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let v6 = SocketAddr::from((Ipv6Addr::LOCALHOST, network.capture_port));
    let listen = |at: SocketAddr| TcpListener::bind(at).with_context(|| format!("listen at {at}"));
    Ok(Listeners {
        captured: [listen(v4(network.capture_port))?, listen(v6)?],
        proxy: listen(v4(network.proxy_port))?,
        name_tcp: listen(v4(DNS_PORT))?,
        name_udp: UdpSocket::bind(v4(DNS_PORT)).context("the name server's socket")?,
    })
}

/// One message and its acknowledgement (netlink(7): an error of 0).
fn ask(socket: &OwnedFd, message: &[u8]) -> io::Result<()> {
    rustix::net::send(socket, message, SendFlags::empty())?;
    let mut answer = [0_u8; 512];
    let (read, _) = rustix::net::recv(socket, &mut answer[..], RecvFlags::empty())?;
    let code = answer.get(..read).and_then(|answer| answer.get(16..20));
    let code = code.and_then(|bytes| <[u8; 4]>::try_from(bytes).ok());
    match code.map(i32::from_ne_bytes) {
        Some(0) => Ok(()),
        Some(code) => Err(io::Error::from_raw_os_error(code.wrapping_neg())),
        None => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

const DNS_PORT: u16 = 53;
