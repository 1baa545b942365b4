// SPDX-License-Identifier: Apache-2.0
//! Where the kernel would send packets for an address: one question of rtnetlink(7). Binding to the
//! address would say less: with `ip_nonlocal_bind` every address can be bound to.

use rustix::io::Errno;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use std::net::IpAddr;

/// What the kernel does with packets for an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// It takes them itself: as its own, or as a broadcast, anycast or multicast address.
    Here,
    /// It sends them to somebody else.
    Elsewhere,
    /// It has no route.
    Nowhere,
}

const NLMSG_ERROR: u16 = 2;
const RTM_NEWROUTE: u16 = 24;
const RTM_GETROUTE: u16 = 26;
const NLM_F_REQUEST: u16 = 1;
const RTA_DST: u16 = 1;
const RTN_UNICAST: u8 = 1;
/// What an error number can be (`MAX_ERRNO`).
const ERRORS: std::ops::RangeInclusive<i32> = 1..=4095;
/// Lengths of `nlmsghdr` and `rtmsg`, and the place of `rtm_type` behind both.
const HEADER: usize = 16;
const ROUTE: usize = 12;
const TYPE_AT: usize = HEADER + 7;

/// Asks the kernel. Nothing is sent to anybody else.
pub(super) fn kind(address: IpAddr) -> rustix::io::Result<Kind> {
    let socket = rustix::net::socket_with(
        AddressFamily::NETLINK,
        SocketType::DGRAM,
        SocketFlags::CLOEXEC,
        None,
    )?;
    let kernel = SocketAddrNetlink::new(0, 0);
    rustix::net::sendto(&socket, &question(address), SendFlags::empty(), &kernel)?;
    let mut answer = [0_u8; 1024];
    let (length, _) = rustix::net::recv(&socket, &mut answer[..], RecvFlags::empty())?;
    match read(answer.get(..length).unwrap_or_default()) {
        // A kernel without IPv6 has no such address.
        Err(Errno::OPNOTSUPP | Errno::AFNOSUPPORT) if address.is_ipv6() => Ok(Kind::Nowhere),
        read => read,
    }
}

fn question(address: IpAddr) -> Vec<u8> {
    let (family, octets) = match address {
        IpAddr::V4(v4) => (AddressFamily::INET, v4.octets().to_vec()),
        IpAddr::V6(v6) => (AddressFamily::INET6, v6.octets().to_vec()),
    };
    let family = family.as_raw().to_le_bytes()[0];
    let bits = if address.is_ipv4() { 32 } else { 128 };
    let attribute = if address.is_ipv4() { 8_u16 } else { 20 };
    let whole = if address.is_ipv4() { 36_u32 } else { 48 };
    let mut bytes = whole.to_ne_bytes().to_vec();
    for part in [RTM_GETROUTE, NLM_F_REQUEST] {
        bytes.extend(part.to_ne_bytes());
    }
    // Number of the question and of who asks: one question for each socket.
    bytes.resize(HEADER, 0);
    bytes.extend([family, bits]);
    bytes.resize(HEADER + ROUTE, 0);
    bytes.extend(attribute.to_ne_bytes());
    bytes.extend(RTA_DST.to_ne_bytes());
    bytes.extend(octets);
    bytes
}

fn read(answer: &[u8]) -> rustix::io::Result<Kind> {
    let kind = answer.get(4..6).and_then(|two| two.try_into().ok());
    match kind.map(u16::from_ne_bytes) {
        Some(RTM_NEWROUTE) => match answer.get(TYPE_AT) {
            Some(&RTN_UNICAST) => Ok(Kind::Elsewhere),
            Some(_) => Ok(Kind::Here),
            None => Err(Errno::PROTO),
        },
        Some(NLMSG_ERROR) => {
            let code = answer.get(HEADER..HEADER + 4);
            let code = code.and_then(|four| four.try_into().ok());
            let code = code.map_or(0, i32::from_ne_bytes).saturating_neg();
            if !ERRORS.contains(&code) {
                return Err(Errno::PROTO);
            }
            match Errno::from_raw_os_error(code) {
                Errno::NETUNREACH | Errno::HOSTUNREACH | Errno::ACCESS => Ok(Kind::Nowhere),
                other => Err(other),
            }
        }
        _ => Err(Errno::PROTO),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_is_not_understood_is_no_answer() {
        let mut route = [0_u8; HEADER + ROUTE];
        route[4..6].copy_from_slice(&RTM_NEWROUTE.to_ne_bytes());
        for (kind, means) in [(1, Kind::Elsewhere), (2, Kind::Here), (4, Kind::Here)] {
            route[TYPE_AT] = kind;
            assert_eq!(read(&route), Ok(means));
        }
        assert!(read(&route[..TYPE_AT]).is_err());
        assert!(read(&[]).is_err());
        let mut error = [0_u8; HEADER + 4];
        error[4..6].copy_from_slice(&NLMSG_ERROR.to_ne_bytes());
        assert!(read(&error).is_err());
        for (errno, means) in [
            (Errno::NETUNREACH, Ok(Kind::Nowhere)),
            (Errno::PERM, Err(Errno::PERM)),
        ] {
            error[HEADER..].copy_from_slice(&(-errno.raw_os_error()).to_ne_bytes());
            assert_eq!(read(&error), means);
        }
    }
}
