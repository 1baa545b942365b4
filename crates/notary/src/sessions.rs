// SPDX-License-Identifier: Apache-2.0
//! Sessions: their standing, durable before anybody is told, and what each was given.
//!
//! ```text
//!           begin              end
//!  (none) ────────▶ running ────────▶ ended
//!                      ├──── kill ───▶ killed     a restart ends what was running
//!                      ├── tripwire ──▶ frozen      lives, may nothing, ends or is killed
//!                      └── pause ─────▶ paused      lives, may nothing, until it is resumed
//! ```

use crate::minted::Minted;
use crate::notary::{Effect, Notary, Now};
use crate::receipts::Receipts;
use crate::refusals::{record_unavailable, refusal, session_unknown};
use std::collections::BTreeMap;
use torno_audit::{Durability, Event, record::EndCause};
use torno_notary_protocol::desk;
use torno_policy::decide::{IssuedPlaceholder, Layers};
use torno_policy::decision::{Layer, Reason, Refusal};
use torno_policy::grant::Grant;
use torno_policy::names::{CredentialName, Generation, RecordSeq, SessionId, TenantName};
use torno_policy::placeholder::Placeholder;
use torno_policy::standing::{Phase, Standing, State};
use torno_policy::tripwire::IssuedTripwire;

mod begin;
mod freeze;
mod open;
mod pace;
mod pause;

pub(crate) use open::OpenRequest;
pub(crate) use pace::{Pace, TooMany};

/// A session of this life.
pub(crate) struct Session {
    pub(crate) standing: Standing,
    pub(crate) tenant: TenantName,
    pub(crate) grant: Grant,
    /// Its live placeholders, as decisions see them.
    pub(crate) issued: Vec<IssuedPlaceholder>,
    /// What stands in its sandbox to be stolen.
    pub(crate) tripwires: Vec<IssuedTripwire>,
    placeholders: BTreeMap<CredentialName, Placeholder>,
    /// Placeholders of values that were made with its credentials.
    pub(crate) minted: Minted,
    /// Its first record: which session is older.
    begun_at: RecordSeq,
    /// Its permits that wait for a verified peer.
    pub(crate) receipts: Receipts,
    /// Records it caused.
    pub(crate) records: u64,
    /// Requests that it may still make, and how fast.
    pub(crate) pace: Pace,
    /// Its record budget is spent.
    pub(crate) frozen: bool,
    /// Decisions whose end was not reported yet.
    open: BTreeMap<RecordSeq, OpenRequest>,
    /// Requests that were open when it was killed.
    cut: u32,
    credentialed_writes: u64,
    /// Placeholders that its kill made worthless.
    placeholders_dead: u32,
    /// Its kill was proven and recorded: no further one reports it.
    kill_completed: bool,
}

/// LIMIT: sessions of this life that are kept for display once they are over.
const OVER_MAX: usize = 1_024;

impl Session {
    pub(crate) const fn id(&self) -> &SessionId {
        &self.standing.session
    }

    /// Whether it has neither ended nor been killed: a frozen one still has to.
    pub(crate) fn is_live(&self) -> bool {
        match self.standing.state {
            State::Running | State::Frozen | State::Paused => true,
            State::Ended | State::Killed => false,
        }
    }

    /// Whether a gate of this generation may still have what was decided.
    pub(crate) fn check_running(&self, asker: Generation) -> Result<(), Refusal> {
        let (reason, hint) = match self.standing.state {
            State::Killed => (Reason::SessionKilled, "the session was killed"),
            State::Ended => (Reason::SessionEnded, "the session has ended"),
            State::Frozen => (
                Reason::SessionFrozen,
                "the session is frozen by a tripwire; end it with `torno kill`",
            ),
            State::Paused => (
                Reason::SessionPaused,
                "the session is paused; `torno session resume` goes on with it",
            ),
            State::Running if self.standing.generation != asker => {
                (Reason::SessionFenced, "this belongs to an earlier life")
            }
            State::Running => return Ok(()),
        };
        Err(refusal(reason, Layer::Standing, "standing", hint))
    }

    /// Takes records from the budget; `false` when it is spent.
    pub(crate) fn spend(&mut self, records: u64) -> bool {
        let after = self.records.saturating_add(records);
        let fits = !self.frozen && after <= self.grant.sandbox.limits.records;
        if fits {
            self.records = after;
        }
        fits
    }

    pub(crate) fn placeholder_of(&self, credential: &CredentialName) -> String {
        let placeholder = self.placeholders.get(credential);
        placeholder.map_or_else(String::new, |p| p.as_str().to_owned())
    }

    /// The credential of an open request.
    pub(crate) fn credential_of(&self, record: RecordSeq) -> Option<&CredentialName> {
        self.open.get(&record)?.credential.as_ref()
    }

    /// Whether its grant names the credential.
    pub(crate) fn holds(&self, credential: &CredentialName) -> bool {
        self.placeholders.contains_key(credential)
    }

    /// The credentials it holds placeholders for.
    pub(crate) fn credentials(&self) -> impl Iterator<Item = &CredentialName> {
        self.placeholders.keys()
    }

    /// It is over: placeholders die. How many there were.
    fn finish(&mut self, state: State) -> u32 {
        self.standing.state = state;
        self.issued.clear();
        self.tripwires.clear();
        self.minted.clear();
        self.receipts = Receipts::default();
        self.cut = count(self.open.len());
        let placeholders = count(self.placeholders.len());
        self.placeholders.clear();
        placeholders
    }
}

/// What a kill changed.
pub(crate) struct Kill {
    pub(crate) sessions: Vec<SessionId>,
    pub(crate) credentialed_writes: Vec<(SessionId, u64)>,
    pub(crate) placeholders: u32,
}

impl Notary {
    /// One-way, from install to locked.
    pub(crate) fn lock(&mut self, id: &SessionId, now: Now) -> Result<RecordSeq, Refusal> {
        let session = self.sessions.get(id).ok_or_else(session_unknown)?;
        session.check_running(session.standing.generation)?;
        let entry = now.entry(Some(id.clone()), Event::SessionLocked);
        let seq = self.record(entry)?;
        if let Some(session) = self.sessions.get_mut(id) {
            session.standing.phase = Phase::Locked;
        }
        Ok(seq)
    }

    /// Ends a session. Nothing happens to one that is over already.
    pub(crate) fn end(
        &mut self,
        id: &SessionId,
        (cause, exit_status): (EndCause, Option<i32>),
        now: Now,
    ) -> (Result<Option<RecordSeq>, Refusal>, Vec<Effect>) {
        let Some(session) = self.sessions.get_mut(id) else {
            return (Err(session_unknown()), Vec::new());
        };
        if !session.is_live() {
            return (Ok(None), Vec::new());
        }
        // Nothing is allowed from here on, whatever the disk does.
        session.finish(State::Ended);
        let effects = vec![whole(id)];
        let stopped = self.store.stop(std::slice::from_ref(id), "ended");
        let event = Event::SessionEnded { cause, exit_status };
        let batch = vec![(now.entry(Some(id.clone()), event), ())];
        let recorded = self.recorder.append_final(batch);
        self.forget_oldest();
        match (stopped, recorded) {
            (Ok(()), Ok(recorded)) => (Ok(recorded.first().map(|r| r.seq())), effects),
            (Err(_), _) | (_, Err(_)) => (Err(record_unavailable()), effects),
        }
    }

    /// Kills one session, or every one that runs. Standing first in memory, then on disk, then in
    /// the record; a failing disk keeps nobody alive.
    pub(crate) fn kill(
        &mut self,
        only: Option<&SessionId>,
        now: Now,
    ) -> (Result<Kill, Refusal>, Vec<Effect>) {
        let runs = |s: &&mut Session| s.is_live() && only.is_none_or(|id| id == s.id());
        let mut kill = Kill {
            sessions: Vec::new(),
            credentialed_writes: Vec::new(),
            placeholders: 0,
        };
        for session in self.sessions.values_mut().filter(runs) {
            session.placeholders_dead = session.finish(State::Killed);
            kill.sessions.push(session.id().clone());
        }
        // A kill comes by desk and supervisor at once: whoever comes second reports the same.
        let reported = |s: &&Session| {
            let is_meant = only.is_none_or(|id| id == s.id());
            is_meant && s.standing.state == State::Killed && !s.kill_completed
        };
        for session in self.sessions.values().filter(reported) {
            kill.placeholders += session.placeholders_dead;
            kill.credentialed_writes
                .push((session.id().clone(), session.credentialed_writes));
        }
        let effects = kill.sessions.iter().map(whole).collect();
        let stopped = self.store.stop(&kill.sessions, "killed");
        let killed = |id: &SessionId| (now.entry(Some(id.clone()), Event::SessionKilled), ());
        let batch: Vec<_> = kill.sessions.iter().map(killed).collect();
        let recorded = if batch.is_empty() {
            Ok(Vec::new())
        } else {
            self.recorder.append_final(batch)
        };
        let signed = recorded.and_then(|_| self.recorder.checkpoint());
        self.forget_oldest();
        match (stopped, signed) {
            (Ok(()), Ok(())) => (Ok(kill), effects),
            (Err(_), _) | (_, Err(_)) => (Err(record_unavailable()), effects),
        }
    }

    /// The sandbox of a killed session is gone.
    pub(crate) fn killed(
        &mut self,
        id: &SessionId,
        (processes, leftovers): (u32, Vec<String>),
        now: Now,
    ) -> Result<RecordSeq, Refusal> {
        let session = self.sessions.get(id).ok_or_else(session_unknown)?;
        if session.standing.state != State::Killed {
            let hint = "the session was not killed; kill it first";
            return Err(refusal(
                Reason::Undecidable,
                Layer::Standing,
                "standing",
                hint,
            ));
        }
        if session.kill_completed {
            let hint = "the kill of this session is recorded already";
            return Err(refusal(
                Reason::Undecidable,
                Layer::Standing,
                "standing",
                hint,
            ));
        }
        let event = Event::KillCompleted {
            processes,
            leftovers: torno_audit::List::new(leftovers.iter().map(|l| l.as_str().into())),
            cut: session.cut,
        };
        let batch = vec![(now.entry(Some(id.clone()), event), ())];
        let recorded = self.recorder.append_final(batch);
        let recorded = recorded.map_err(|_| record_unavailable())?;
        if let Some(session) = self.sessions.get_mut(id) {
            session.kill_completed = true;
        }
        recorded
            .first()
            .map(|r| r.seq())
            .ok_or_else(record_unavailable)
    }

    /// Every session of this life.
    pub(crate) fn standings(&self) -> Vec<Standing> {
        let mut all: Vec<_> = self.sessions.values().map(|s| s.standing.clone()).collect();
        all.sort_by(|a, b| a.session.cmp(&b.session));
        all
    }

    /// Takes records from a session's budget. The first refusal is recorded and freezes it.
    pub(crate) fn spend(
        &mut self,
        spender: Option<&SessionId>,
        records: u64,
        now: Now,
    ) -> Result<(), Refusal> {
        let Some(session) = spender.and_then(|id| self.sessions.get_mut(id)) else {
            return Ok(());
        };
        if session.spend(records) {
            return Ok(());
        }
        if !std::mem::replace(&mut session.frozen, true) {
            let records = session.records;
            let event = Event::BudgetFrozen { records };
            let entry = now.entry(Some(session.id().clone()), event);
            // Whether or not it could be written: nothing more of this session is.
            let _ = self.recorder.append_final(vec![(entry, ())]);
        }
        let hint = "the session has spent its record budget; end it and begin another";
        let (reason, rule) = (Reason::LimitReached, "limits.records");
        Err(refusal(reason, Layer::Session, rule, hint))
    }

    /// The session's rows as `decide` wants them.
    pub(crate) fn layers<'a>(
        &'a self,
        session: &'a Session,
        asker: Generation,
        now: Now,
    ) -> Layers<'a> {
        Layers {
            standing: Some(&session.standing),
            asker,
            organisation: &self.organisation,
            grant: &session.grant,
            bindings: self.vault.live_bindings(&session.tenant),
            placeholders: &session.issued,
            tripwires: &session.tripwires,
            now: now.unix_seconds(),
        }
    }

    /// Writes one entry to disk.
    pub(crate) fn record(&mut self, entry: torno_audit::Entry) -> Result<RecordSeq, Refusal> {
        let recorded = self.recorder.append(vec![(entry, ())], Durability::Synced);
        let recorded = recorded.map_err(|_| record_unavailable())?;
        recorded
            .first()
            .map(|r| r.seq())
            .ok_or_else(record_unavailable)
    }

    /// Keeps memory bounded: what is over and longest known goes. The store keeps its standing.
    fn forget_oldest(&mut self) {
        let over: Vec<_> = self.sessions.values().filter(|s| !s.is_live()).collect();
        if over.len() > OVER_MAX
            && let Some(oldest) = over.iter().min_by_key(|s| s.begun_at)
        {
            let id = oldest.id().clone();
            self.sessions.remove(&id);
        }
    }
}

fn whole(session: &SessionId) -> Effect {
    Effect::Revoke {
        session: session.clone(),
        credential: None,
    }
}

fn count(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}

/// The record's word for the desk's.
pub(crate) const fn cause(cause: desk::EndCause) -> EndCause {
    match cause {
        desk::EndCause::Exited => EndCause::Exited,
        desk::EndCause::Stopped => EndCause::Stopped,
        desk::EndCause::TimeLimit => EndCause::TimeLimit,
        desk::EndCause::DiskLimit => EndCause::DiskLimit,
        desk::EndCause::DiskFull => EndCause::DiskFull,
        desk::EndCause::StartFailed => EndCause::StartFailed,
        desk::EndCause::RoleDied => EndCause::RoleDied,
    }
}
