// SPDX-License-Identifier: Apache-2.0
//! A session's permits that wait for a verified peer. Each is taken at most once, within the
//! receipt's time.

use crate::gates::GateId;
use crate::notary::{Notary, Now};
use crate::refusals::{receipt_invalid, session_unknown};
use std::collections::BTreeMap;
use torno_notary_protocol::receipt::{Receipt, VALID_MS};
use torno_policy::Refusal;
use torno_policy::decision::Permit;
use torno_policy::names::RecordSeq;

/// LIMIT: two seconds of 1,000 new credentialed connections a second, for one session; the oldest
/// go first, and no session can push out another's.
const WAITING_MAX: usize = 2_048;

struct Waiting {
    redeemable: Redeemable,
    issued_ms: u64,
}

/// What a receipt stands for.
pub(crate) struct Redeemable {
    pub(crate) permit: Permit,
    /// The gate has not taken up the session's newest watch.
    pub(crate) watches: bool,
    /// A minted value is used: nothing of the vault is put in.
    pub(crate) minted: bool,
}

/// Permits by the record of their decision.
#[derive(Default)]
pub(crate) struct Receipts(BTreeMap<RecordSeq, Waiting>);

impl Receipts {
    /// Keeps a permit until it is taken or too old.
    pub(crate) fn keep(&mut self, record: RecordSeq, redeemable: Redeemable, issued_ms: u64) {
        if self.0.len() >= WAITING_MAX {
            self.0.pop_first();
        }
        let waiting = Waiting {
            redeemable,
            issued_ms,
        };
        self.0.insert(record, waiting);
    }

    /// Takes it: a second try finds nothing.
    pub(crate) fn take(&mut self, record: RecordSeq) -> Option<Redeemable> {
        self.0.remove(&record).map(|waiting| waiting.redeemable)
    }

    /// Drops what can't be taken any more.
    pub(crate) fn expire(&mut self, now_ms: u64) {
        self.0
            .retain(|_, waiting| now_ms.saturating_sub(waiting.issued_ms) <= VALID_MS);
    }
}

impl Notary {
    /// What a receipt stands for, the decision's record and the endpoint; or why not.
    pub(crate) fn check_receipt(
        &mut self,
        gate: GateId,
        receipt: &Receipt,
        now: Now,
    ) -> Result<(Redeemable, RecordSeq, String), (Refusal, String)> {
        let bad = || (receipt_invalid(), String::new());
        let row = self.gates.get(&gate).cloned();
        let row = row.ok_or_else(|| (session_unknown(), String::new()))?;
        let claims = self.receipt_key.open(receipt, now.boot_ms);
        let claims = claims.map_err(|_| bad())?;
        let target = claims.endpoint.to_string();
        if (&claims.session, claims.generation) != (&row.session, row.generation) {
            return Err((receipt_invalid(), target));
        }
        let session = self.sessions.get_mut(&row.session);
        let session = session.ok_or_else(|| (session_unknown(), target.clone()))?;
        let taken = session.receipts.take(claims.record);
        let redeemable = taken.ok_or_else(|| (receipt_invalid(), target.clone()))?;
        session
            .check_running(row.generation)
            .map_err(|refusal| (refusal, target.clone()))?;
        Ok((redeemable, claims.record, target))
    }
}
