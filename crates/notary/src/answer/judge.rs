// SPDX-License-Identifier: Apache-2.0
//! Judging one turn: what it may have, and which records that takes.

use super::{Plain, Releasing, Turn};
use crate::frames::Reply;
use crate::gates::GateId;
use crate::notary::{Notary, Now};
use crate::receipts::Redeemable;
use crate::refusals::{refused_event, session_unknown, unlock_refusal};
use crate::sessions::TooMany;
use crate::watch::Watching;
use torno_audit::{Entry, Event, RequestDecided, TripwireSeen};
use torno_notary_protocol::gate::{Answer, Question, Ticket};
use torno_notary_protocol::receipt::Receipt;
use torno_policy::decide::{decide, unread};
use torno_policy::decision::{Decision, Permit, Reason, Refusal};
use torno_policy::facts::{Act, Location, Presented, RequestFacts, Unread};
use torno_policy::names::{CredentialName, SessionId};
use torno_policy::tripwire::{IssuedTripwire, Wire};
use torno_vault::UnlockError;

/// A turn after it was judged.
pub(super) enum Judged {
    Plain(Entry, Plain),
    Releasing(Box<Releasing>),
    /// Answered without a record: the session's budget is spent, and that was recorded; or
    /// something must be read first.
    Unrecorded(Reply),
}

impl Notary {
    pub(super) fn judge_turn(&mut self, gate: GateId, turn: Turn, now: Now) -> Judged {
        match turn {
            Turn::Question(question) => self.judge(gate, *question, now),
            Turn::Unlock(ticket, receipt) => self.redeem(gate, ticket, &receipt, now),
        }
    }

    /// Decides one question.
    fn judge(&mut self, gate: GateId, question: Question, now: Now) -> Judged {
        let Question {
            ticket,
            facts,
            pooled,
            serves,
            watch,
        } = question;
        self.took_up(gate, watch);
        let id = self.gates.get(&gate).map(|row| row.session.clone());
        let unrecorded =
            |refusal| Judged::Unrecorded(Reply::Answer(ticket, Answer::Refused(refusal), None));
        let paced = self.pace(id.as_ref(), &facts.endpoint.host, now);
        if let Err(TooMany {
            refusal,
            is_news: false,
        }) = paced
        {
            return unrecorded(refusal);
        }
        if let Err(refusal) = self.spend(id.as_ref(), 1, now) {
            return unrecorded(refusal);
        }
        if let Err(TooMany { refusal, .. }) = paced {
            return decided(
                now,
                (gate, ticket, id),
                (facts, Decision::Deny(refusal)),
                false,
            );
        }
        let (decision, facts) = self.decide_request(gate, facts, now);
        self.judge_tripped(id.as_ref(), &facts, &decision, now);
        // Nothing happened yet: the record is of the question that has the content. Both cost the
        // session one of its records, so that asking has its bound.
        if let Some(unread) = self.unread(gate, &facts, &decision, now) {
            return Judged::Unrecorded(Reply::Answer(ticket, Answer::Read(unread), None));
        }
        let (decision, version) = self.releasable(decision);
        let (decision, watches) = self.watches(decision, watch);
        match (decision, version) {
            // What there is to watch for comes by receipt, whatever the connection.
            (Decision::Allow(permit), Some(version))
                if pooled
                    && !watches
                    && is_served(&permit, serves.as_ref())
                    && self.minted(&permit, &facts).is_none() =>
            {
                // The release is a record too; the next question finds the budget spent.
                if let Some(session) = self.sessions.get_mut(permit.session()) {
                    session.records += 1;
                }
                Judged::Releasing(Box::new(Releasing {
                    gate,
                    ticket,
                    asked: Some(facts),
                    permit,
                    version: Some(version),
                    watching: Watching::default(),
                    decision: None,
                }))
            }
            (decision, _) => decided(now, (gate, ticket, id), (facts, decision), watches),
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

    /// What carries a tripwire out freezes its session before anything else is judged.
    fn judge_tripped(
        &mut self,
        id: Option<&SessionId>,
        facts: &RequestFacts,
        decision: &Decision,
        now: Now,
    ) {
        if let (Some(id), Decision::Deny(refusal)) = (id, decision)
            && refusal.reason == Reason::Tripwire
            && let Some(session) = self.sessions.get(id)
            && let Some((wire, location)) = tripped(&session.tripwires, &facts.presented)
        {
            let to = (&facts.endpoint, &facts.method);
            self.freeze(id, TripwireSeen::new(wire, location, to), now);
        }
    }

    /// What must be read of the request before it can be judged.
    fn unread(
        &self,
        gate: GateId,
        facts: &RequestFacts,
        decision: &Decision,
        now: Now,
    ) -> Option<Unread> {
        let row = self.gates.get(&gate)?;
        let session = self.sessions.get(&row.session)?;
        unread(&self.layers(session, row.generation, now), decision, facts)
    }

    /// A yes with a credential is a no when that credential can't be unlocked right now.
    pub(crate) fn releasable(&self, decision: Decision) -> (Decision, Option<u32>) {
        let Decision::Allow(permit) = decision else {
            return (decision, None);
        };
        let tenant = self.sessions.get(permit.session()).map(|s| &s.tenant);
        match (permit.injection(), tenant) {
            (Some(_), Some(tenant)) => match self.vault.version_for(tenant, &permit) {
                Ok(version) => (Decision::Allow(permit), Some(version)),
                Err(error) => (Decision::Deny(unlock_refusal(&error)), None),
            },
            // What a far end made for a credential is used no longer than the credential can be.
            (None, _) if permit.keeping().is_some() && self.vault.is_sealed() => {
                let refusal = unlock_refusal(&UnlockError::Sealed);
                (Decision::Deny(refusal), None)
            }
            (None, _) | (_, None) => (Decision::Allow(permit), None),
        }
    }

    /// Checks a receipt: made here, for this socket's session, fresh, unused, and the session runs.
    fn redeem(&mut self, gate: GateId, ticket: Ticket, receipt: &Receipt, now: Now) -> Judged {
        let id = self.gates.get(&gate).map(|row| row.session.clone());
        let redeemed = self.check_receipt(gate, receipt, now);
        let redeemed = redeemed.and_then(|(redeemable, decision, target)| {
            let (version, watching) = self.redeemed(&redeemable).map_err(|r| (r, target))?;
            Ok(Releasing {
                gate,
                ticket,
                asked: None,
                permit: redeemable.permit,
                version,
                watching,
                decision: Some(decision),
            })
        });
        let records = redeemed.as_ref().map_or(1, Releasing::count);
        let records = u64::try_from(records).unwrap_or(u64::MAX);
        if let Err(refusal) = self.spend(id.as_ref(), records, now) {
            return Judged::Unrecorded(Reply::UnlockRefused(ticket, refusal));
        }
        match redeemed {
            Ok(release) => Judged::Releasing(Box::new(release)),
            Err((refusal, target)) => {
                let event = refused_event(&refusal, &target);
                let plain = Plain::UnlockRefused(gate, ticket, refusal);
                Judged::Plain(now.entry(id, event), plain)
            }
        }
    }

    /// What is released for a receipt: the version of the credential to put in, and the watched.
    fn redeemed(&self, redeemable: &Redeemable) -> Result<(Option<u32>, Watching), Refusal> {
        let permit = &redeemable.permit;
        let session = self.sessions.get(permit.session());
        let tenant = &session.ok_or_else(session_unknown)?.tenant;
        let version = permit.injection().filter(|_| !redeemable.minted);
        let version = version.map(|_| self.vault.version_for(tenant, permit));
        let version = version.transpose().map_err(|e| unlock_refusal(&e))?;
        let watching = if redeemable.watches {
            self.watching(tenant, permit)?
        } else {
            Watching::default()
        };
        Ok((version, watching))
    }
}

/// A decision that releases nothing now, with its record.
fn decided(
    now: Now,
    (gate, ticket, id): (GateId, Ticket, Option<SessionId>),
    (facts, decision): (RequestFacts, Decision),
    watches: bool,
) -> Judged {
    let decided = RequestDecided::of(&facts, &decision);
    let event = Event::RequestDecided(Box::new(decided));
    let plain = Plain::Decided(gate, ticket, Box::new((facts, decision)), watches);
    Judged::Plain(now.entry(id, event), plain)
}

/// Which tripwire stands where in a request.
fn tripped<'a>(
    tripwires: &[IssuedTripwire],
    presented: &'a [Presented],
) -> Option<(Wire, &'a Location)> {
    presented.iter().find_map(|one| {
        let wire = tripwires.iter().find(|wire| wire.digest == one.digest)?;
        Some((wire.wire, &one.location))
    })
}

/// Whether the connection at hand was used with this very credential before.
fn is_served(permit: &Permit, serves: Option<&CredentialName>) -> bool {
    let injection = permit.injection();
    injection.is_some_and(|injection| serves == Some(&injection.credential))
}
