// SPDX-License-Identifier: Apache-2.0
//! What gates and the dialer send. Whose gate it is was fixed when its socket was made (I3).

use crate::answer::Turn;
use crate::frames::{ToGate, pack};
use crate::notary::{Notary, Now};
use crate::refusals::{refusal, refused_event};
use crate::sessions::OpenRequest;
use torno_audit::{
    Durability, Entry, Event, List, RequestEnded, RequestRefused, TripwireSeen, request,
};
use torno_notary_protocol::dial::DialAlarm;
use torno_notary_protocol::gate::{End, GateMessage, Outcome, WireRefusal};
use torno_policy::decision::{Layer, Reason};
use torno_policy::facts::Location;
use torno_policy::names::{Generation, SessionId};
use torno_policy::tripwire::Wire;

/// A gate's socket, as the role's main numbers them; never used twice in one life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GateId(pub u64);

/// Whose gate it is.
#[derive(Debug, Clone)]
pub(crate) struct GateRow {
    pub(crate) session: SessionId,
    pub(crate) generation: Generation,
    /// The newest watch that it said it has taken up, or was given.
    pub(crate) watch: u64,
}

/// LIMIT: outcomes or refusals of one message; a frame of 128 KiB holds no more honest ones.
const REPORTS_MAX: usize = 1024;

impl Notary {
    /// A gate's socket was made for this session and generation.
    pub fn gate_joined(&mut self, gate: GateId, session: SessionId, generation: Generation) {
        self.gates.insert(
            gate,
            GateRow {
                session,
                generation,
                watch: 0,
            },
        );
    }

    /// The socket closed.
    pub fn gate_left(&mut self, gate: GateId) {
        self.gates.remove(&gate);
    }

    /// The gates of a session: whom an [`Effect`](crate::Effect) is for.
    #[must_use]
    pub fn gates_of(&self, session: &SessionId) -> Vec<GateId> {
        let all = self.gates.iter();
        all.filter_map(|(gate, row)| (row.session == *session).then_some(*gate))
            .collect()
    }

    /// Takes what gates sent and answers at once what releases no credential. What does is answered
    /// by [`Self::flushed`]: afterwards ask for [`Self::flush`].
    pub fn from_gates(&mut self, batch: Vec<(GateId, GateMessage)>, now: Now) -> Vec<ToGate> {
        let mut turns = Vec::new();
        let mut entries = Vec::new();
        let mut replies = Vec::new();
        for (gate, message) in batch {
            match message {
                GateMessage::Ask(questions) => {
                    turns.extend(
                        questions
                            .into_iter()
                            .map(|q| (gate, Turn::Question(Box::new(q)))),
                    );
                }
                GateMessage::Unlock { ticket, receipt } => {
                    turns.push((gate, Turn::Unlock(ticket, receipt)));
                }
                GateMessage::Report(outcomes) => self.report(gate, outcomes, now, &mut entries),
                GateMessage::Refused(refused) => self.refused(gate, refused, now, &mut entries),
                GateMessage::Mint {
                    ticket,
                    record,
                    count,
                } => replies.push((gate, self.mint(gate, (ticket, record, count), now))),
                // For whoever waits to be told that something is revoked: the role's main.
                GateMessage::Cut => {}
            }
        }
        self.note(entries);
        replies.extend(self.answer(turns, now));
        let mut frames = self.cuts();
        frames.extend(pack(replies));
        frames
    }

    /// A gate did what no honest one does (sent no message of the protocol, did not read its
    /// answers): recorded. The caller closes the socket.
    pub fn gate_alarm(&mut self, gate: GateId, reason: Reason, now: Now) {
        let refusal = refusal(reason, Layer::Wire, "gate", "the gate is cut off");
        let id = self.gates.get(&gate).map(|row| row.session.clone());
        self.note_one(id, refused_event(&refusal, ""), now);
    }

    /// The dialer was asked for what no honest gate asks: recorded.
    pub fn dial_alarm(&mut self, alarm: DialAlarm, now: Now) {
        let event = Event::DialAlarm {
            reason: alarm.reason,
        };
        self.note_one(Some(alarm.session), event, now);
    }

    fn report(
        &mut self,
        gate: GateId,
        outcomes: Vec<Outcome>,
        now: Now,
        entries: &mut Vec<(Entry, ())>,
    ) {
        let id = self.gates.get(&gate).map(|row| row.session.clone());
        for outcome in outcomes.into_iter().take(REPORTS_MAX) {
            let session = id.as_ref().and_then(|id| self.sessions.get_mut(id));
            let open = session.and_then(|session| session.ended(&outcome));
            if let (Some(id), Some(open)) = (&id, &open) {
                self.trip(id, &outcome, open, now);
            }
            let events = match open {
                Some(open) => ended_events(outcome, open.credential),
                None => vec![foreign_report()],
            };
            for event in events {
                if self.spend(id.as_ref(), 1, now).is_ok() {
                    entries.push((now.entry(id.clone(), event), ()));
                }
            }
        }
    }

    /// The gate found a tripwire in a body: the word of a gate freezes its own session alone.
    fn trip(&mut self, id: &SessionId, outcome: &Outcome, open: &OpenRequest, now: Now) {
        if let End::Refused(refusal) = &outcome.end
            && refusal.reason == Reason::Tripwire
            && let Some(wire) = Wire::of_rule(&refusal.rule)
        {
            let to = (&open.endpoint, &open.method);
            self.freeze(id, TripwireSeen::new(wire, &Location::Body, to), now);
        }
    }

    fn refused(
        &mut self,
        gate: GateId,
        refused: Vec<WireRefusal>,
        now: Now,
        entries: &mut Vec<(Entry, ())>,
    ) {
        let id = self.gates.get(&gate).map(|row| row.session.clone());
        for one in refused.into_iter().take(REPORTS_MAX) {
            if self.spend(id.as_ref(), 1, now).is_ok() {
                let event = Event::RequestRefused(Box::new(RequestRefused {
                    reason: one.refusal.reason,
                    layer: one.refusal.layer,
                    rule: (&one.refusal.rule).into(),
                    target: one.target.as_str().into(),
                    count: one.count,
                }));
                entries.push((now.entry(id.clone(), event), ()));
            }
        }
    }

    /// Writes facts that have happened already. When the record is broken nothing new is allowed
    /// either, so a failure here needs no second answer.
    pub(crate) fn note(&mut self, entries: Vec<(Entry, ())>) {
        if !entries.is_empty() {
            let _ = self.recorder.append(entries, Durability::Written);
        }
    }

    fn note_one(&mut self, id: Option<SessionId>, event: Event, now: Now) {
        if self.spend(id.as_ref(), 1, now).is_ok() {
            self.note(vec![(now.entry(id, event), ())]);
        }
    }
}

/// A report about a decision that this session does not have open.
fn foreign_report() -> Event {
    let hint = "a gate reported the end of a request that its session does not have";
    let refusal = refusal(Reason::SessionUnknown, Layer::Wire, "report", hint);
    refused_event(&refusal, "")
}

fn ended_events(
    outcome: Outcome,
    credential: Option<torno_policy::names::CredentialName>,
) -> Vec<Event> {
    let (how, status, reason) = match outcome.end {
        End::Completed { status } => (request::Outcome::Completed, Some(status), None),
        End::Carried => (request::Outcome::Completed, None, None),
        End::Refused(refusal) => (request::Outcome::Refused, None, Some(refusal.reason)),
        End::Aborted { status } => (request::Outcome::Aborted, status, None),
    };
    let mut events = vec![Event::RequestEnded(Box::new(RequestEnded {
        decision: outcome.record,
        outcome: how,
        status,
        reason,
        sent: outcome.sent_bytes,
        received: outcome.received_bytes,
        reflected: outcome.reflected,
        carried: outcome.carried,
        address: outcome.address.as_deref().map(Into::into),
        resolved_by_proxy: outcome.resolved_by_proxy,
    }))];
    let Some(credential) = credential else {
        return events;
    };
    if !outcome.cookies.is_empty() {
        let names = outcome.cookies.iter().map(|name| name.as_str().into());
        events.push(Event::CookiesKept {
            decision: outcome.record,
            credential: credential.clone(),
            names: List::new(names),
        });
    }
    if outcome.reflected > 0 {
        events.push(Event::CredentialReflected {
            decision: outcome.record,
            credential,
            count: outcome.reflected,
        });
    }
    events
}
