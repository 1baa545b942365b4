// SPDX-License-Identifier: Apache-2.0
//! Which addresses may be dialled: globally reachable unicast only. The blocks are those of the
//! IANA special-purpose registries (RFC 6890 and the registries' later entries) whose column
//! "globally reachable" is not true, plus multicast (RFC 5771, RFC 4291) and every IPv6 form that
//! carries an IPv4 address, which is judged by both. Two kinds of global addresses are refused as
//! well: a cloud's metadata service that has one, and this machine's own.

use super::route::{self, Kind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use torno_policy::names::Host;

/// Blocks of IPv4 that are refused: address, prefix length.
const REFUSED_V4: &[(Ipv4Addr, u32)] = &[
    (Ipv4Addr::new(0, 0, 0, 0), 8),       // "this network", RFC 791
    (Ipv4Addr::new(10, 0, 0, 0), 8),      // private use, RFC 1918
    (Ipv4Addr::new(100, 64, 0, 0), 10),   // shared address space, RFC 6598
    (Ipv4Addr::new(127, 0, 0, 0), 8),     // loopback, RFC 1122
    (Ipv4Addr::new(169, 254, 0, 0), 16),  // link local and cloud metadata, RFC 3927
    (Ipv4Addr::new(172, 16, 0, 0), 12),   // private use, RFC 1918
    (Ipv4Addr::new(192, 0, 0, 0), 24),    // protocol assignments, RFC 6890
    (Ipv4Addr::new(192, 0, 2, 0), 24),    // documentation, RFC 5737
    (Ipv4Addr::new(192, 31, 196, 0), 24), // AS112, RFC 7535
    (Ipv4Addr::new(192, 52, 193, 0), 24), // AMT, RFC 7450
    (Ipv4Addr::new(192, 88, 99, 0), 24),  // 6to4 relay anycast, RFC 7526
    (Ipv4Addr::new(192, 168, 0, 0), 16),  // private use, RFC 1918
    (Ipv4Addr::new(192, 175, 48, 0), 24), // AS112, RFC 7534
    (Ipv4Addr::new(198, 18, 0, 0), 15),   // benchmarking, RFC 2544; our own names' pool
    (Ipv4Addr::new(198, 51, 100, 0), 24), // documentation, RFC 5737
    (Ipv4Addr::new(203, 0, 113, 0), 24),  // documentation, RFC 5737
    (Ipv4Addr::new(224, 0, 0, 0), 4),     // multicast, RFC 5771
    (Ipv4Addr::new(240, 0, 0, 0), 4),     // reserved and limited broadcast, RFC 1112, RFC 919
];

/// The one block of IPv6 that is global unicast (RFC 4291, IANA); everything else is refused.
const GLOBAL_V6: (Ipv6Addr, u32) = (Ipv6Addr::new(0x2000, 0, 0, 0, 0, 0, 0, 0), 3);

/// Blocks inside it that are refused.
const REFUSED_V6: &[(Ipv6Addr, u32)] = &[
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23), // protocol assignments, Teredo, ORCHID
    (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32), // documentation, RFC 3849
    (Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16), // 6to4, RFC 3056: carries an IPv4 address
    (Ipv6Addr::new(0x2620, 0x4f, 0x8000, 0, 0, 0, 0, 0), 48), // AS112, RFC 7534
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20), // documentation, RFC 9637
];

/// Whether an address may be dialled.
pub(super) fn may_dial(address: IpAddr) -> bool {
    let (host, is_special) = match address {
        IpAddr::V4(v4) => (Host::V4(v4), is_special_v4(v4)),
        IpAddr::V6(v6) => (Host::V6(v6), is_special_v6(v6)),
    };
    !is_special && !host.is_metadata()
}

/// Whether an address is this machine's own, be it the first of an interface or not. What listens
/// there answers the machine itself, behind whatever keeps others out. What nobody can say is taken
/// for ours; what has no route can't be dialled, and is left to the dialling to say so.
pub(super) fn is_own(address: IpAddr) -> bool {
    !matches!(route::kind(address), Ok(Kind::Elsewhere | Kind::Nowhere))
}

fn is_special_v4(address: Ipv4Addr) -> bool {
    let mut refused = REFUSED_V4.iter();
    refused.any(|(block, bits)| in_v4(address, *block, *bits))
}

fn is_special_v6(address: Ipv6Addr) -> bool {
    let mut refused = REFUSED_V6.iter();
    !in_v6(address, GLOBAL_V6.0, GLOBAL_V6.1)
        || refused.any(|(block, bits)| in_v6(address, *block, *bits))
}

fn in_v4(address: Ipv4Addr, block: Ipv4Addr, bits: u32) -> bool {
    let shift = 32 - bits;
    u32::from(address) >> shift == u32::from(block) >> shift
}

fn in_v6(address: Ipv6Addr, block: Ipv6Addr, bits: u32) -> bool {
    let shift = 128 - bits;
    u128::from(address) >> shift == u128::from(block) >> shift
}

#[cfg(test)]
mod tests {
    use super::*;

    fn may(text: &str) -> bool {
        may_dial(text.parse().unwrap())
    }

    // ATTACK: 021
    #[test]
    fn no_address_of_a_special_range_is_dialled() {
        for text in [
            "0.0.0.0",
            "0.1.2.3",
            "10.0.0.1",
            "100.64.0.1",
            "100.127.255.255",
            "127.0.0.1",
            "127.255.255.255",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.1",
            "192.0.0.170",
            "192.168.1.1",
            "198.18.0.1",
            "198.19.255.255",
            "224.0.0.1",
            "239.255.255.255",
            "240.0.0.1",
            "255.255.255.255",
            "192.0.2.1",
            "198.51.100.1",
            "203.0.113.1",
            "192.88.99.1",
            "::",
            "::1",
            "fe80::1",
            "fec0::1",
            "fc00::1",
            "fd00:ec2::254",
            "ff02::1",
            "2001:db8::1",
            "100::1",
            "3fff::1",
            "5f00::1",
        ] {
            assert!(!may(text), "{text}");
        }
    }

    // ATTACK: 021
    #[test]
    fn a_metadata_service_with_a_global_address_is_not_dialled() {
        // Azure's wire server, which answers virtual machines only.
        assert!(!may("168.63.129.16"));
        assert!(may("168.63.129.15") && may("168.63.129.17"));
    }

    // ATTACK: 026
    #[test]
    fn an_address_of_this_machine_is_known_and_a_far_one_is_not_taken_for_it() {
        assert!(is_own(Ipv4Addr::LOCALHOST.into()));
        assert!(is_own(Ipv6Addr::LOCALHOST.into()));
        // The kernel picks another source for these.
        assert!(is_own(Ipv4Addr::new(127, 9, 9, 9).into()));
        assert!(is_own(Ipv4Addr::BROADCAST.into()));
        assert!(!is_own(Ipv4Addr::new(192, 0, 2, 1).into()));
        assert!(!is_own(
            Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1).into()
        ));
    }

    // ATTACK: 020
    #[test]
    fn an_ipv4_address_inside_an_ipv6_address_opens_nothing() {
        for text in [
            "::ffff:127.0.0.1",
            "::ffff:93.184.215.14",
            "::127.0.0.1",
            "64:ff9b::7f00:1",
            "64:ff9b:1::7f00:1",
            "2002:7f00:1::",
            "2001:0:4136:e378:8000:63bf:3fff:fdd2",
        ] {
            assert!(!may(text), "{text}");
        }
    }

    #[test]
    fn public_addresses_are_dialled_up_to_the_borders_of_the_blocks() {
        for text in [
            "1.1.1.1",
            "9.255.255.255",
            "11.0.0.0",
            "100.63.255.255",
            "100.128.0.0",
            "126.255.255.255",
            "128.0.0.0",
            "172.15.255.255",
            "172.32.0.0",
            "198.17.255.255",
            "198.20.0.0",
            "223.255.255.255",
            "2606:4700::1111",
            "2001:200::1",
            "2a00::1",
        ] {
            assert!(may(text), "{text}");
        }
    }
}
