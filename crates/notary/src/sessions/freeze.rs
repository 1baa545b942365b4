// SPDX-License-Identifier: Apache-2.0
//! A tripwire was on its way out: its session is frozen. In memory first, then in the record, then
//! at its gates; a failing disk keeps nobody going. It lives on, so that a person can look at what
//! runs in it, and may do nothing: no request, no unlock, no tool.

use crate::frames::ToGate;
use crate::notary::{Notary, Now};
use torno_audit::{Event, TripwireSeen};
use torno_notary_protocol::gate::NotaryMessage;
use torno_policy::names::SessionId;
use torno_policy::standing::State;

impl Notary {
    /// Freezes a session that runs. What it has under way is cut: see [`Self::cuts`].
    pub(crate) fn freeze(&mut self, id: &SessionId, seen: TripwireSeen, now: Now) {
        let Some(session) = self.sessions.get_mut(id) else {
            return;
        };
        // What a paused one had under way may tell of a tripwire yet; then no resume undoes that.
        if !matches!(session.standing.state, State::Running | State::Paused) {
            return;
        }
        session.standing.state = State::Frozen;
        session.receipts = crate::receipts::Receipts::default();
        let entry = now.entry(Some(id.clone()), Event::TripwireSeen(Box::new(seen)));
        // Whether or not it could be written: the session is frozen.
        let _ = self.recorder.append_final(vec![(entry, ())]);
        self.to_cut.push(id.clone());
    }

    /// What the gates of sessions that were frozen just now are told: to cut everything.
    pub(crate) fn cuts(&mut self) -> Vec<ToGate> {
        let frozen = std::mem::take(&mut self.to_cut);
        let gates = frozen.iter().flat_map(|id| self.gates_of(id));
        gates
            .map(|gate| ToGate {
                gate,
                message: NotaryMessage::Revoke { credential: None },
                credentials: Vec::new(),
            })
            .collect()
    }
}
