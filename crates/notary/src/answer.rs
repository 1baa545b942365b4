// SPDX-License-Identifier: Apache-2.0
//! The heart: decide, record, unlock.
//!
//! A batch over all gates is judged from one state of the rows. Decisions that release nothing are
//! written; those that do are written together with their release and flushed to disk in one go.
//! Only the evidence of that write unlocks. What a gate must watch for is in `watch.rs`.

use crate::frames::{Reply, Unlocked, in_transit};
use crate::gates::GateId;
use crate::notary::{Notary, Now};
use crate::receipts::Redeemable;
use crate::refusals::{record_unavailable, session_unknown, undecidable, unlock_refusal};
use crate::watch::Watching;
use torno_audit::{CredentialReleased, Durability, Entry, Event, Recorded, RequestDecided};
use torno_notary_protocol::gate::{Allowed, Answer, Injection, Question, Ticket};
use torno_notary_protocol::receipt::{Receipt, ReceiptClaims};
use torno_policy::decision::{Decision, Permit, Reason, Refusal};
use torno_policy::facts::RequestFacts;
use torno_policy::names::RecordSeq;

mod judge;

use judge::Judged;

/// One thing that a gate wants answered.
pub(crate) enum Turn {
    Question(Question),
    Unlock(Ticket, Receipt),
}

/// A judged turn that releases nothing now.
enum Plain {
    Decided(GateId, Ticket, Box<(RequestFacts, Decision)>, bool),
    UnlockRefused(GateId, Ticket, Refusal),
}

/// A judged turn that releases credentials: with its question's answer, or by receipt.
struct Releasing {
    gate: GateId,
    ticket: Ticket,
    asked: Option<RequestFacts>,
    permit: Permit,
    /// Of the credential to put in.
    version: Option<u32>,
    watching: Watching,
    decision: Option<RecordSeq>,
}

impl Notary {
    /// Answers a batch.
    pub(crate) fn answer(&mut self, turns: Vec<(GateId, Turn)>, now: Now) -> Vec<(GateId, Reply)> {
        let mut replies = Vec::with_capacity(turns.len());
        let (mut plain, mut releasing) = (Vec::new(), Vec::new());
        for (gate, turn) in turns {
            match self.judge_turn(gate, turn, now) {
                Judged::Plain(entry, judged) => plain.push((entry, judged)),
                Judged::Releasing(release) => releasing.push(release),
                Judged::Unrecorded(reply) => replies.push((gate, reply)),
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
            for event in release.events(decision) {
                batch.push((now.entry(session.clone(), event), release.permit.clone()));
                next = RecordSeq(next.0 + 1);
            }
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
            let released: Vec<_> = recorded.by_ref().take(release.count()).collect();
            replies.push(self.answer_release(&release, decided, &released, now));
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
                let unlock = permit.injection().is_some() || watches;
                let answer = self.allowed(&permit, &facts, (record, unlock), now);
                if let Some(session) = self.sessions.get_mut(permit.session())
                    && unlock
                {
                    let redeemable = Redeemable { permit, watches };
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

    fn answer_release(
        &mut self,
        release: &Releasing,
        decided: Option<RecordSeq>,
        released: &[Recorded<Permit>],
        now: Now,
    ) -> (GateId, Reply) {
        let (gate, ticket) = (release.gate, release.ticket);
        let unlocked = self.unlock_recorded(release, released);
        let reply = match (unlocked, &release.asked, decided) {
            (Ok(unlocked), Some(facts), Some(record)) => {
                let answer = self.allowed(&release.permit, facts, (record, true), now);
                Reply::Answer(ticket, answer, unlocked.injected)
            }
            (Ok(unlocked), _, _) => Reply::Unlocked(ticket, unlocked),
            (Err(refusal), Some(_), _) => Reply::Answer(ticket, Answer::Refused(refusal), None),
            (Err(refusal), None, _) => Reply::UnlockRefused(ticket, refusal),
        };
        (gate, reply)
    }

    /// Unlocks, each by the evidence of its own record: first the one to put in, then the watched.
    fn unlock_recorded(
        &self,
        release: &Releasing,
        released: &[Recorded<Permit>],
    ) -> Result<Unlocked, Refusal> {
        let session = self.sessions.get(release.permit.session());
        let session = session.ok_or_else(session_unknown)?;
        let failed = |error| unlock_refusal(&error);
        let (injected, rest) = match (release.version, released) {
            (Some(_), [first, rest @ ..]) => {
                let (secret, _) = self.vault.unlock(&session.tenant, first).map_err(failed)?;
                (Some(in_transit(&secret)), rest)
            }
            (Some(_), []) => return Err(record_unavailable()),
            (None, rest) => (None, rest),
        };
        let watched = self.unlock_watched(session, &release.watching, rest)?;
        Ok(Unlocked {
            watched,
            injected,
            watch: release.watching.number,
        })
    }

    /// What a yes covers, with the receipt for one connection.
    fn allowed(
        &mut self,
        permit: &Permit,
        facts: &RequestFacts,
        (record, unlock): (RecordSeq, bool),
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
            unlock,
        }))
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

impl Releasing {
    /// How many credentials it releases, each with a record.
    fn count(&self) -> usize {
        usize::from(self.version.is_some()) + self.watching.credentials.len()
    }

    /// Their records, in the order in which they are unlocked.
    fn events(&self, decision: RecordSeq) -> Vec<Event> {
        let injected = match (
            self.version,
            self.permit.injection(),
            self.permit.endpoint(),
        ) {
            (Some(version), Some(injection), Some(endpoint)) => {
                let released = CredentialReleased {
                    decision,
                    credential: injection.credential.clone(),
                    version,
                    binding: injection.binding.clone(),
                    endpoint: endpoint.clone(),
                };
                Some(Event::CredentialReleased(Box::new(released)))
            }
            (None, _, _) => None,
            // INVARIANT: only permits with an injection and an endpoint have a version to release.
            (Some(_), _, _) => std::process::abort(),
        };
        let watched = self.watching.events(decision);
        injected.into_iter().chain(watched).collect()
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
