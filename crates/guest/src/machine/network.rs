// SPDX-License-Identifier: Apache-2.0
//! The machine's own stack, sealed by the rules that seal a namespace of the host elsewhere:
//! loopback alone, every dial redirected to one listener, all else dropped.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, UdpSocket};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use torno_guest_protocol::{MACHINE_TOOLS, MachineNetwork};

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
    // nft reads `-` from /dev/stdin, which is not there yet.
    let file = Path::new(MACHINE_TOOLS).join("rules");
    std::fs::write(&file, &network.rules).context("the rules")?;
    let (nft, words) = network.nft.split_first().context("no nft")?;
    let rules = Command::new(nft)
        .args(words)
        .arg("-f")
        .arg(&file)
        .env_clear()
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let mut rules = rules.with_context(|| format!("{nft} does not start"))?;
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
