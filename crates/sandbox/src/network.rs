// SPDX-License-Identifier: Apache-2.0
//! The sealed network: a namespace with nothing but loopback, in which every TCP dial lands on one
//! listener and everything else is dropped. It is the same for every sandbox, so one can be made
//! ahead of the start that uses it.

mod routes;

use crate::sys;
use rustix::net::{self, AddressFamily, SocketFlags, SocketType, sockopt};
use std::fs::File;
use std::io::{self, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use thiserror::Error;

/// Where captured dials land.
pub const CAPTURE_PORT: u16 = 3129;
/// Where programs that want a proxy find one.
pub const PROXY_PORT: u16 = 3128;
const DNS_PORT: u16 = 53;
/// LIMIT: pending connections of one listener; the kernel caps it at somaxconn, the gate accepts
/// at once.
const BACKLOG: i32 = 1024;
/// LIMIT: bytes of nft's complaint that go into an error.
const NFT_MESSAGE_MAX: usize = 2048;

/// The rules, loaded in one transaction. No text of a session is in them.
pub const RULESET: &str = "\
table inet torno {
  chain capture {
    type nat hook output priority -100; policy accept;
    ip daddr 127.0.0.0/8 accept
    ip6 daddr ::1 accept
    meta l4proto tcp redirect to :3129
  }
  chain seal {
    type filter hook output priority 0; policy drop;
    ct state invalid drop
    ct state established,related accept
    tcp dport 3129 ct status dnat accept
    tcp dport 3129 reject with tcp reset
    ip daddr 127.0.0.0/8 meta l4proto { tcp, udp } accept
    ip6 daddr ::1 meta l4proto { tcp, udp } accept
  }
  chain inward {
    type filter hook input priority 0; policy drop;
    iif lo accept
  }
  chain through {
    type filter hook forward priority 0; policy drop;
  }
}
";

/// What asks the kernel for loopback and for the routes that bring every dial to it, for a stack
/// that is not the host's.
pub(crate) fn catch_all_messages() -> Vec<Vec<u8>> {
    routes::messages()
}

/// Why the network could not be sealed.
#[derive(Debug, Error)]
pub enum NetworkError {
    /// The thread could not be made or died.
    #[error("the network's thread failed")]
    Thread(#[source] io::Error),
    /// No namespace.
    #[error("a network namespace could not be made")]
    Namespace(#[source] io::Error),
    /// Loopback or the catch-all routes.
    #[error("loopback could not be set up ({0})")]
    Routes(&'static str, #[source] io::Error),
    /// `nft` is not installed.
    #[error("nft is not installed: run `apt-get install nftables`")]
    NftMissing,
    /// `nft` refused the rules.
    #[error("nft refused the rules: `{0}`; the kernel needs nf_tables with nat and conntrack")]
    Nft(String),
    /// A socket.
    #[error("the {0} socket could not be made")]
    Socket(&'static str, #[source] io::Error),
}

/// A sealed network namespace with its sockets.
#[derive(Debug)]
pub struct SealedNetwork {
    /// The namespace.
    pub(crate) namespace: OwnedFd,
    /// Catches every IPv4 dial.
    pub(crate) tcp_v4: OwnedFd,
    /// Catches every IPv6 dial; absent where the kernel has no IPv6 at all.
    pub(crate) tcp_v6: Option<OwnedFd>,
    /// DNS over UDP.
    pub(crate) dns_udp: OwnedFd,
    /// DNS over TCP.
    pub(crate) dns_tcp: OwnedFd,
    /// The proxy's listener.
    pub(crate) proxy: OwnedFd,
}

impl SealedNetwork {
    /// Makes one, in a thread that ends with it.
    ///
    /// # Errors
    /// [`NetworkError`]; nothing is left behind.
    pub fn make(nft: &Path) -> Result<Self, NetworkError> {
        thread::scope(|scope| {
            let worker = thread::Builder::new()
                .name("seal-network".into())
                .spawn_scoped(scope, || make_here(nft))
                .map_err(NetworkError::Thread)?;
            worker
                .join()
                .unwrap_or_else(|_| Err(NetworkError::Thread(io::ErrorKind::Other.into())))
        })
    }
}

fn make_here(nft: &Path) -> Result<SealedNetwork, NetworkError> {
    sys::leave_network_namespace().map_err(NetworkError::Namespace)?;
    let rules = Rules::begin(nft)?;
    let has_v6 = routes::catch_all()?;
    rules.finish()?;
    let namespace = File::open("/proc/thread-self/ns/net")
        .map_err(NetworkError::Namespace)?
        .into();
    let v4 = |port| SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, port));
    let tcp_v6 = if has_v6 {
        let address = SocketAddrV6::new(Ipv6Addr::LOCALHOST, CAPTURE_PORT, 0, 0);
        Some(listen("capture (IPv6)", SocketAddr::V6(address))?)
    } else {
        None
    };
    Ok(SealedNetwork {
        namespace,
        tcp_v4: listen("capture (IPv4)", v4(CAPTURE_PORT))?,
        tcp_v6,
        dns_udp: bind("dns (UDP)", v4(DNS_PORT), SocketType::DGRAM)?,
        dns_tcp: listen("dns (TCP)", v4(DNS_PORT))?,
        proxy: listen("proxy", v4(PROXY_PORT))?,
    })
}

/// A running `nft`: it starts while the routes are set.
struct Rules(std::process::Child);

impl Rules {
    fn begin(nft: &Path) -> Result<Self, NetworkError> {
        let mut child = Command::new(nft)
            .args(["-f", "-"])
            .env_clear()
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|_| NetworkError::NftMissing)?;
        if let Some(mut stdin) = child.stdin.take() {
            // A failed write shows in nft's own status.
            let _ = stdin.write_all(RULESET.as_bytes());
        }
        Ok(Self(child))
    }

    fn finish(self) -> Result<(), NetworkError> {
        let output = self.0.wait_with_output().map_err(NetworkError::Thread)?;
        if output.status.success() {
            return Ok(());
        }
        let mut text = String::from_utf8_lossy(&output.stderr).replace(['\n', '`'], " ");
        text.truncate(text.floor_char_boundary(NFT_MESSAGE_MAX));
        Err(NetworkError::Nft(text.trim().to_owned()))
    }
}

fn bind(name: &'static str, at: SocketAddr, kind: SocketType) -> Result<OwnedFd, NetworkError> {
    let family = if at.is_ipv4() {
        AddressFamily::INET
    } else {
        AddressFamily::INET6
    };
    let make = || -> rustix::io::Result<OwnedFd> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = net::socket_with(family, kind, flags, None)?;
        if !at.is_ipv4() {
            sockopt::set_ipv6_v6only(&socket, true)?;
        }
        net::bind(&socket, &at)?;
        Ok(socket)
    };
    make().map_err(|error| NetworkError::Socket(name, error.into()))
}

fn listen(name: &'static str, at: SocketAddr) -> Result<OwnedFd, NetworkError> {
    let socket = bind(name, at, SocketType::STREAM)?;
    net::listen(&socket, BACKLOG).map_err(|error| NetworkError::Socket(name, error.into()))?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rules_name_the_ports_that_the_sockets_use() {
        assert!(RULESET.contains(&format!("redirect to :{CAPTURE_PORT}\n")));
        assert_eq!(
            RULESET.matches(&format!("dport {CAPTURE_PORT} ")).count(),
            2
        );
    }

    #[test]
    fn each_filter_chain_drops_by_default() {
        assert_eq!(
            RULESET.matches("type filter").count(),
            RULESET.matches("policy drop").count()
        );
    }
}
