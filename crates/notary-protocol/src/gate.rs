// SPDX-License-Identifier: Apache-2.0
//! Gate ↔ notary. The gate asks *may this happen?* in batches; the notary decides, records and,
//! for a verified peer, unlocks. Tickets pair answers with questions on one socket.

use crate::receipt::Receipt;
use serde::{Deserialize, Serialize};
use torno_policy::binding::{Mode, Slot};
use torno_policy::decision::Refusal;
use torno_policy::facts::{Location, RequestFacts, Unread};
use torno_policy::names::{BindingId, CredentialName, Endpoint, RecordSeq};

/// Pairs a reply with what was asked, within one socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Ticket(pub u64);

/// What a gate may send.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum GateMessage {
    /// May these requests leave?
    Ask(Vec<Question>),
    /// The peer named by the receipt is verified: hand over its credential. Answered once.
    Unlock {
        /// Pairs the answer.
        ticket: Ticket,
        /// From the answer to the question.
        receipt: Receipt,
    },
    /// How requests ended. Not answered.
    Report(Vec<Outcome>),
    /// Requests that were refused before they could be asked about (malformed, names disagree …),
    /// already coalesced by the gate. Not answered.
    Refused(Vec<WireRefusal>),
    /// The answer to this open request holds values that were made with its credential: name them,
    /// so that the sandbox gets placeholders. The values stay with the gate.
    Mint {
        /// Pairs the answer.
        ticket: Ticket,
        /// The decision's record.
        record: RecordSeq,
        /// How many.
        count: u32,
    },
    /// Everything that a [`NotaryMessage::Revoke`] covers is cut: not one byte that comes from now
    /// on is passed. One for each, in their order.
    Cut,
}

/// One question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Question {
    /// Pairs the answer.
    pub ticket: Ticket,
    /// What wants to leave.
    pub facts: RequestFacts,
    /// The gate holds a connection to this endpoint whose peer it has verified.
    pub pooled: bool,
    /// The credential that this connection was used with, if any. That one alone may come with the
    /// answer: for another the gate must dial and verify anew.
    pub serves: Option<CredentialName>,
    /// The watch (see [`Released::watch`]) that this gate has taken up whole; 0 for none.
    pub watch: u64,
}

/// One answer, from one policy generation, with all that later phases need.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// It may leave as described.
    Allowed(Box<Allowed>),
    /// It may not (an Ask that nobody can answer included).
    Refused(Refusal),
    /// A rule judges what the request says, or a binding fills a place of its body: the gate reads
    /// that and asks again. Nothing is recorded of this.
    Read(Unread),
}

/// A yes, with what it covers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Allowed {
    /// The record that was written before this answer.
    pub record: RecordSeq,
    /// The right to one connection and one unlock, for 2 s. Nothing where the credential came with
    /// the answer: it is for the connection at hand, and for no further one.
    pub receipt: Option<Receipt>,
    /// The endpoint it is for; equal to the facts'.
    pub endpoint: Endpoint,
    /// The credential to put in, when there is one.
    pub injection: Option<Injection>,
    /// Whether the receipt must be redeemed before anything is sent: there is a credential to put
    /// in, or some to search the answer for.
    pub unlock: bool,
    /// Header fields (lower case) that must be dropped: the client's own value of the slot.
    pub strip: Vec<String>,
    /// Whether the client's own credential-like fields may pass.
    pub own_credentials: bool,
    /// A model runs there: the body may quote tripwires.
    pub transcripts: bool,
    /// Whether the client presented a placeholder of a minted value: the gate has the value and
    /// puts that in. Nothing comes from the vault.
    pub minted: bool,
    /// What the gate keeps of the answer.
    pub keeping: Option<Keeping>,
}

impl Allowed {
    /// The credential whose authority goes out: itself, or by the cookies that it earned.
    #[must_use]
    pub fn credential(&self) -> Option<&CredentialName> {
        let injected = self
            .injection
            .as_ref()
            .map(|injection| &injection.credential);
        injected.or_else(|| self.keeping.as_ref().map(|keeping| &keeping.credential))
    }
}

/// What the gate keeps of an answer, as the binding that covers its request says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Keeping {
    /// The binding: what is kept for it goes into no other's requests.
    pub binding: BindingId,
    /// Its credential: what is kept ends with it.
    pub credential: CredentialName,
    /// The host's cookies are kept, and those that are go into the request instead of the client's.
    pub cookies: bool,
    /// The answer is a token endpoint's: it is read whole, or refused.
    pub tokens: bool,
}

/// How the credential goes in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Injection {
    /// The binding that matched.
    pub binding: BindingId,
    /// The credential, by name.
    pub credential: CredentialName,
    /// The place.
    pub slot: Slot,
    /// When.
    pub mode: Mode,
    /// The session's placeholder for it: scrubbed answers show this.
    pub placeholder: String,
}

/// What the notary sends to a gate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum NotaryMessage {
    /// Answers, in any order. When an answer comes with its credential, `credential` is its index
    /// among the frame's attachments.
    Answers(Vec<Answered>),
    /// What an `Unlock` asked for.
    Unlocked {
        /// From the request.
        ticket: Ticket,
        /// What the attachments of this frame are.
        released: Released,
    },
    /// The unlock is refused.
    UnlockRefused {
        /// From the request.
        ticket: Ticket,
        /// Why.
        refusal: Refusal,
    },
    /// Standing, grant or policy changed: cut every live stream that the named credential or the
    /// whole session no longer covers, then say [`GateMessage::Cut`].
    Revoke {
        /// The credential that was revoked; nothing means everything of the session.
        credential: Option<CredentialName>,
    },
    /// What a `Mint` asked for: so many placeholders.
    Minted {
        /// From the request.
        ticket: Ticket,
        /// In the order of the values.
        placeholders: Vec<String>,
    },
    /// The values can't be named: they stay out of the sandbox, and so does the answer.
    MintRefused {
        /// From the request.
        ticket: Ticket,
        /// Why.
        refusal: Refusal,
    },
}

/// One answer with its ticket.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Answered {
    /// From the question.
    pub ticket: Ticket,
    /// The answer.
    pub answer: Answer,
    /// Index of the credential among the frame's attachments.
    pub credential: Option<usize>,
}

/// The attachments of an unlocked frame: first those to search answers for, in this order, then
/// the one to put in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Released {
    /// The session's placeholders for the watched credentials: those that the request does not use
    /// and that its answer is searched for. They go nowhere.
    pub watched: Vec<String>,
    /// Whether the last attachment is to be put in.
    pub injects: bool,
    /// With this the gate knows every credential of its session as of this number, which rises
    /// whenever the vault's credentials change. 0 for no news.
    pub watch: u64,
}

/// How a request ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Outcome {
    /// The decision's record.
    pub record: RecordSeq,
    /// How.
    pub end: End,
    /// Bytes of request body sent upstream.
    pub sent_bytes: u64,
    /// Bytes of response body sent to the client.
    pub received_bytes: u64,
    /// Places where a released secret was found in the answer and replaced.
    pub reflected: u32,
    /// Placeholders that were carried inert in the request body.
    pub carried: u32,
    /// Names of cookies that were kept; never a value.
    pub cookies: Vec<String>,
    /// The address that was dialled, when there was one.
    pub address: Option<String>,
    /// Set when a company proxy resolved the name.
    pub resolved_by_proxy: bool,
}

/// How a request ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum End {
    /// The far end answered with this status and the exchange was completed.
    Completed {
        /// The HTTP status.
        status: u16,
    },
    /// A connection to a database was carried to its end.
    Carried,
    /// It failed on our side or the far end's.
    Refused(Refusal),
    /// The client or the far end went away in the middle.
    Aborted {
        /// The status, when one had been seen.
        status: Option<u16>,
    },
}

/// A refusal made by the gate itself, before there were facts to ask about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WireRefusal {
    /// Why.
    pub refusal: Refusal,
    /// Where in the request, when that is known.
    pub location: Option<Location>,
    /// What was asked for, as far as it could be read: escaped, at most 256 characters.
    pub target: String,
    /// How many equal ones this stands for.
    pub count: u32,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transit::{decode_compact, encode_compact};
    use serde::de::DeserializeOwned;
    use std::fmt::Debug;
    use torno_policy::binding::{Held, Slot};
    use torno_policy::facts::{BodySlot, Content, Entry, GitFacts, GitOperation, LfsBatch};
    use torno_policy::facts::{Presented, RefChange, RefUpdate};
    use torno_policy::names::{Host, Method, Port, RequestPath, RuleName, Scheme};
    use torno_policy::placeholder::Placeholder;
    use torno_policy::{Layer, Reason};

    #[track_caller]
    fn comes_back<M: Serialize + DeserializeOwned + PartialEq + Debug>(message: &M) {
        let frame = encode_compact(message, &[]).unwrap();
        let (again, attached) = decode_compact::<M>(&frame).unwrap();
        assert_eq!((&again, attached.len()), (message, 0));
    }

    fn facts(full: bool) -> RequestFacts {
        let slot = Slot::Form {
            field: "client_secret".to_owned(),
        };
        let update = RefUpdate {
            name: "refs/heads/agent/a".to_owned(),
            change: RefChange::Create,
        };
        RequestFacts {
            entry: Entry::Captured,
            endpoint: Endpoint {
                scheme: Scheme::Https,
                host: Host::parse("api.example.org").unwrap(),
                port: Port::HTTPS,
            },
            method: Method::parse("POST").unwrap(),
            path: RequestPath::parse("/v1/items?a=b").unwrap(),
            websocket: full,
            presented: full
                .then(|| Presented {
                    location: Location::Header("authorization".to_owned()),
                    digest: Placeholder::new("sk-", [7; 16]).digest(),
                })
                .into_iter()
                .collect(),
            own_credentials: full.then(|| "cookie".to_owned()).into_iter().collect(),
            git: full.then(|| GitFacts {
                repository: "/acme/app".to_owned(),
                operation: GitOperation::Push(vec![update]),
            }),
            content: full.then_some(Content::Lfs(LfsBatch {
                is_upload: true,
                reference: None,
            })),
            body: full.then(|| {
                let held = Held::Placeholder;
                Box::new(BodySlot { slot, held })
            }),
        }
    }

    // The compact form names no fields: a type that leaves one out at times could not be read.
    #[test]
    fn every_message_comes_back_from_its_compact_form_full_and_empty() {
        let refusal = Refusal {
            reason: Reason::HostNotGranted,
            layer: Layer::Session,
            rule: RuleName::new("grant.default"),
            hint: "allow it".to_owned(),
        };
        for full in [false, true] {
            let facts = facts(full);
            let receipt = || serde_json::from_value("e30.AAAA".into()).unwrap();
            let question = Question {
                ticket: Ticket(u64::MAX),
                facts: facts.clone(),
                pooled: full,
                serves: full.then(|| CredentialName::parse("c1").unwrap()),
                watch: 3,
            };
            comes_back(&GateMessage::Ask(vec![question.clone(), question]));
            comes_back(&GateMessage::Unlock {
                ticket: Ticket(1),
                receipt: receipt(),
            });
            comes_back(&GateMessage::Report(vec![Outcome {
                record: RecordSeq(9),
                end: if full {
                    End::Refused(refusal.clone())
                } else {
                    End::Aborted { status: None }
                },
                sent_bytes: 1,
                received_bytes: u64::MAX,
                reflected: 0,
                carried: 2,
                cookies: full.then(|| "sid".to_owned()).into_iter().collect(),
                address: full.then(|| "192.0.2.1:443".to_owned()),
                resolved_by_proxy: full,
            }]));
            comes_back(&GateMessage::Refused(vec![WireRefusal {
                refusal: refusal.clone(),
                location: full.then_some(Location::Query),
                target: "GET /".to_owned(),
                count: 3,
            }]));
            let allowed = Allowed {
                record: RecordSeq(1),
                receipt: full.then(receipt),
                endpoint: facts.endpoint,
                injection: full.then(|| Injection {
                    binding: BindingId::parse("b1").unwrap(),
                    credential: CredentialName::parse("c1").unwrap(),
                    slot: Slot::Query {
                        parameter: "key".to_owned(),
                    },
                    mode: Mode::Inject,
                    placeholder: "p".to_owned(),
                }),
                unlock: full,
                strip: vec!["authorization".to_owned()],
                own_credentials: full,
                transcripts: full,
                minted: full,
                keeping: full.then(|| Keeping {
                    binding: BindingId::parse("b1").unwrap(),
                    credential: CredentialName::parse("c1").unwrap(),
                    cookies: true,
                    tokens: false,
                }),
            };
            for answer in [
                Answer::Allowed(Box::new(allowed)),
                Answer::Refused(refusal.clone()),
            ] {
                comes_back(&NotaryMessage::Answers(vec![Answered {
                    ticket: Ticket(2),
                    answer,
                    credential: full.then_some(0),
                }]));
            }
            comes_back(&GateMessage::Mint {
                ticket: Ticket(1),
                record: RecordSeq(2),
                count: 3,
            });
            comes_back(&GateMessage::Cut);
            comes_back(&NotaryMessage::Minted {
                ticket: Ticket(1),
                placeholders: full.then(|| "p".to_owned()).into_iter().collect(),
            });
            comes_back(&NotaryMessage::MintRefused {
                ticket: Ticket(1),
                refusal: refusal.clone(),
            });
            comes_back(&NotaryMessage::Revoke {
                credential: full.then(|| CredentialName::parse("c1").unwrap()),
            });
        }
    }
}
