// SPDX-License-Identifier: Apache-2.0
//! The heart: decide, record, unlock.
//!
//! A batch over all gates is judged from one state of the rows. Decisions that release nothing are
//! written; those that do are written together with their release and flushed to disk in one go.
//! Only the evidence of that write unlocks.

use crate::frames::{Reply, in_transit};
use crate::gates::GateId;
use crate::notary::{Notary, Now};
use crate::refusals::{
    record_unavailable, refused_event, session_unknown, undecidable, unlock_refusal,
};
use torno_audit::{CredentialReleased, Durability, Entry, Event, Recorded, RequestDecided};
use torno_notary_protocol::gate::{Allowed, Answer, Injection, Question, Ticket};
use torno_notary_protocol::receipt::{Receipt, ReceiptClaims};
use torno_notary_protocol::transit::CredentialInTransit;
use torno_policy::decide::decide;
use torno_policy::decision::{Decision, Permit, Reason, Refusal};
use torno_policy::facts::{Act, RequestFacts};
use torno_policy::names::RecordSeq;

/// One thing that a gate wants answered.
pub(crate) enum Turn {
    Question(Question),
    Unlock(Ticket, Receipt),
}

/// A judged turn that releases nothing now.
enum Plain {
    Decided(GateId, Ticket, Box<(RequestFacts, Decision)>),
    UnlockRefused(GateId, Ticket, Refusal),
}

/// A judged turn that releases a credential: with its question's answer, or by receipt.
struct Releasing {
    gate: GateId,
    ticket: Ticket,
    asked: Option<RequestFacts>,
    permit: Permit,
    version: u32,
    decision: Option<RecordSeq>,
}

impl Notary {
    /// Answers a batch.
    pub(crate) fn answer(&mut self, turns: Vec<(GateId, Turn)>, now: Now) -> Vec<(GateId, Reply)> {
        let mut replies = Vec::with_capacity(turns.len());
        let (mut plain, mut releasing) = (Vec::new(), Vec::new());
        for (gate, turn) in turns {
            match turn {
                Turn::Question(question) => match self.judge(gate, question, now) {
                    Judged::Plain(entry, judged) => plain.push((entry, judged)),
                    Judged::Releasing(release) => releasing.push(release),
                    Judged::Unrecorded(reply) => replies.push((gate, reply)),
                },
                Turn::Unlock(ticket, receipt) => match self.redeem(gate, ticket, &receipt, now) {
                    Judged::Plain(entry, judged) => plain.push((entry, judged)),
                    Judged::Releasing(release) => releasing.push(release),
                    Judged::Unrecorded(reply) => replies.push((gate, reply)),
                },
            }
        }
        self.record_plain(plain, now, &mut replies);
        self.record_and_unlock(releasing, now, &mut replies);
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

    /// Writes decisions with their releases to disk, then unlocks each by its own evidence.
    fn record_and_unlock(
        &mut self,
        releasing: Vec<Releasing>,
        now: Now,
        replies: &mut Vec<(GateId, Reply)>,
    ) {
        if releasing.is_empty() {
            return;
        }
        let mut batch = Vec::with_capacity(2 * releasing.len());
        let mut next = self.recorder.next_seq();
        for release in &releasing {
            let session = Some(release.permit.session().clone());
            let decision = match (&release.asked, release.decision) {
                (Some(facts), _) => {
                    let allow = Decision::Allow(release.permit.clone());
                    let event = Event::RequestDecided(Box::new(RequestDecided::of(facts, &allow)));
                    batch.push((now.entry(session.clone(), event), release.permit.clone()));
                    next = RecordSeq(next.0 + 1);
                    RecordSeq(next.0 - 1)
                }
                (None, Some(decision)) => decision,
                (None, None) => next,
            };
            let event = release.event(decision);
            batch.push((now.entry(session, event), release.permit.clone()));
            next = RecordSeq(next.0 + 1);
        }
        let Ok(recorded) = self.recorder.append(batch, Durability::Synced) else {
            let tickets = releasing
                .iter()
                .map(|r| (r.gate, r.ticket, r.asked.is_none()));
            replies.extend(tickets.map(unrecordable));
            return;
        };
        let mut recorded = recorded.into_iter();
        for release in releasing {
            let decided = match release.asked {
                Some(_) => recorded.next().map(|evidence| evidence.seq()),
                None => None,
            };
            if let Some(released) = recorded.next() {
                replies.push(self.answer_release(&release, decided, &released, now));
            }
        }
    }

    fn answer_plain(&mut self, evidence: Recorded<Plain>, now: Now) -> (GateId, Reply) {
        let record = evidence.seq();
        let (gate, ticket, judged) = match evidence.into_value() {
            Plain::Decided(gate, ticket, judged) => (gate, ticket, *judged),
            Plain::UnlockRefused(gate, ticket, refusal) => {
                return (gate, Reply::UnlockRefused(ticket, refusal));
            }
        };
        let answer = match judged {
            (facts, Decision::Allow(permit)) => {
                let answer = self.allowed(&permit, &facts, record, now);
                if let Some(session) = self.sessions.get_mut(permit.session())
                    && permit.injection().is_some()
                {
                    session.receipts.keep(record, permit, now.boot_ms);
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

    fn answer_release(
        &mut self,
        release: &Releasing,
        decided: Option<RecordSeq>,
        released: &Recorded<Permit>,
        now: Now,
    ) -> (GateId, Reply) {
        let (gate, ticket) = (release.gate, release.ticket);
        let unlocked = self.unlock_recorded(released);
        let reply = match (unlocked, &release.asked, decided) {
            (Ok(secret), Some(facts), Some(record)) => {
                let answer = self.allowed(&release.permit, facts, record, now);
                Reply::Answer(ticket, answer, Some(secret))
            }
            (Ok(secret), _, _) => Reply::Unlocked(ticket, secret),
            (Err(refusal), Some(_), _) => Reply::Answer(ticket, Answer::Refused(refusal), None),
            (Err(refusal), None, _) => Reply::UnlockRefused(ticket, refusal),
        };
        (gate, reply)
    }

    fn unlock_recorded(&self, released: &Recorded<Permit>) -> Result<CredentialInTransit, Refusal> {
        let session = self.sessions.get(released.value().session());
        let session = session.ok_or_else(session_unknown)?;
        let unlocked = self.vault.unlock(&session.tenant, released);
        unlocked
            .map(|(secret, _)| in_transit(&secret))
            .map_err(|error| unlock_refusal(&error))
    }

    /// What a yes covers, with the receipt for one connection.
    fn allowed(
        &mut self,
        permit: &Permit,
        facts: &RequestFacts,
        record: RecordSeq,
        now: Now,
    ) -> Answer {
        let claims = ReceiptClaims {
            session: permit.session().clone(),
            generation: permit.generation(),
            endpoint: facts.endpoint.clone(),
            record,
            issued_ms: now.boot_ms,
        };
        let session = self.sessions.get_mut(permit.session());
        let (Ok(receipt), Some(session)) = (self.receipt_key.seal(&claims), session) else {
            return Answer::Refused(undecidable());
        };
        session.opened(record, permit, facts);
        let injection = permit.injection().map(|injection| Injection {
            binding: injection.binding.clone(),
            credential: injection.credential.clone(),
            slot: injection.slot.clone(),
            mode: injection.mode,
            placeholder: session.placeholder_of(&injection.credential),
        });
        let slot = injection.as_ref().map(|i| i.slot.header_name().to_owned());
        let own = |name: &String| slot.as_ref() != Some(name);
        Answer::Allowed(Box::new(Allowed {
            record,
            receipt,
            endpoint: facts.endpoint.clone(),
            own_credentials: facts.own_credentials.iter().any(own),
            strip: slot.into_iter().collect(),
            injection,
        }))
    }

    /// Decides one question.
    fn judge(&mut self, gate: GateId, question: Question, now: Now) -> Judged {
        let Question {
            ticket,
            facts,
            pooled,
        } = question;
        let id = self.gates.get(&gate).map(|row| row.session.clone());
        if let Err(refusal) = self.spend(id.as_ref(), 1, now) {
            return Judged::Unrecorded(Reply::Answer(ticket, Answer::Refused(refusal), None));
        }
        let (decision, facts) = self.decide_request(gate, facts, now);
        let (decision, version) = self.releasable(decision);
        match (decision, version) {
            (Decision::Allow(permit), Some(version)) if pooled => {
                // The release is a record too; the next question finds the budget spent.
                if let Some(session) = self.sessions.get_mut(permit.session()) {
                    session.records += 1;
                }
                Judged::Releasing(Releasing {
                    gate,
                    ticket,
                    asked: Some(facts),
                    permit,
                    version,
                    decision: None,
                })
            }
            (decision, _) => {
                let decided = RequestDecided::of(&facts, &decision);
                let event = Event::RequestDecided(Box::new(decided));
                let plain = Plain::Decided(gate, ticket, Box::new((facts, decision)));
                Judged::Plain(now.entry(id, event), plain)
            }
        }
    }

    fn decide_request(
        &self,
        gate: GateId,
        facts: RequestFacts,
        now: Now,
    ) -> (Decision, RequestFacts) {
        let row = self.gates.get(&gate);
        let session = row.and_then(|row| self.sessions.get(&row.session));
        let (Some(row), Some(session)) = (row, session) else {
            return (Decision::Deny(session_unknown()), facts);
        };
        let act = Act::Request(facts);
        let decision = decide(&self.layers(session, row.generation, now), &act);
        match act {
            Act::Request(facts) => (decision, facts),
            // INVARIANT: the act was made three lines above.
            Act::Tool(_) => std::process::abort(),
        }
    }

    /// A yes with a credential is a no when that credential can't be unlocked right now.
    fn releasable(&self, decision: Decision) -> (Decision, Option<u32>) {
        let Decision::Allow(permit) = decision else {
            return (decision, None);
        };
        let tenant = self.sessions.get(permit.session()).map(|s| &s.tenant);
        match (permit.injection(), tenant) {
            (Some(_), Some(tenant)) => match self.vault.version_for(tenant, &permit) {
                Ok(version) => (Decision::Allow(permit), Some(version)),
                Err(error) => (Decision::Deny(unlock_refusal(&error)), None),
            },
            (None, _) | (_, None) => (Decision::Allow(permit), None),
        }
    }

    /// Checks a receipt: made here, for this socket's session, fresh, unused, and the session runs.
    fn redeem(&mut self, gate: GateId, ticket: Ticket, receipt: &Receipt, now: Now) -> Judged {
        let id = self.gates.get(&gate).map(|row| row.session.clone());
        if let Err(refusal) = self.spend(id.as_ref(), 1, now) {
            return Judged::Unrecorded(Reply::UnlockRefused(ticket, refusal));
        }
        match self.check_receipt(gate, receipt, now) {
            Ok((permit, version, decision)) => Judged::Releasing(Releasing {
                gate,
                ticket,
                asked: None,
                permit,
                version,
                decision: Some(decision),
            }),
            Err((refusal, target)) => {
                let event = refused_event(&refusal, &target);
                let plain = Plain::UnlockRefused(gate, ticket, refusal);
                Judged::Plain(now.entry(id, event), plain)
            }
        }
    }
}

/// A turn after it was judged.
enum Judged {
    Plain(Entry, Plain),
    Releasing(Releasing),
    /// Refused without a record: the session's budget is spent, and that was recorded.
    Unrecorded(Reply),
}

impl Plain {
    /// Whom to answer, and whether it was an unlock.
    fn ticket(&self) -> (GateId, Ticket, bool) {
        match self {
            Self::Decided(gate, ticket, _) => (*gate, *ticket, false),
            Self::UnlockRefused(gate, ticket, _) => (*gate, *ticket, true),
        }
    }
}

impl Releasing {
    fn event(&self, decision: RecordSeq) -> Event {
        // INVARIANT: only permits with an injection and an endpoint have a version to release.
        let (Some(injection), Some(endpoint)) = (self.permit.injection(), self.permit.endpoint())
        else {
            std::process::abort()
        };
        Event::CredentialReleased(Box::new(CredentialReleased {
            decision,
            credential: injection.credential.clone(),
            version: self.version,
            binding: injection.binding.clone(),
            endpoint: endpoint.clone(),
        }))
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
