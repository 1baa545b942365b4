// SPDX-License-Identifier: Apache-2.0
//! Packets that no honest gate sends, by whom they are sent to.

use super::taken_over::{TakenOver, facts};
use serde::Serialize;
use serde_json::json;
use torno_notary_protocol::gate::{GateMessage, NotaryMessage, Question, Released, Ticket};
use torno_notary_protocol::transit::{self, CredentialInTransit};

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
                Towards::Notary => framed(&(UNLOCK, gate.ticket())),
                Towards::Dialer => text(&json!({ "ticket": gate.ticket() })),
                Towards::Desk => text(&json!({ "Ready": {} })),
            };
            (bytes, false)
        },
    },
    Packet {
        name: "an endpoint beside the receipt",
        make: |gate, towards| {
            let (ticket, receipt) = (gate.ticket(), "e30.AAAA");
            let endpoint = "https://evil.torno.test";
            let bytes = match towards {
                Towards::Notary => framed(&(UNLOCK, ticket, receipt, endpoint)),
                Towards::Dialer => {
                    text(&json!({ "ticket": ticket, "receipt": receipt, "endpoint": endpoint }))
                }
                Towards::Desk => text(&json!({ "Dial": { "endpoint": endpoint } })),
            };
            (bytes, false)
        },
    },
    Packet {
        name: "an attachment, where none belongs",
        make: |gate, towards| {
            let bytes = match towards {
                Towards::Notary => {
                    let attached = CredentialInTransit::new(b"of its own".to_vec().into());
                    let message = GateMessage::Ask(vec![question(gate)]);
                    transit::encode_compact(&message, &[attached])
                        .unwrap()
                        .to_vec()
                }
                Towards::Dialer | Towards::Desk => [right(gate, towards), vec![0]].concat(),
            };
            (bytes, false)
        },
    },
    Packet {
        name: "more questions than there are bytes",
        make: |gate, towards| {
            let bytes = match towards {
                Towards::Notary => framed(&(ASK, u32::MAX, question(gate))),
                Towards::Dialer | Towards::Desk => text(&json!([u32::MAX])),
            };
            (bytes, false)
        },
    },
    Packet {
        name: "a descriptor handed on",
        make: |gate, towards| (right(gate, towards), true),
    },
];

/// The places of two kinds among a gate's messages.
const ASK: u8 = 0;
const UNLOCK: u8 = 1;

/// What an honest gate may say there.
fn right(gate: &TakenOver, towards: Towards) -> Vec<u8> {
    match towards {
        Towards::Notary => framed(&GateMessage::Ask(vec![question(gate)])),
        Towards::Dialer => text(&json!({ "ticket": gate.ticket(), "receipt": "e30.AAAA" })),
        Towards::Desk => text(&json!("GuestReady")),
    }
}

fn question(gate: &TakenOver) -> Question {
    Question {
        ticket: gate.ticket(),
        facts: facts("api.torno.test", "/public/page"),
        pooled: false,
        serves: None,
        watch: 0,
    }
}

/// What only the other end may say there.
fn backwards(gate: &TakenOver, towards: Towards) -> Vec<u8> {
    let ticket: Ticket = gate.ticket();
    match towards {
        Towards::Notary => {
            let released = Released {
                watched: Vec::new(),
                injects: true,
                watch: 1,
            };
            framed(&NotaryMessage::Unlocked { ticket, released })
        }
        Towards::Dialer => text(&json!({ "dialed": {
            "ticket": ticket, "address": "192.0.2.1:443", "resolved_by_proxy": false
        } })),
        Towards::Desk => text(&json!({ "JoinExec": { "exec": 1 } })),
    }
}

fn framed(message: &impl Serialize) -> Vec<u8> {
    transit::encode_compact(message, &[]).unwrap().to_vec()
}

fn text(value: &serde_json::Value) -> Vec<u8> {
    serde_json::to_vec(value).unwrap()
}
