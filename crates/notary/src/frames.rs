// SPDX-License-Identifier: Apache-2.0
//! Replies on their way to gates, packed into as few frames as fit; and the one place where a
//! credential changes from the vault's memory to a frame's attachment.

use crate::gates::GateId;
use std::collections::BTreeMap;
use torno_notary_protocol::MESSAGE_BYTES_MAX;
use torno_notary_protocol::gate::{Answer, Answered, NotaryMessage, Released, Ticket};
use torno_notary_protocol::transit::CredentialInTransit;
use torno_policy::Refusal;
use torno_vault::Secret;
use zeroize::Zeroizing;

/// A frame for one gate: a message and its attachments.
#[expect(missing_debug_implementations, reason = "it carries credentials")]
pub struct ToGate {
    /// Which gate.
    pub gate: GateId,
    /// The message.
    pub message: NotaryMessage,
    /// The frame's attachments.
    pub credentials: Vec<CredentialInTransit>,
}

/// One reply.
pub(crate) enum Reply {
    Answer(Ticket, Answer, Option<CredentialInTransit>),
    Unlocked(Ticket, Unlocked),
    UnlockRefused(Ticket, Refusal),
    Minted(Ticket, Vec<String>),
    MintRefused(Ticket, Refusal),
}

/// What was unlocked for one turn.
pub(crate) struct Unlocked {
    /// Watched credentials with their placeholders.
    pub(crate) watched: Vec<(String, CredentialInTransit)>,
    /// The one to put in.
    pub(crate) injected: Option<CredentialInTransit>,
    /// The watch that the gate then has taken up.
    pub(crate) watch: u64,
}

impl Unlocked {
    fn frame(self, gate: GateId, ticket: Ticket) -> ToGate {
        let (placeholders, mut credentials): (Vec<_>, Vec<_>) = self.watched.into_iter().unzip();
        let released = Released {
            watched: placeholders,
            injects: self.injected.is_some(),
            watch: self.watch,
        };
        credentials.extend(self.injected);
        ToGate {
            gate,
            message: NotaryMessage::Unlocked { ticket, released },
            credentials,
        }
    }
}

/// LIMIT: the JSON of one answer: a receipt (claims with a host of 253 bytes, in base64), the host
/// again, a placeholder, names of at most 128 bytes. Rule and hint of a refusal come on top.
const ANSWER_BYTES_MAX: usize = 3 * 1024;

/// Packs replies, in order, one gate's answers together as far as a frame takes them.
pub(crate) fn pack(replies: Vec<(GateId, Reply)>) -> Vec<ToGate> {
    let mut frames = Vec::new();
    let mut open: BTreeMap<GateId, Answers> = BTreeMap::new();
    for (gate, reply) in replies {
        match reply {
            Reply::Answer(ticket, answer, secret) => {
                let answers = open.entry(gate).or_default();
                let attached = secret.as_ref().map_or(0, |s| 4 + s.byte_count());
                let bytes = json_bytes_max(&answer) + attached;
                if answers.bytes + bytes > MESSAGE_BYTES_MAX {
                    frames.push(std::mem::take(answers).frame(gate));
                }
                answers.push(ticket, answer, secret, bytes);
            }
            Reply::Unlocked(ticket, unlocked) => frames.push(unlocked.frame(gate, ticket)),
            Reply::UnlockRefused(ticket, refusal) => {
                frames.push(plain(
                    gate,
                    NotaryMessage::UnlockRefused { ticket, refusal },
                ));
            }
            Reply::Minted(ticket, placeholders) => {
                let message = NotaryMessage::Minted {
                    ticket,
                    placeholders,
                };
                frames.push(plain(gate, message));
            }
            Reply::MintRefused(ticket, refusal) => {
                frames.push(plain(gate, NotaryMessage::MintRefused { ticket, refusal }));
            }
        }
    }
    let rest = open
        .into_iter()
        .filter(|(_, answers)| !answers.list.is_empty());
    frames.extend(rest.map(|(gate, answers)| answers.frame(gate)));
    frames
}

/// A frame without attachments.
fn plain(gate: GateId, message: NotaryMessage) -> ToGate {
    ToGate {
        gate,
        message,
        credentials: Vec::new(),
    }
}

/// A bound of an answer's JSON: its texts may double when they are escaped.
fn json_bytes_max(answer: &Answer) -> usize {
    match answer {
        Answer::Allowed(_) | Answer::Read(_) => ANSWER_BYTES_MAX,
        Answer::Refused(refusal) => {
            ANSWER_BYTES_MAX + 2 * (refusal.rule.as_str().len() + refusal.hint.len())
        }
    }
}

#[derive(Default)]
struct Answers {
    list: Vec<Answered>,
    credentials: Vec<CredentialInTransit>,
    bytes: usize,
}

impl Answers {
    fn push(
        &mut self,
        ticket: Ticket,
        answer: Answer,
        secret: Option<CredentialInTransit>,
        bytes: usize,
    ) {
        let credential = secret.map(|secret| {
            self.credentials.push(secret);
            self.credentials.len() - 1
        });
        self.list.push(Answered {
            ticket,
            answer,
            credential,
        });
        self.bytes += bytes;
    }

    fn frame(self, gate: GateId) -> ToGate {
        ToGate {
            gate,
            message: NotaryMessage::Answers(self.list),
            credentials: self.credentials,
        }
    }
}

/// The vault's plaintext, copied once with exact capacity. At once, so that a large batch holds one
/// secret's worth of locked pages, not its own size of them.
pub(crate) fn in_transit(secret: &Secret) -> CredentialInTransit {
    CredentialInTransit::new(Zeroizing::new(secret.expose().to_vec()))
}
