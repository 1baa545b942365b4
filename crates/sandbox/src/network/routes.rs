// SPDX-License-Identifier: Apache-2.0
//! Loopback up and a catch-all local route for both families, asked of the kernel over route
//! netlink: three fixed messages, no text and no further process.

use super::NetworkError;
use rustix::net::{self, AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use std::io;
use std::os::fd::OwnedFd;

const NEW_LINK: u16 = libc::RTM_NEWLINK;
const NEW_ROUTE: u16 = libc::RTM_NEWROUTE;
/// The loopback interface's index in every network namespace.
const LOOPBACK: u32 = 1;
const UP: u32 = 1;
const TABLE_LOCAL: u8 = 255;
const PROTOCOL_BOOT: u8 = 3;
const SCOPE_HOST: u8 = 254;
const TYPE_LOCAL: u8 = 2;
const ATTRIBUTE_OIF: u16 = 4;

/// Sets loopback up and routes every address to it; says whether the kernel has IPv6.
pub(super) fn catch_all() -> Result<bool, NetworkError> {
    let socket = net::socket_with(
        AddressFamily::NETLINK,
        SocketType::RAW,
        SocketFlags::CLOEXEC,
        None, // protocol 0 is NETLINK_ROUTE
    )
    .map_err(|error| NetworkError::Routes("netlink", error.into()))?;
    ask(&socket, &loopback_up()).map_err(|error| NetworkError::Routes("lo up", error))?;
    ask(&socket, &route_everything(AddressFamily::INET.as_raw()))
        .map_err(|error| NetworkError::Routes("IPv4 route", error))?;
    if !kernel_has_v6() {
        return Ok(false);
    }
    ask(&socket, &route_everything(AddressFamily::INET6.as_raw()))
        .map_err(|error| NetworkError::Routes("IPv6 route", error))?;
    Ok(true)
}

/// The messages of [`catch_all`], for a kernel with both families.
pub(super) fn messages() -> Vec<Vec<u8>> {
    vec![
        loopback_up(),
        route_everything(AddressFamily::INET.as_raw()),
        route_everything(AddressFamily::INET6.as_raw()),
    ]
}

/// Without IPv6 in the kernel no program inside can make such a socket either.
fn kernel_has_v6() -> bool {
    let made = net::socket_with(
        AddressFamily::INET6,
        SocketType::STREAM,
        SocketFlags::CLOEXEC,
        None,
    );
    !matches!(made, Err(rustix::io::Errno::AFNOSUPPORT))
}

fn loopback_up() -> Vec<u8> {
    let mut body = vec![0, 0, 0, 0];
    for word in [LOOPBACK, UP, UP] {
        body.extend(word.to_ne_bytes());
    }
    message(NEW_LINK, 0, &body)
}

fn route_everything(family: u16) -> Vec<u8> {
    let family = family.to_le_bytes();
    let mut body = vec![
        family.first().copied().unwrap_or_default(),
        0,
        0,
        0,
        TABLE_LOCAL,
        PROTOCOL_BOOT,
        SCOPE_HOST,
        TYPE_LOCAL,
        0,
        0,
        0,
        0,
    ];
    body.extend(8_u16.to_ne_bytes());
    body.extend(ATTRIBUTE_OIF.to_ne_bytes());
    body.extend(LOOPBACK.to_ne_bytes());
    message(NEW_ROUTE, 0x400 | 0x200, &body)
}

fn message(kind: u16, flags: u16, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(16 + body.len()).unwrap_or(u32::MAX);
    let mut bytes = Vec::with_capacity(16 + body.len());
    bytes.extend(length.to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    // Request with acknowledgement.
    bytes.extend((flags | 0x1 | 0x4).to_ne_bytes());
    bytes.extend(1_u32.to_ne_bytes());
    bytes.extend(0_u32.to_ne_bytes());
    bytes.extend(body);
    bytes
}

fn ask(socket: &OwnedFd, bytes: &[u8]) -> io::Result<()> {
    net::send(socket, bytes, SendFlags::empty())?;
    let mut answer = [0_u8; 512];
    let (read, _) = net::recv(socket, &mut answer[..], RecvFlags::empty())?;
    let code = answer
        .get(16..20)
        .filter(|_| read >= 20)
        .and_then(|bytes| <[u8; 4]>::try_from(bytes).ok())
        .map(i32::from_ne_bytes)
        .ok_or(io::ErrorKind::UnexpectedEof)?;
    match code {
        0 => Ok(()),
        code => Err(io::Error::from_raw_os_error(-code)),
    }
}
