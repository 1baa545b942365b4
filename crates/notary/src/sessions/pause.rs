// SPDX-License-Identifier: Apache-2.0
//! A person holds a session still, and lets it go on. While it is paused it may nothing: no
//! request, no unlock, no tool; what its gates had under way is cut.

use super::whole;
use crate::notary::{Effect, Notary, Now};
use crate::receipts::Receipts;
use crate::refusals::{refusal, session_unknown};
use torno_audit::Event;
use torno_notary_protocol::desk::CheckpointChange;
use torno_policy::decision::{Layer, Reason, Refusal};
use torno_policy::names::{RecordSeq, SessionId};
use torno_policy::standing::{Phase, State};

impl Notary {
    /// Pauses a session. In memory first and then in the record: a failing disk keeps nobody going,
    /// and is said. Nothing is written of one that is paused already.
    pub(crate) fn pause(
        &mut self,
        id: &SessionId,
        now: Now,
    ) -> (Result<Option<RecordSeq>, Refusal>, Vec<Effect>) {
        let Some(session) = self.sessions.get_mut(id) else {
            return (Err(session_unknown()), Vec::new());
        };
        match session.standing.state {
            State::Running if session.standing.phase == Phase::Locked => {
                session.standing.state = State::Paused;
            }
            State::Running => return (Err(still_installing()), Vec::new()),
            // It may nothing already, and must not forget why.
            State::Frozen => {}
            State::Paused => return (Ok(None), Vec::new()),
            State::Ended | State::Killed => return (Err(session_unknown()), Vec::new()),
        }
        session.receipts = Receipts::default();
        let entry = now.entry(Some(id.clone()), Event::SessionPaused);
        (self.record(entry).map(Some), vec![whole(id)])
    }

    /// Writes down what becomes of a checkpoint, before it is done. Of a session that was killed
    /// nothing is kept.
    pub(crate) fn checkpoint(
        &mut self,
        change: CheckpointChange,
        now: Now,
    ) -> Result<RecordSeq, Refusal> {
        let entry = match change {
            CheckpointChange::Keep {
                session,
                checkpoint,
                bytes,
            } => {
                let known = self.sessions.get(&session).ok_or_else(session_unknown)?;
                match known.standing.state {
                    State::Running | State::Paused | State::Frozen | State::Ended => {}
                    State::Killed => return Err(session_unknown()),
                }
                now.entry(
                    Some(session),
                    Event::SessionCheckpointed { checkpoint, bytes },
                )
            }
            CheckpointChange::Remove { checkpoint } => {
                now.entry(None, Event::CheckpointRemoved { checkpoint })
            }
        };
        self.record(entry)
    }

    /// Lets a paused session go on, once that is on disk.
    pub(crate) fn resume(
        &mut self,
        id: &SessionId,
        now: Now,
    ) -> Result<Option<RecordSeq>, Refusal> {
        let session = self.sessions.get(id).ok_or_else(session_unknown)?;
        match session.standing.state {
            State::Paused | State::Frozen => {}
            State::Running => return Ok(None),
            State::Ended | State::Killed => return Err(session_unknown()),
        }
        let entry = now.entry(Some(id.clone()), Event::SessionResumed);
        let record = self.record(entry)?;
        // One that a tripwire froze stays frozen: only a person's end is left to it.
        if let Some(session) = self.sessions.get_mut(id)
            && session.standing.state == State::Paused
        {
            session.standing.state = State::Running;
        }
        Ok(Some(record))
    }
}

fn still_installing() -> Refusal {
    let hint = "the session is in its install phase; wait for its end, or kill it";
    refusal(Reason::PhaseNotGranted, Layer::Standing, "standing", hint)
}
