// SPDX-License-Identifier: Apache-2.0
//! Releases: written, flushed, and only then unlocked, each by its own evidence. The flush is the
//! role's to run, on this thread or beside it; what happened meanwhile (a kill, a rotation, a
//! revocation) counts.
//!
//! ```text
//! record_releases ─▶ Awaiting ─┬─────────────────────────────────┐
//!                              └▶ flush ─(any thread)─▶ flushed ─┴─▶ unlock, answer
//! ```

use super::unrecordable;
use crate::frames::{Reply, ToGate, Unlocked, in_transit, pack};
use crate::gates::GateId;
use crate::notary::{Notary, Now};
use crate::refusals::{record_unavailable, session_unknown, unlock_refusal};
use crate::watch::Watching;
use torno_audit::{
    CredentialReleased, Entry, Event, Flush, Flushed, Recorded, RequestDecided, Written,
};
use torno_notary_protocol::gate::{Answer, Ticket};
use torno_policy::decision::{Decision, Permit, Refusal};
use torno_policy::facts::RequestFacts;
use torno_policy::names::RecordSeq;
use torno_vault::UnlockError;

/// LIMIT: releases that wait for their flush; beyond it gates are not read until one came back.
const AWAITING_MAX: usize = 1_024;

/// A judged turn that releases credentials: with its question's answer, or by receipt.
pub(super) struct Releasing {
    pub(super) gate: GateId,
    pub(super) ticket: Ticket,
    pub(super) asked: Option<RequestFacts>,
    pub(super) permit: Permit,
    /// Of the credential to put in.
    pub(super) version: Option<u32>,
    pub(super) watching: Watching,
    pub(super) decision: Option<RecordSeq>,
}

/// Releases of one batch that are written and perhaps not on disk.
pub(crate) struct Awaiting {
    releasing: Vec<Releasing>,
    written: Written<Permit>,
}

impl Notary {
    /// Writes decisions with their releases. Their answers come with the flush.
    pub(super) fn record_releases(
        &mut self,
        releasing: Vec<Releasing>,
        now: Now,
        replies: &mut Vec<(GateId, Reply)>,
    ) {
        if releasing.is_empty() {
            return;
        }
        let batch = self.entries(&releasing, now);
        match self.recorder.write_ahead(batch) {
            Ok(written) => self.awaiting.push_back(Awaiting { releasing, written }),
            Err(_) => replies.extend(releasing.iter().map(Releasing::ticket).map(unrecordable)),
        }
    }

    /// Each decision that was not recorded before, and behind it its releases.
    fn entries(&self, releasing: &[Releasing], now: Now) -> Vec<(Entry, Permit)> {
        let mut batch = Vec::with_capacity(2 * releasing.len());
        let mut next = self.recorder.next_seq();
        for release in releasing {
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
        batch
    }

    /// The flush that releases wait for; nothing when none wait, or while one is under way. It
    /// blocks: run it, then call [`Self::flushed`].
    #[must_use]
    pub fn flush(&mut self) -> Option<Flush> {
        if self.flushing || self.awaiting.is_empty() {
            return None;
        }
        self.flushing = true;
        Some(self.recorder.flush())
    }

    /// How many releases wait for a flush.
    #[must_use]
    pub fn awaiting(&self) -> usize {
        self.awaiting
            .iter()
            .map(|batch| batch.releasing.len())
            .sum()
    }

    /// Whether gates must wait until a flush came back.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.awaiting() >= AWAITING_MAX
    }

    /// A flush came back: what it covers is unlocked and answered. When it failed nothing ever is.
    pub fn flushed(&mut self, flushed: Flushed) -> Vec<ToGate> {
        self.flushing = false;
        // A failure shows below: nothing has evidence any more.
        let _ = self.recorder.flushed(flushed);
        let mut replies = Vec::new();
        while let Some(Awaiting { releasing, written }) = self.awaiting.pop_front() {
            match self.recorder.evidence(written) {
                Ok(recorded) => self.answer_batch(releasing, recorded, &mut replies),
                Err(_) if self.recorder.is_broken() => {
                    replies.extend(releasing.iter().map(Releasing::ticket).map(unrecordable));
                }
                Err(written) => {
                    self.awaiting.push_front(Awaiting { releasing, written });
                    break;
                }
            }
        }
        pack(replies)
    }

    fn answer_batch(
        &mut self,
        releasing: Vec<Releasing>,
        recorded: Vec<Recorded<Permit>>,
        replies: &mut Vec<(GateId, Reply)>,
    ) {
        let mut recorded = recorded.into_iter();
        for release in releasing {
            let decided = match release.asked {
                Some(_) => recorded.next().map(|evidence| evidence.seq()),
                None => None,
            };
            let released: Vec<_> = recorded.by_ref().take(release.count()).collect();
            replies.push(self.answer_release(&release, decided, &released));
        }
    }

    fn answer_release(
        &mut self,
        release: &Releasing,
        decided: Option<RecordSeq>,
        released: &[Recorded<Permit>],
    ) -> (GateId, Reply) {
        let (gate, ticket) = (release.gate, release.ticket);
        let unlocked = self.unlock_recorded(release, released);
        if let Ok(unlocked) = &unlocked {
            self.took_up(gate, unlocked.watch);
        }
        let reply = match (unlocked, &release.asked, decided) {
            (Ok(unlocked), Some(facts), Some(record)) => {
                let answer = self.allowed(&release.permit, facts, (record, true), None);
                Reply::Answer(ticket, answer, unlocked.injected)
            }
            (Ok(unlocked), _, _) => Reply::Unlocked(ticket, unlocked),
            (Err(refusal), Some(_), _) => Reply::Answer(ticket, Answer::Refused(refusal), None),
            (Err(refusal), None, _) => Reply::UnlockRefused(ticket, refusal),
        };
        (gate, reply)
    }

    /// Unlocks, each by the evidence of its own record: first the one to put in, then the watched.
    /// The session may have been killed while the flush ran, and a credential rotated: the record
    /// names the version that is released, and no other is.
    fn unlock_recorded(
        &self,
        release: &Releasing,
        released: &[Recorded<Permit>],
    ) -> Result<Unlocked, Refusal> {
        let session = self.sessions.get(release.permit.session());
        let session = session.ok_or_else(session_unknown)?;
        session.check_running(release.permit.generation())?;
        let failed = |error| unlock_refusal(&error);
        let (injected, rest) = match (release.version, released) {
            (Some(version), [first, rest @ ..]) => {
                let (secret, unlocked) =
                    self.vault.unlock(&session.tenant, first).map_err(failed)?;
                if unlocked != version {
                    return Err(failed(UnlockError::Binding));
                }
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
}

impl Releasing {
    /// How many credentials it releases, each with a record.
    pub(super) fn count(&self) -> usize {
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

    /// Whom to answer, and whether it was an unlock.
    fn ticket(&self) -> (GateId, Ticket, bool) {
        (self.gate, self.ticket, self.asked.is_none())
    }
}
