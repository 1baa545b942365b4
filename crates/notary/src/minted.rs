// SPDX-License-Identifier: Apache-2.0
//! Values that a far end made with a credential: an answer's tokens. Their gate keeps them, the
//! sandbox gets placeholders, and what these may do is judged here: as if the credential that made
//! them had been presented, at its bindings and nowhere else. Nothing of a value is known here.

use crate::frames::Reply;
use crate::gates::GateId;
use crate::notary::{Notary, Now};
use crate::refusals::{record_unavailable, refusal, session_unknown, undecidable};
use std::collections::BTreeMap;
use torno_audit::{Durability, Event};
use torno_notary_protocol::gate::Ticket;
use torno_policy::binding::Slot;
use torno_policy::decide::IssuedPlaceholder;
use torno_policy::decision::{Layer, Permit, Reason, Refusal};
use torno_policy::facts::{Location, RequestFacts};
use torno_policy::names::RecordSeq;
use torno_policy::placeholder::{Placeholder, PlaceholderDigest};

/// LIMIT: values of one session; its gate searches every answer for each of them.
const MINTED_MAX: usize = 32;

/// A session's placeholders for minted values.
#[derive(Default)]
pub(crate) struct Minted(BTreeMap<PlaceholderDigest, Placeholder>);

impl Minted {
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}

impl Notary {
    /// Names for what an open request's answer minted.
    pub(crate) fn mint(
        &mut self,
        gate: GateId,
        (ticket, record, count): (Ticket, RecordSeq, u32),
        now: Now,
    ) -> Reply {
        match self.issue_minted(gate, (record, count), now) {
            Ok(placeholders) => Reply::Minted(ticket, placeholders),
            Err(refusal) => Reply::MintRefused(ticket, refusal),
        }
    }

    fn issue_minted(
        &mut self,
        gate: GateId,
        (record, count): (RecordSeq, u32),
        now: Now,
    ) -> Result<Vec<String>, Refusal> {
        let row = self.gates.get(&gate).cloned();
        let row = row.ok_or_else(session_unknown)?;
        self.spend(Some(&row.session), 1, now)?;
        let session = self.sessions.get(&row.session);
        let session = session.ok_or_else(session_unknown)?;
        session.check_running(row.generation)?;
        // A gate may name only what its own session has open, with a credential.
        let credential = session.credential_of(record).cloned();
        let credential = credential.ok_or_else(undecidable)?;
        let wanted = usize::try_from(count).unwrap_or(usize::MAX);
        let room = MINTED_MAX.saturating_sub(session.minted.0.len());
        if wanted == 0 || wanted > room {
            let hint = "the session was given as many tokens as it may; begin another";
            let (reason, rule) = (Reason::LimitReached, "minted");
            return Err(refusal(reason, Layer::Session, rule, hint));
        }
        let mut made = Vec::with_capacity(wanted);
        for _ in 0..wanted {
            let mut random = [0; 16];
            self.entropy.fill(&mut random).map_err(|_| undecidable())?;
            made.push(Placeholder::new("", random));
        }
        let event = Event::CredentialMinted {
            decision: record,
            credential: credential.clone(),
            count,
        };
        let entry = now.entry(Some(row.session.clone()), event);
        let written = self.recorder.append(vec![(entry, ())], Durability::Written);
        written.map_err(|_| record_unavailable())?;
        let session = self.sessions.get_mut(&row.session);
        let session = session.ok_or_else(session_unknown)?;
        for placeholder in &made {
            let digest = placeholder.digest();
            session.issued.push(IssuedPlaceholder {
                digest,
                credential: credential.clone(),
            });
            session.minted.0.insert(digest, placeholder.clone());
        }
        Ok(made.iter().map(|p| p.as_str().to_owned()).collect())
    }

    /// The placeholder of the minted value that a permitted request uses instead of the credential.
    pub(crate) fn minted(&self, permit: &Permit, facts: &RequestFacts) -> Option<&Placeholder> {
        permit.injection()?;
        let minted = &self.sessions.get(permit.session())?.minted.0;
        let mut used = facts.presented.iter();
        used.find_map(|one| match one.location {
            // In a body a placeholder is inert.
            Location::Body => None,
            _ => minted.get(&one.digest),
        })
    }
}

/// Where a minted value goes: the place of the credential that made it, as a bearer token where
/// that is the `Authorization` header, or where the credential signs (RFC 6750 §2.1).
pub(crate) fn slot(of_credential: &Slot) -> Slot {
    let signs = matches!(of_credential, Slot::Hmac(_));
    if signs || of_credential.header_name() == Some("authorization") {
        Slot::Header {
            name: "authorization".to_owned(),
            scheme: Some("Bearer".to_owned()),
        }
    } else {
        of_credential.clone()
    }
}
