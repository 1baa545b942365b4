// SPDX-License-Identifier: Apache-2.0
//! Families of sockets: each is a body of kernel code behind one call. A workload has three.

use super::{Escape, lacking, meets, says};

const NO_FAMILY: &str = "the host's kernel was built without this family";

pub(super) const ESCAPES: [Escape; 9] = [
    lacking(
        NO_FAMILY,
        says(
            "open the kernel's ciphers as a socket",
            "136, cve-2017-17805, cve-2017-17806, cve-2018-19854, cve-2019-8912, cve-2017-18075",
            r"
family(38, socket.SOCK_SEQPACKET, 0)
family(socket.AF_NETLINK, socket.SOCK_RAW, 21)
",
            meets(
                "EPERM",
                "EAFNOSUPPORT EPROTONOSUPPORT",
                "EAFNOSUPPORT EPROTONOSUPPORT",
            ),
        ),
    ),
    says(
        "open a socket to the hypervisor",
        "136, cve-2021-26708",
        r"
family(40, socket.SOCK_STREAM, 0)
family(40, socket.SOCK_DGRAM, 0)
",
        meets("EPERM", "EAFNOSUPPORT", "EAFNOSUPPORT"),
    ),
    says(
        "open the packet filter's socket",
        "136, cve-2021-22555, cve-2022-32250, cve-2024-1086",
        "family(socket.AF_NETLINK, socket.SOCK_RAW, 12)",
        meets("EPERM", "EPROTONOSUPPORT", "own"),
    ),
    says(
        "open the sockets of IPsec",
        "136, cve-2017-16939, cve-2022-27666",
        r"
family(15, socket.SOCK_RAW, 2)
family(socket.AF_NETLINK, socket.SOCK_RAW, 6)
",
        meets(
            "EPERM",
            "EAFNOSUPPORT EPROTONOSUPPORT",
            "EAFNOSUPPORT EPROTONOSUPPORT",
        ),
    ),
    says(
        "open sockets of events, audit, devices and generic netlink",
        "136, cve-2017-11176",
        r"
for protocol in [3, 4, 9, 15, 16, 18]:
    family(socket.AF_NETLINK, socket.SOCK_RAW, protocol)
",
        meets("EPERM", "EPROTONOSUPPORT own", "EPROTONOSUPPORT own"),
    ),
    says(
        "open SCTP, DCCP, UDP-Lite, MPTCP and ping",
        "136, cve-2017-2671, cve-2017-6074, cve-2018-5803",
        r"
for kind, protocol in [(socket.SOCK_STREAM, 132), (socket.SOCK_SEQPACKET, 0), (6, 33),
                       (socket.SOCK_DGRAM, 136), (socket.SOCK_STREAM, 262), (socket.SOCK_DGRAM, 1)]:
    family(socket.AF_INET, kind, protocol)
    family(socket.AF_INET6, kind, protocol)
",
        meets(
            "EPERM",
            "EACCES EAFNOSUPPORT",
            "EACCES EPROTONOSUPPORT ESOCKTNOSUPPORT own",
        ),
    ),
    lacking(
        NO_FAMILY,
        says(
            "open CAN",
            "136, cve-2021-6309, cve-2021-34693",
            "family(29, socket.SOCK_DGRAM, 2)",
            meets("EPERM", "EAFNOSUPPORT", "EAFNOSUPPORT"),
        ),
    ),
    lacking(
        NO_FAMILY,
        says(
            "open TIPC, RDS, Bluetooth, NFC, X.25, PPPoX",
            "136, cve-2019-15239, cve-2010-3904, cve-2021-23134",
            r"
for number in [30, 21, 31, 39, 9, 24, 44]:
    family(number, socket.SOCK_SEQPACKET, 0)
",
            meets("EPERM", "EAFNOSUPPORT", "EAFNOSUPPORT EPERM"),
        ),
    ),
    says(
        "send packets by a raw socket",
        "031, cve-2017-17712",
        r"
family(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
family(socket.AF_INET, socket.SOCK_RAW, 255)
",
        meets("EPERM", "EPERM", "EPERM"),
    ),
];
