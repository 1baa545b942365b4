// SPDX-License-Identifier: Apache-2.0
//! What a gate must watch for: every credential of its session, used or not.
//!
//! A far end may have kept a credential from an earlier session and show it to this one before it
//! used it. So the first request of a gate that is allowed, and the first after one of them got a
//! new value, brings the session's other credentials too: recorded, unlocked for a verified peer
//! like any other, and put nowhere. The gate says with each question which watch it has taken up. A
//! gate that lies gets nothing that its own session does not hold.

use crate::frames::in_transit;
use crate::gates::GateId;
use crate::notary::Notary;
use crate::refusals::{record_unavailable, refusal, session_unknown, unlock_refusal};
use crate::sessions::Session;
use torno_audit::{CredentialWatched, Event, Recorded};
use torno_notary_protocol::transit::CredentialInTransit;
use torno_policy::decision::{Decision, Layer, Permit, Reason, Refusal};
use torno_policy::names::{CredentialName, RecordSeq, SessionId, TenantName};
use torno_vault::UnlockError;

/// LIMIT: the watched credentials of one session together, so that one frame takes them beside the
/// one to put in.
const BYTES_MAX: usize = 56 * 1024;

/// The watch before any value changed.
pub(crate) const FIRST_WATCH: u64 = 1;

/// The credentials to watch for.
#[derive(Default)]
pub(crate) struct Watching {
    /// With their versions.
    pub(crate) credentials: Vec<(CredentialName, u32)>,
    /// What the gate then has taken up; 0 for no news.
    pub(crate) number: u64,
}

impl Watching {
    pub(crate) fn events(&self, decision: RecordSeq) -> impl Iterator<Item = Event> {
        self.credentials.iter().map(move |(credential, version)| {
            Event::CredentialWatched(Box::new(CredentialWatched {
                decision,
                credential: credential.clone(),
                version: *version,
            }))
        })
    }
}

impl Notary {
    /// Whether a yes must bring the watched credentials, given the watch that the gate has taken
    /// up. Where one can't be had, the answer could not be searched: the yes is a no.
    pub(crate) fn watches(&self, decision: Decision, taken_up: u64) -> (Decision, bool) {
        let Decision::Allow(permit) = decision else {
            return (decision, false);
        };
        let is_news = |name: &&CredentialName| {
            self.valued.get(*name).copied().unwrap_or(FIRST_WATCH) > taken_up
        };
        let news: Vec<_> = permit.watched().iter().filter(is_news).collect();
        if news.is_empty() {
            return (Decision::Allow(permit), false);
        }
        match self.searchable(&permit, &news) {
            Ok(()) => (Decision::Allow(permit), true),
            Err(refusal) => (Decision::Deny(refusal), false),
        }
    }

    /// Remembers what a gate searches answers for: an explanation says what enforcement does.
    pub(crate) fn took_up(&mut self, gate: GateId, watch: u64) {
        if let Some(row) = self.gates.get_mut(&gate) {
            row.watch = row.watch.max(watch);
        }
    }

    /// The watch that the session's gate has taken up.
    pub(crate) fn taken_up(&self, session: &SessionId) -> u64 {
        let rows = self.gates.values().filter(|row| row.session == *session);
        rows.map(|row| row.watch).max().unwrap_or(0)
    }

    /// A revoked value is handed to nobody, and its issuer may honour it still.
    fn searchable(&self, permit: &Permit, news: &[&CredentialName]) -> Result<(), Refusal> {
        if self.vault.is_sealed() {
            return Err(unlock_refusal(&UnlockError::Sealed));
        }
        let session = self.sessions.get(permit.session());
        let tenant = &session.ok_or_else(session_unknown)?.tenant;
        let is_revoked = |name: &&CredentialName| {
            let row = self.vault.credential(tenant, name);
            row.is_some_and(|row| row.revoked)
        };
        if news.iter().copied().any(|name| is_revoked(&name)) {
            let hint = "a credential of this session was revoked before answers could be searched \
                        for it; begin a session without it";
            let (reason, rule) = (Reason::CredentialRevoked, "watch");
            return Err(refusal(reason, Layer::Vault, rule, hint));
        }
        Ok(())
    }

    /// The versions that will be unlocked. Revoked and removed ones are not.
    pub(crate) fn watching(
        &self,
        tenant: &TenantName,
        permit: &Permit,
    ) -> Result<Watching, Refusal> {
        let mut credentials = Vec::new();
        for name in permit.watched() {
            let version = self.vault.version_of(tenant, name);
            if let Some(version) = version.map_err(|error| unlock_refusal(&error))? {
                credentials.push((name.clone(), version));
            }
        }
        Ok(Watching {
            credentials,
            number: self.watch,
        })
    }

    /// Unlocks them, each by its own evidence, with the placeholders that stand for them inside.
    pub(crate) fn unlock_watched(
        &self,
        session: &Session,
        watching: &Watching,
        recorded: &[Recorded<Permit>],
    ) -> Result<Vec<(String, CredentialInTransit)>, Refusal> {
        if recorded.len() != watching.credentials.len() {
            return Err(record_unavailable());
        }
        let mut bytes = 0;
        let mut watched = Vec::with_capacity(recorded.len());
        for ((name, version), evidence) in watching.credentials.iter().zip(recorded) {
            let now = self.vault.version_of(&session.tenant, name);
            if now.map_err(|error| unlock_refusal(&error))? != Some(*version) {
                // Another version than the record says, or none any more.
                return Err(unlock_refusal(&UnlockError::Binding));
            }
            let secret = self.vault.unlock_watched(&session.tenant, evidence, name);
            let secret = in_transit(&secret.map_err(|error| unlock_refusal(&error))?);
            bytes += secret.byte_count();
            if bytes > BYTES_MAX {
                let hint = "the session's credentials are too large together; grant fewer";
                let (reason, rule) = (Reason::LimitReached, "watch");
                return Err(refusal(reason, Layer::Vault, rule, hint));
            }
            watched.push((session.placeholder_of(name), secret));
        }
        Ok(watched)
    }
}
