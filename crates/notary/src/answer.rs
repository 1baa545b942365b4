// SPDX-License-Identifier: Apache-2.0
//! The heart: decide, record, unlock.
//!
//! A batch over all gates is judged from one state of the rows. Decisions that release nothing are
//! written and answered. Those that do are written together with their release; once a flush has
//! brought them to disk, the evidence of that unlocks (`answer/release.rs`). While it runs, the
//! next batch is judged and written. What a gate must watch for is in `watch.rs`.

use crate::frames::Reply;
use crate::gates::GateId;
use crate::minted;
use crate::notary::{Notary, Now};
use crate::receipts::Redeemable;
use crate::refusals::{record_unavailable, undecidable};
use torno_audit::{Durability, Entry, Recorded};
use torno_notary_protocol::gate::{Allowed, Answer, Injection, Keeping, Question, Ticket};
use torno_notary_protocol::receipt::{Receipt, ReceiptClaims};
use torno_policy::decision::{Decision, Permit, PermittedKeeping, Reason, Refusal};
use torno_policy::facts::RequestFacts;
use torno_policy::names::RecordSeq;

mod judge;
mod release;

pub(crate) use release::Awaiting;

use judge::Judged;
use release::Releasing;

/// One thing that a gate wants answered.
pub(crate) enum Turn {
    Question(Box<Question>),
    Unlock(Ticket, Receipt),
}

/// A judged turn that releases nothing now.
enum Plain {
    Decided(GateId, Ticket, Box<(RequestFacts, Decision)>, bool),
    UnlockRefused(GateId, Ticket, Refusal),
}

impl Notary {
    /// Answers a batch: at once what releases nothing, after [`Self::flushed`] what does.
    pub(crate) fn answer(&mut self, turns: Vec<(GateId, Turn)>, now: Now) -> Vec<(GateId, Reply)> {
        let mut replies = Vec::with_capacity(turns.len());
        let (mut plain, mut releasing) = (Vec::new(), Vec::new());
        for (gate, turn) in turns {
            match self.judge_turn(gate, turn, now) {
                Judged::Plain(entry, judged) => plain.push((entry, judged)),
                Judged::Releasing(release) => releasing.push(*release),
                Judged::Unrecorded(reply) => replies.push((gate, reply)),
            }
        }
        self.record_plain(plain, now, &mut replies);
        self.record_releases(releasing, now, &mut replies);
        replies
    }

    /// Writes decisions that release nothing, then answers them.
    fn record_plain(
        &mut self,
        plain: Vec<(Entry, Plain)>,
        now: Now,
        replies: &mut Vec<(GateId, Reply)>,
    ) {
        if plain.is_empty() {
            return;
        }
        let tickets: Vec<_> = plain.iter().map(|(_, judged)| judged.ticket()).collect();
        match self.recorder.append(plain, Durability::Written) {
            Ok(recorded) => {
                for evidence in recorded {
                    replies.push(self.answer_plain(evidence, now));
                }
            }
            Err(_) => replies.extend(tickets.into_iter().map(unrecordable)),
        }
    }

    fn answer_plain(&mut self, evidence: Recorded<Plain>, now: Now) -> (GateId, Reply) {
        let record = evidence.seq();
        let (gate, ticket, judged, watches) = match evidence.into_value() {
            Plain::Decided(gate, ticket, judged, watches) => (gate, ticket, *judged, watches),
            Plain::UnlockRefused(gate, ticket, refusal) => {
                return (gate, Reply::UnlockRefused(ticket, refusal));
            }
        };
        let answer = match judged {
            (facts, Decision::Allow(permit)) => {
                let minted = self.minted(&permit, &facts).is_some();
                let unlock = (permit.injection().is_some() && !minted) || watches;
                let receipt = self.receipt(&permit, &facts, record, now);
                let answer = match receipt {
                    Some(receipt) => self.allowed(&permit, &facts, (record, unlock), Some(receipt)),
                    None => Answer::Refused(undecidable()),
                };
                if let Some(session) = self.sessions.get_mut(permit.session())
                    && unlock
                {
                    let redeemable = Redeemable {
                        permit,
                        watches,
                        minted,
                    };
                    session.receipts.keep(record, redeemable, now.boot_ms);
                }
                answer
            }
            (_, Decision::Ask(asked)) => {
                let hint = "a person must approve this and nobody can be asked; \
                            let a rule of the session's policy allow it, or do without";
                Answer::Refused(Refusal {
                    reason: Reason::ApprovalUnavailable,
                    layer: asked.layer,
                    rule: asked.rule,
                    hint: hint.to_owned(),
                })
            }
            (_, Decision::Deny(refusal)) => Answer::Refused(refusal),
        };
        (gate, Reply::Answer(ticket, answer, None))
    }

    /// The right to one connection and one unlock.
    fn receipt(
        &self,
        permit: &Permit,
        facts: &RequestFacts,
        record: RecordSeq,
        now: Now,
    ) -> Option<Receipt> {
        let claims = ReceiptClaims {
            session: permit.session().clone(),
            generation: permit.generation(),
            endpoint: facts.endpoint.clone(),
            record,
            issued_ms: now.boot_ms,
        };
        self.receipt_key.seal(&claims).ok()
    }

    /// What a yes covers.
    fn allowed(
        &mut self,
        permit: &Permit,
        facts: &RequestFacts,
        (record, unlock): (RecordSeq, bool),
        receipt: Option<Receipt>,
    ) -> Answer {
        let minted = self.minted(permit, facts).map(|p| p.as_str().to_owned());
        let Some(session) = self.sessions.get_mut(permit.session()) else {
            return Answer::Refused(undecidable());
        };
        session.opened(record, permit, facts);
        let injection = permit.injection().map(|injection| Injection {
            binding: injection.binding.clone(),
            credential: injection.credential.clone(),
            slot: match &minted {
                Some(_) => minted::slot(&injection.slot),
                None => injection.slot.clone(),
            },
            mode: injection.mode,
            placeholder: match &minted {
                Some(placeholder) => placeholder.clone(),
                None => session.placeholder_of(&injection.credential),
            },
        });
        // What was judged was the binding's own slot, wherever a minted value goes instead.
        let judged = permit.injection().map(|injection| &injection.slot);
        let written = judged.into_iter().chain(injection.iter().map(|i| &i.slot));
        let mut strip: Vec<_> = written
            .flat_map(|slot| slot.fields())
            .map(str::to_owned)
            .collect();
        strip.sort_unstable();
        strip.dedup();
        let own = |name: &String| !strip.contains(name);
        Answer::Allowed(Box::new(Allowed {
            record,
            receipt,
            endpoint: facts.endpoint.clone(),
            own_credentials: facts.own_credentials.iter().any(own),
            strip,
            injection,
            unlock,
            transcripts: permit.transcripts(),
            minted: minted.is_some(),
            keeping: permit.keeping().map(keeping),
        }))
    }
}

fn keeping(permitted: &PermittedKeeping) -> Keeping {
    Keeping {
        binding: permitted.binding.clone(),
        credential: permitted.credential.clone(),
        cookies: permitted.cookies,
        tokens: permitted.tokens,
    }
}

impl Plain {
    /// Whom to answer, and whether it was an unlock.
    fn ticket(&self) -> (GateId, Ticket, bool) {
        match self {
            Self::Decided(gate, ticket, ..) => (*gate, *ticket, false),
            Self::UnlockRefused(gate, ticket, _) => (*gate, *ticket, true),
        }
    }
}

/// Whoever waits for what could not be recorded.
fn unrecordable((gate, ticket, is_unlock): (GateId, Ticket, bool)) -> (GateId, Reply) {
    let refusal = record_unavailable();
    if is_unlock {
        (gate, Reply::UnlockRefused(ticket, refusal))
    } else {
        (gate, Reply::Answer(ticket, Answer::Refused(refusal), None))
    }
}
