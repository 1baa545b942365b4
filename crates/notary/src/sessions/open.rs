// SPDX-License-Identifier: Apache-2.0
//! Requests of a session that are under way: allowed, and their end not yet reported.

use super::Session;
use torno_notary_protocol::gate::{End, Outcome};
use torno_policy::decision::Permit;
use torno_policy::facts::RequestFacts;
use torno_policy::names::{CredentialName, Endpoint, Method, RecordSeq, Scheme};
use torno_policy::postgres::Deed;

/// An allowed request whose end was not reported yet: what it uses, and where it goes.
pub(crate) struct OpenRequest {
    pub(crate) credential: Option<CredentialName>,
    pub(crate) endpoint: Endpoint,
    pub(crate) method: Method,
}

impl OpenRequest {
    /// Whether it may change something at the far end.
    fn writes(&self) -> bool {
        match self.endpoint.scheme {
            Scheme::Postgres => self.method == Deed::Write.method(),
            Scheme::Http | Scheme::Https => {
                !matches!(self.method.as_str(), "GET" | "HEAD" | "OPTIONS")
            }
        }
    }
}

/// LIMIT: more requests than a gate has connections for; the oldest go first, and their report is
/// then taken for a foreign one.
const OPEN_MAX: usize = 8_192;

impl Session {
    /// A request was allowed.
    pub(crate) fn opened(&mut self, record: RecordSeq, permit: &Permit, facts: &RequestFacts) {
        if self.open.len() >= OPEN_MAX {
            self.open.pop_first();
        }
        let open = OpenRequest {
            credential: permit.credential().cloned(),
            endpoint: facts.endpoint.clone(),
            method: facts.method.clone(),
        };
        self.open.insert(record, open);
    }

    /// A request ended. `None` when no such request is open.
    pub(crate) fn ended(&mut self, outcome: &Outcome) -> Option<OpenRequest> {
        let open = self.open.remove(&outcome.record)?;
        let succeeded = match outcome.end {
            End::Completed { status } => status < 400,
            End::Carried => true,
            End::Refused(_) | End::Aborted { .. } => false,
        };
        if succeeded && open.writes() && open.credential.is_some() {
            self.credentialed_writes += 1;
        }
        Some(open)
    }
}
