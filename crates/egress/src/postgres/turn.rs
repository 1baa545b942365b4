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
use super::names::{Names, fits};
use super::statement::{Class, Judged, judge};
use crate::refuse::Fault;
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

/// The state between two messages.
#[derive(Debug)]
pub(super) struct Turn {
    state: State,
    /// Messages of the extended protocol are under way: after a COPY a Sync is due, again if there
    /// was one.
    is_run: bool,
    /// Transactions are ended by themselves.
    is_strict: bool,
    /// Of those that end a transaction, where they are ended by themselves.
    statements: Names,
    portals: Names,
    /// Something of this run was bound, and may have been run by that.
    is_bound: bool,
    executed: usize,
    ended: bool,
    /// The far end said that something failed.
    failed: bool,
}

impl Turn {
    /// `is_strict` where the server must be told before each transaction what it may do.
    pub(super) fn new(is_strict: bool) -> Self {
        Self {
            state: State::Idle,
            is_run: false,
            is_strict,
            statements: Names::default(),
            portals: Names::default(),
            is_bound: false,
            executed: 0,
            ended: false,
            failed: false,
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
            (State::Idle | State::Run, b'B') => self.bind(frame),
            (State::Idle | State::Run, b'E') => self.execute(frame),
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

    /// The far end said that something failed.
    pub(super) fn failed(&mut self) {
        self.failed = true;
    }

    /// No transaction is open: portals end with theirs.
    pub(super) fn transaction_over(&mut self) {
        self.portals.clear();
    }

    /// The far end is ready for the next.
    pub(super) fn ready(&mut self) -> Result<(), Fault> {
        // CopyIn: the copy failed before the client had said all of it.
        if matches!(self.state, State::Idle | State::Run | State::Skipping) {
            return Err(out_of_turn());
        }
        self.state = State::Idle;
        self.is_run = false;
        let failed = std::mem::take(&mut self.failed);
        self.statements.run_over(failed);
        self.portals.run_over(failed);
        self.is_bound = false;
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
        let is_refused = judged.class >= Class::Unclear;
        if self.is_strict && judged.is_transaction && judged.count > 1 && !is_refused {
            return Ok(Step::Refuse(alone()));
        }
        Ok(Step::Judge(judged))
    }

    /// Name, statement, types of parameters.
    fn parse(&self, frame: &Frame) -> Result<Step, Fault> {
        let mut body = frame.body.as_ref();
        let name = text(&mut body)?;
        let judged = judge(text(&mut body)?);
        if !self.is_strict || judged.class >= Class::Unclear {
            return Ok(Step::Judge(judged));
        }
        if !fits(name) {
            return Ok(Step::Refuse(long_name()));
        }
        // What was bound before it may have changed how the server reads it.
        if judged.by_settings && self.is_bound {
            return Ok(Step::Refuse(Fault::new(
                Reason::OperationNotGranted,
                "send a statement that has a backslash in a string behind a Sync of its own: this \
                 connection may only read",
            )));
        }
        if judged.is_transaction && !self.statements.has_room(name) {
            return Ok(Step::Refuse(Fault::new(
                Reason::LimitReached,
                "prepare fewer statements that end a transaction",
            )));
        }
        Ok(Step::Judge(judged))
    }

    /// Portal and statement. What is bound is planned, and some functions are run by that.
    fn bind(&self, frame: &Frame) -> Result<Step, Fault> {
        let mut body = frame.body.as_ref();
        let (portal, statement) = (text(&mut body)?, text(&mut body)?);
        if !self.is_strict {
            Ok(Step::Forward)
        } else if !fits(portal) || !fits(statement) {
            Ok(Step::Refuse(long_name()))
        } else if self.ended {
            Ok(Step::Refuse(alone()))
        } else if self.statements.ends(statement) && !self.portals.has_room(portal) {
            // A driver closes its portals, or ends its transaction, long before.
            Err(malformed())
        } else {
            Ok(Step::Forward)
        }
    }

    fn execute(&self, frame: &Frame) -> Result<Step, Fault> {
        let portal = text(&mut frame.body.as_ref())?;
        if !self.is_strict {
            Ok(Step::Forward)
        } else if !fits(portal) {
            Ok(Step::Refuse(long_name()))
        } else if self.ended || (self.executed > 0 && self.portals.ends(portal)) {
            Ok(Step::Refuse(alone()))
        } else {
            Ok(Step::Forward)
        }
    }

    /// Keeps which names stand for statements that end a transaction.
    fn note(&mut self, frame: &Frame, judged: Option<Judged>) -> Result<(), Fault> {
        if !self.is_strict {
            return Ok(());
        }
        let mut body = frame.body.as_ref();
        match (frame.kind, judged) {
            (b'P', Some(judged)) => self
                .statements
                .give(text(&mut body)?, judged.is_transaction),
            (b'B', _) => {
                let portal = text(&mut body)?;
                let ends = self.statements.ends(text(&mut body)?);
                self.portals.give(portal, ends);
                self.is_bound = true;
            }
            (b'E', _) => {
                self.executed += 1;
                self.ended |= self.portals.ends(text(&mut body)?);
            }
            (b'C', _) => match body.split_first() {
                Some((b'S', mut name)) => self.statements.free(text(&mut name)?),
                Some((b'P', mut name)) => self.portals.free(text(&mut name)?),
                Some(_) | None => return Err(malformed()),
            },
            _ => {}
        }
        Ok(())
    }
}

fn alone() -> Fault {
    Fault::new(
        Reason::OperationNotGranted,
        "end transactions, and EXECUTE what was prepared, in messages of their own: this \
         connection may only read, and the server is told so before each",
    )
}

fn long_name() -> Fault {
    Fault::new(
        Reason::OperationNotGranted,
        "name prepared statements and portals with at most 63 bytes: PostgreSQL cuts longer names",
    )
}

fn out_of_turn() -> Fault {
    Fault::answer("the far end answered out of turn")
}

#[cfg(test)]
mod tests;
