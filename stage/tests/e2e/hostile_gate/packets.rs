// SPDX-License-Identifier: Apache-2.0
//! Packets that no honest gate sends, by whom they are sent to.

use super::taken_over::{TakenOver, facts};
use serde_json::json;

/// To whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Towards {
    Notary,
    Dialer,
    Desk,
}

/// A packet, and whether a descriptor goes with it.
pub(crate) struct Packet {
    pub(crate) name: &'static str,
    pub(crate) make: fn(&TakenOver, Towards) -> (Vec<u8>, bool),
}

/// LIMIT of a role's packet is 128 KiB; the socket's buffer takes this.
const OVERSIZED_BYTES: usize = 160 * 1024;

pub(crate) const CASES: &[Packet] = &[
    Packet {
        name: "garbage",
        make: |_, _| (vec![0xff; 4096], false),
    },
    Packet {
        name: "no bytes",
        make: |_, _| (Vec::new(), false),
    },
    Packet {
        name: "oversized",
        make: |_, _| (vec![b' '; OVERSIZED_BYTES], false),
    },
    Packet {
        name: "truncated",
        make: |gate, towards| {
            let mut whole = right(gate, towards);
            whole.truncate(whole.len() - 1);
            (whole, false)
        },
    },
    Packet {
        name: "wrong direction",
        make: |gate, towards| (backwards(gate, towards), false),
    },
    Packet {
        name: "without a receipt",
        make: |gate, towards| {
            let bytes = match towards {
                Towards::Notary => json!({ "unlock": { "ticket": gate.ticket() } }),
                Towards::Dialer => json!({ "ticket": gate.ticket() }),
                Towards::Desk => json!({ "Ready": {} }),
            };
            (text(&bytes), false)
        },
    },
    Packet {
        name: "an endpoint beside the receipt",
        make: |gate, towards| {
            let (ticket, receipt) = (gate.ticket(), "e30.AAAA");
            let endpoint = "https://evil.torno.test";
            let bytes = match towards {
                Towards::Notary => json!({
                    "unlock": { "ticket": ticket, "receipt": receipt, "endpoint": endpoint }
                }),
                Towards::Dialer => {
                    json!({ "ticket": ticket, "receipt": receipt, "endpoint": endpoint })
                }
                Towards::Desk => json!({ "Dial": { "endpoint": endpoint } }),
            };
            (text(&bytes), false)
        },
    },
    Packet {
        name: "a descriptor handed on",
        make: |gate, towards| (right(gate, towards), true),
    },
];

/// What an honest gate may say there.
fn right(gate: &TakenOver, towards: Towards) -> Vec<u8> {
    let ticket = gate.ticket();
    text(&match towards {
        Towards::Notary => {
            let facts = facts("api.torno.test", "/public/page");
            json!({ "ask": [{ "ticket": ticket, "facts": facts, "pooled": false,
                "serves": null, "watch": 0 }] })
        }
        Towards::Dialer => json!({ "ticket": ticket, "receipt": "e30.AAAA" }),
        Towards::Desk => json!("GuestReady"),
    })
}

/// What only the other end may say there.
fn backwards(gate: &TakenOver, towards: Towards) -> Vec<u8> {
    let ticket = gate.ticket();
    text(&match towards {
        Towards::Notary => json!({ "unlocked": { "ticket": ticket } }),
        Towards::Dialer => json!({ "dialed": {
            "ticket": ticket, "address": "192.0.2.1:443", "resolved_by_proxy": false
        } }),
        Towards::Desk => json!({ "JoinExec": { "exec": 1 } }),
    })
}

fn text(value: &serde_json::Value) -> Vec<u8> {
    serde_json::to_vec(value).unwrap()
}
