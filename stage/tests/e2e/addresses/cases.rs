// SPDX-License-Identifier: Apache-2.0
//! The lies of a name server, each beside the harmless answer of the same shape.

use std::net::IpAddr;
use torno_stage::world::internet::{Entry, Manner, OWN, parsed};

/// A public-looking address of each family, and more of them.
const FAIR: &str = "11.22.44.10";
const FAIR_V6: &str = "2a00:11:44::10";

/// `/etc/hosts` where Torno runs. The resolver takes a name with its dot literally.
pub(super) const HOSTS: &str = "127.0.0.1 localhost\n\
    10.66.0.1 hosts-plain.far.test\n\
    10.66.0.2 hosts-dot.far.test.\n\
    127.0.0.1 hosts-loop.far.test.\n\
    11.22.44.20 hosts-fair.far.test.\n";

/// Addresses that nothing leads to.
const SPECIAL: [&str; 44] = [
    "0.0.0.0",
    "0.1.2.3",
    "10.0.0.1",
    "10.255.255.254",
    "100.64.0.1",
    "100.100.100.200",
    "127.0.0.1",
    "127.9.9.9",
    "168.63.129.16",
    "169.254.169.254",
    "169.254.170.2",
    "172.16.0.1",
    "172.31.255.254",
    "192.0.0.192",
    "192.0.2.1",
    "192.88.99.1",
    "192.168.0.1",
    "198.18.0.1",
    "198.19.255.254",
    "198.51.100.7",
    "203.0.113.7",
    "224.0.0.251",
    "239.1.2.3",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::127.0.0.1",
    "::ffff:10.0.0.1",
    "::ffff:11.22.44.10",
    "64:ff9b::a00:1",
    "64:ff9b::b16:2c0a",
    "64:ff9b:1::a00:1",
    "100::1",
    "2001:0:b16:2c0a::f5ff:fffe",
    "2001:db8::1",
    "2002:a00:1::1",
    "2002:b16:2c0a::1",
    "3fff::1",
    "fc00::1",
    "fd00:ec2::254",
    "fe80::1",
    "fec0::1",
    "ff02::fb",
];

/// What must come of it.
#[derive(Debug)]
pub(super) enum Right {
    /// One of these addresses is dialled, and recorded.
    Reached(Vec<IpAddr>),
    /// Nothing is dialled; one of these reasons is answered and recorded.
    Refused(&'static [&'static str]),
}

impl Right {
    /// The addresses that may be dialled.
    pub(super) fn addresses(&self) -> Vec<IpAddr> {
        match self {
            Self::Reached(any_of) => any_of.clone(),
            Self::Refused(_) => Vec::new(),
        }
    }
}

/// A name, its answers, and what must come of asking for it once.
#[derive(Debug)]
pub(super) struct Case {
    pub(super) label: String,
    pub(super) entry: Entry,
    pub(super) right: Right,
}

const ADDRESS: &[&str] = &["address_refused"];
const UNRESOLVED: &[&str] = &["name_unresolved"];

fn refused(label: impl Into<String>, entry: Entry, reasons: &'static [&'static str]) -> Case {
    Case {
        label: label.into(),
        entry,
        right: Right::Refused(reasons),
    }
}

fn reached(label: impl Into<String>, entry: Entry, any_of: &[&str]) -> Case {
    Case {
        label: label.into(),
        entry,
        right: Right::Reached(parsed(any_of)),
    }
}

/// Everything that is asked for once.
pub(super) fn all() -> Vec<Case> {
    let mut cases = fair();
    for (number, address) in SPECIAL.iter().chain(&OWN).enumerate() {
        let mixed = |set: &[&str]| Entry::always(set);
        cases.extend([
            refused(format!("alone-{number}"), mixed(&[address]), ADDRESS),
            refused(format!("after-{number}"), mixed(&[FAIR, address]), ADDRESS),
            refused(format!("before-{number}"), mixed(&[address, FAIR]), ADDRESS),
            refused(
                format!("beside-{number}"),
                mixed(&[FAIR_V6, address]),
                ADDRESS,
            ),
        ]);
    }
    cases.extend(indirect());
    cases.extend(broken());
    cases.extend(large());
    cases.extend(from_hosts());
    cases
}

fn fair() -> Vec<Case> {
    vec![
        reached("fair", Entry::always(&[FAIR]), &[FAIR]),
        reached("fair-v6", Entry::always(&[FAIR_V6]), &[FAIR_V6]),
        reached(
            "fair-both",
            Entry::always(&[FAIR, FAIR_V6]),
            &[FAIR, FAIR_V6],
        ),
        reached(
            "fair-many",
            Entry::always(&[FAIR, "11.22.44.11", "9.255.255.255", "172.32.0.1"]),
            &[FAIR, "11.22.44.11", "9.255.255.255", "172.32.0.1"],
        ),
    ]
}

/// By other names. The answer counts, whatever the names between look like.
fn indirect() -> Vec<Case> {
    let long: Vec<String> = (0..8).map(|n| format!("hop-{n}.else.test")).collect();
    let long: Vec<&str> = long.iter().map(String::as_str).collect();
    vec![
        reached(
            "chain-fair",
            Entry::always(&[FAIR]).by(&["metadata.google.internal"]),
            &[FAIR],
        ),
        reached("chain-long", Entry::always(&[FAIR]).by(&long), &[FAIR]),
        refused(
            "chain-private",
            Entry::always(&["10.0.0.1"]).by(&["public.else.test"]),
            ADDRESS,
        ),
        refused(
            "chain-mixed",
            Entry::always(&[FAIR, "fd00::1"]).by(&["public.else.test"]),
            ADDRESS,
        ),
        refused(
            "chain-long-private",
            Entry::always(&["127.0.0.1"]).by(&long),
            ADDRESS,
        ),
        refused(
            "chain-metadata",
            Entry::always(&["169.254.169.254"]).by(&["metadata.google.internal"]),
            ADDRESS,
        ),
    ]
}

/// Servers that fail, or lie about who they are.
fn broken() -> Vec<Case> {
    let forged = |addresses| Manner::AfterForgeries(parsed(addresses));
    let foreign = |addresses| Manner::BesideForeign(parsed(addresses));
    let fair = || Entry::always(&[FAIR]);
    vec![
        refused("no-address", Entry::always(&[]), UNRESOLVED),
        refused("no-name", fair().in_manner(Manner::Failed(3)), UNRESOLVED),
        refused(
            "server-failed",
            fair().in_manner(Manner::Failed(2)),
            UNRESOLVED,
        ),
        refused(
            "server-refused",
            fair().in_manner(Manner::Failed(5)),
            UNRESOLVED,
        ),
        refused("silent", fair().in_manner(Manner::Silent), UNRESOLVED),
        reached("half-silent", fair().in_manner(Manner::HalfSilent), &[FAIR]),
        refused(
            "half-silent-private",
            Entry::always(&["10.0.0.1"]).in_manner(Manner::HalfSilent),
            ADDRESS,
        ),
        reached("cut", fair().in_manner(Manner::Truncated), &[FAIR]),
        refused(
            "cut-private",
            Entry::always(&[FAIR, "10.0.0.1"]).in_manner(Manner::Truncated),
            ADDRESS,
        ),
        reached(
            "forged-private",
            fair().in_manner(forged(&["10.0.0.1"])),
            &[FAIR],
        ),
        reached(
            "forged-fair",
            fair().in_manner(forged(&["11.22.99.99"])),
            &[FAIR],
        ),
        refused(
            "forged-over-private",
            Entry::always(&["10.0.0.1"]).in_manner(forged(&[FAIR])),
            ADDRESS,
        ),
        reached("foreign", fair().in_manner(foreign(&["10.0.0.1"])), &[FAIR]),
        refused(
            "foreign-over-private",
            Entry::always(&["10.0.0.1"]).in_manner(foreign(&[FAIR])),
            ADDRESS,
        ),
    ]
}

/// Sets that fit into no datagram: whole up to 64, refused beyond, and never cut.
fn large() -> Vec<Case> {
    let many: Vec<String> = (1..=120).map(|n| format!("11.22.77.{n}")).collect();
    let set = |n: usize| -> Vec<&str> { many.iter().take(n).map(String::as_str).collect() };
    let last_private = |n: usize| {
        let mut set = set(n);
        set.push("10.0.0.1");
        Entry::always(&set)
    };
    vec![
        reached("many", Entry::always(&set(64)), &set(64)),
        refused("too-many", Entry::always(&set(65)), ADDRESS),
        refused("far-too-many", Entry::always(&set(120)), ADDRESS),
        refused("many-private", last_private(63), ADDRESS),
        refused("too-many-private", last_private(100), ADDRESS),
    ]
}

/// What the machine's own file says of a name is checked like an answer.
fn from_hosts() -> Vec<Case> {
    let fair = || Entry::always(&[FAIR]);
    vec![
        reached("hosts-plain", fair(), &[FAIR]),
        refused("hosts-dot", fair(), ADDRESS),
        refused("hosts-loop", fair(), ADDRESS),
        reached("hosts-fair", fair(), &["11.22.44.20"]),
    ]
}

/// Names that change from one answer to the next, and one that does not.
pub(super) fn rebinding() -> Vec<Case> {
    let then = |address: &str| Entry::always(&[FAIR]).then(&[address]);
    let mut cases = vec![
        reached("steady", then(FAIR), &[FAIR]),
        reached(
            "to-mixed",
            Entry::always(&[FAIR]).then(&[FAIR, "10.0.0.1"]),
            &[FAIR],
        ),
        reached("to-v6", then("::1"), &[FAIR]),
        reached("to-mapped", then("::ffff:127.0.0.1"), &[FAIR]),
        reached(
            "from-v6",
            Entry::always(&[FAIR_V6]).then(&["127.0.0.1"]),
            &[FAIR_V6],
        ),
    ];
    for (label, address) in [
        ("to-loopback", "127.0.0.1"),
        ("to-private", "10.0.0.1"),
        ("to-metadata", "169.254.169.254"),
        ("to-own", OWN[0]),
        ("to-nothing", "0.0.0.0"),
    ] {
        cases.push(reached(label, then(address), &[FAIR]));
    }
    cases
}

/// A start, and where it can send a client.
pub(super) fn redirects() -> Vec<Case> {
    vec![
        reached("start", Entry::always(&[FAIR]), &[FAIR]),
        reached("fair", Entry::always(&["11.22.44.11"]), &["11.22.44.11"]),
        refused("inner", Entry::always(&["10.0.0.1"]), ADDRESS),
    ]
}
