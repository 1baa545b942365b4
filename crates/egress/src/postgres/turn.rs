// SPDX-License-Identifier: Apache-2.0
//! Whose turn it is: which of the client's messages may go on now. One query, or one run of
//! messages up to its Sync, is under way at a time, so that what the server is told before each
//! (`guard.rs`) holds for it.
//!
//! ```text
//!          Query ────────────────▶ Waiting ──── CopyInResponse ───▶ CopyIn
//!  Idle ◀── ReadyForQuery ─────────┘ ▲ ▲ └───── CopyDone/Fail ───────┘ (back to where Sync is due)
//!   └────── Parse, Bind … ──▶ Run ─ Sync│
//!                              └─ refused ▶ Skipping ── Sync ─▶ (Waiting)
//! ```
//!
//! The client owns the transitions to the right, the far end those to the left.

use super::frame::{Frame, malformed, text};
use super::statement::{Judged, judge};
use crate::refuse::Fault;
use std::collections::HashSet;
use torno_policy::Reason;

/// What happens with a message of the client.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// It goes on.
    Forward,
    /// It carries a statement that is judged first; then [`Turn::begin`].
    Judge(Judged),
    /// It waits until the far end has answered.
    Hold,
    /// It says nothing now.
    Drop,
    /// The client is done.
    Terminate,
    /// It is refused, and the connection goes on.
    Refuse(Fault),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Idle,
    Run,
    Skipping,
    Waiting,
    CopyIn,
}

/// LIMIT: statements that begin or end a transaction and were prepared; drivers keep a few.
const PREPARED_MAX: usize = 64;

/// The state between two messages.
#[derive(Debug)]
pub(super) struct Turn {
    state: State,
    /// Messages of the extended protocol are under way: after a COPY a Sync is due, again if there
    /// was one.
    is_run: bool,
    /// Transactions are begun and ended by themselves.
    is_strict: bool,
    /// Prepared statements, and portals of them, that begin or end a transaction.
    statements: HashSet<Vec<u8>>,
    portals: HashSet<Vec<u8>>,
    executed: usize,
    ended: bool,
}

impl Turn {
    /// `is_strict` where the server must be told before each transaction what it may do.
    pub(super) fn new(is_strict: bool) -> Self {
        Self {
            state: State::Idle,
            is_run: false,
            is_strict,
            statements: HashSet::new(),
            portals: HashSet::new(),
            executed: 0,
            ended: false,
        }
    }

    /// Whether nothing is under way.
    pub(super) fn is_idle(&self) -> bool {
        self.state == State::Idle
    }

    /// Whether a refusal must be told within a run of messages.
    pub(super) fn is_in_run(frame: &Frame) -> bool {
        matches!(frame.kind, b'P' | b'B' | b'D' | b'E' | b'C' | b'H')
    }

    /// What happens with this message now.
    pub(super) fn step(&self, frame: &Frame) -> Result<Step, Fault> {
        let kind = frame.kind;
        match (self.state, kind) {
            (_, b'X') => Ok(Step::Terminate),
            (State::CopyIn, b'd' | b'c' | b'f') => Ok(Step::Forward),
            // PostgreSQL ignores these two while it copies.
            (State::CopyIn, b'S' | b'H') => Ok(Step::Drop),
            (State::Waiting, _) => Ok(Step::Hold),
            (State::Skipping, b'S') => Ok(Step::Forward),
            (State::Skipping, _) | (State::Idle, b'd' | b'c' | b'f') => Ok(Step::Drop),
            (State::Run, b'd' | b'c' | b'f') => Ok(Step::Hold),
            (State::Idle | State::Run, b'S') => Ok(Step::Forward),
            (State::Idle, b'Q') => self.query(frame),
            (State::Idle | State::Run, b'P') => self.parse(frame),
            (State::Idle | State::Run, b'B' | b'E') => self.execute(frame),
            (State::Idle | State::Run, b'D' | b'C' | b'H') => Ok(Step::Forward),
            (State::Idle, b'F') => Ok(Step::Refuse(Fault::new(
                Reason::OperationNotGranted,
                "call functions in a statement: the message for it is not let through",
            ))),
            (State::Idle | State::Run | State::CopyIn, _) => Err(malformed()),
        }
    }

    /// The message goes on.
    pub(super) fn begin(&mut self, frame: &Frame, judged: Option<Judged>) -> Result<(), Fault> {
        match frame.kind {
            b'Q' | b'S' => self.state = State::Waiting,
            b'c' | b'f' => {
                let due = if self.is_run {
                    State::Run
                } else {
                    State::Waiting
                };
                self.state = due;
            }
            b'd' => {}
            _ => {
                self.state = State::Run;
                self.is_run = true;
                self.note(frame, judged)?;
            }
        }
        Ok(())
    }

    /// A message was refused within a run: the rest of it is not looked at.
    pub(super) fn skip(&mut self) {
        self.state = State::Skipping;
        self.is_run = true;
    }

    /// The far end takes data of a COPY.
    pub(super) fn copy_in(&mut self) -> Result<(), Fault> {
        match self.state {
            State::Run | State::Waiting => {
                self.state = State::CopyIn;
                Ok(())
            }
            State::Idle | State::Skipping | State::CopyIn => Err(out_of_turn()),
        }
    }

    /// The far end is ready for the next.
    pub(super) fn ready(&mut self) -> Result<(), Fault> {
        // CopyIn: the copy failed before the client had said all of it.
        if matches!(self.state, State::Idle | State::Run | State::Skipping) {
            return Err(out_of_turn());
        }
        self.state = State::Idle;
        self.is_run = false;
        self.portals.clear();
        self.executed = 0;
        self.ended = false;
        Ok(())
    }

    fn query(&self, frame: &Frame) -> Result<Step, Fault> {
        let mut body = frame.body.as_ref();
        let statement = text(&mut body)?;
        if !body.is_empty() {
            return Err(malformed());
        }
        let judged = judge(statement);
        if self.is_strict && judged.is_transaction && judged.count > 1 {
            return Ok(Step::Refuse(alone()));
        }
        Ok(Step::Judge(judged))
    }

    /// Name, statement, types of parameters.
    fn parse(&self, frame: &Frame) -> Result<Step, Fault> {
        let mut body = frame.body.as_ref();
        let name = text(&mut body)?;
        let judged = judge(text(&mut body)?);
        let is_new = judged.is_transaction && !self.statements.contains(name);
        if self.is_strict && is_new && self.statements.len() >= PREPARED_MAX {
            return Ok(Step::Refuse(Fault::new(
                Reason::LimitReached,
                "prepare fewer statements that begin or end a transaction",
            )));
        }
        Ok(Step::Judge(judged))
    }

    fn execute(&self, frame: &Frame) -> Result<Step, Fault> {
        let mut body = frame.body.as_ref();
        let portal = text(&mut body)?;
        let is_alone = frame.kind == b'B' || !self.is_strict || {
            let ends = self.portals.contains(portal);
            !(self.ended || ends && self.executed > 0)
        };
        if is_alone {
            Ok(Step::Forward)
        } else {
            Ok(Step::Refuse(alone()))
        }
    }

    /// Keeps which names stand for statements that begin or end a transaction.
    fn note(&mut self, frame: &Frame, judged: Option<Judged>) -> Result<(), Fault> {
        let mut body = frame.body.as_ref();
        match (frame.kind, judged) {
            (b'P', Some(judged)) => {
                let name = text(&mut body)?;
                self.statements.remove(name);
                if judged.is_transaction && self.is_strict {
                    self.statements.insert(name.to_vec());
                }
            }
            (b'B', _) => {
                let portal = text(&mut body)?;
                self.portals.remove(portal);
                if self.statements.contains(text(&mut body)?) {
                    self.portals.insert(portal.to_vec());
                }
                // LIMIT: one Sync is due long before.
                if self.portals.len() > PREPARED_MAX {
                    return Err(malformed());
                }
            }
            (b'E', _) => {
                self.executed += 1;
                self.ended |= self.portals.contains(text(&mut body)?);
            }
            _ => {}
        }
        Ok(())
    }
}

fn alone() -> Fault {
    Fault::new(
        Reason::OperationNotGranted,
        "begin and end transactions in messages of their own: this connection may only read, and \
         the server is told so before each",
    )
}

fn out_of_turn() -> Fault {
    Fault::answer("the far end answered out of turn")
}

#[cfg(test)]
mod tests;
