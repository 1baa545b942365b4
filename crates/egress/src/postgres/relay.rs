// SPDX-License-Identifier: Apache-2.0
//! A session that runs: messages of the client are judged and go on in their turn, those of the
//! far end are searched. No byte of either side passes unread.

use super::frame::{Frame, Lane, put};
use super::guard::{self, Said};
use super::outbox::{Far, Outbox};
use super::statement::{Class, Judged};
use super::turn::{Step, Turn};
use super::{Around, Asking, Ended, answers};
use crate::ports::Granted;
use crate::refuse::{Fault, When, cut, error_response};
use crate::report::Reporter;
use crate::wire::{PIECE_BYTES, StreamError};
use std::time::Duration;
use torno_policy::binding::Slot;
use torno_policy::postgres::{Access, Deed};
use torno_policy::{Reason, Refusal};

/// LIMIT: pools keep idle connections for minutes, and reports run for minutes; after an hour
/// without a message from either side nobody waits for one.
const QUIET_WAIT: Duration = Duration::from_secs(3600);

/// What both sides and the judgement need.
pub(super) struct Relay<'a> {
    pub(super) around: &'a Around<'a>,
    pub(super) asking: Asking<'a>,
    proved: &'a Granted,
    pub(super) client: Lane,
    far: Far,
    access: Access,
    guard: Option<Vec<u8>>,
    outbox: Outbox<'a>,
    turn: Turn,
    /// The state of the far end's transaction.
    status: u8,
    /// A message that waits for its turn.
    held: Option<Frame>,
    /// What the next error of the far end is told as.
    refused: Option<Refusal>,
    to_client: Vec<u8>,
    has_read: bool,
    has_written: bool,
}

/// Who said the next message.
enum Heard {
    Client(Option<Frame>),
    Far(Option<Frame>),
}

impl<'a> Relay<'a> {
    pub(super) fn new(
        (around, asking, proved): (&'a Around<'a>, Asking<'a>, &'a Granted),
        (client, far): (Lane, Far),
        (outbox, slot): (Outbox<'a>, &Slot),
    ) -> Self {
        let access = match slot {
            Slot::Postgres { access, .. } => *access,
            _ => Access::Read,
        };
        let guard = guard::message(slot);
        Self {
            around,
            asking,
            proved,
            client,
            far,
            access,
            turn: Turn::new(guard.is_some()),
            guard,
            outbox,
            status: b'I',
            held: None,
            refused: None,
            to_client: Vec::new(),
            has_read: false,
            has_written: false,
        }
    }

    /// Carries messages until either side is done or the connection is cut, whatever it waits for
    /// at that moment.
    pub(super) async fn run(&mut self, reporter: &mut Reporter) -> Result<(), Ended> {
        let live = self.around.live;
        let _relaying = live.relaying();
        let carried = tokio::select! {
            biased;
            () = live.until_goodbye() => Err(Ended::Gone),
            carried = self.carry(reporter) => carried,
        };
        match carried {
            Ok(()) | Err(Ended::Gone) if live.is_cut() => {
                // It ends either way; behind a message that was begun nothing is said.
                let _ = self.client.send(&cut()).await;
                Err(Ended::Gone)
            }
            carried => carried,
        }
    }

    async fn carry(&mut self, reporter: &mut Reporter) -> Result<(), Ended> {
        loop {
            match self.hear().await? {
                Heard::Client(None) | Heard::Far(None) => {
                    return Ok(());
                }
                Heard::Client(Some(frame)) => {
                    let mut next = Some(frame);
                    while let Some(frame) = next {
                        if self.client_said(frame, reporter).await? {
                            self.flush_far(reporter).await?;
                            return Ok(());
                        }
                        next = match self.held {
                            None => self.client.there()?,
                            Some(_) => None,
                        };
                    }
                }
                Heard::Far(Some(frame)) => {
                    let mut next = Some(frame);
                    while let Some(frame) = next {
                        self.far_said(&frame, reporter)?;
                        if self.to_client.len() >= PIECE_BYTES {
                            self.flush_client(reporter).await?;
                        }
                        next = self.far.there()?;
                    }
                }
            }
            if self.resume(reporter).await? {
                self.flush_far(reporter).await?;
                return Ok(());
            }
            self.flush_client(reporter).await?;
            self.flush_far(reporter).await?;
        }
    }

    async fn hear(&mut self) -> Result<Heard, Ended> {
        let may_read = self.held.is_none();
        let (client, far) = (&mut self.client, &mut self.far);
        let hearing = async {
            tokio::select! {
                frame = far.next() => Ok(Heard::Far(frame.map_err(broken)?)),
                frame = client.next(), if may_read => Ok(Heard::Client(frame?)),
            }
        };
        match tokio::time::timeout(QUIET_WAIT, hearing).await {
            Ok(heard) => heard,
            Err(_) => Err(StreamError::Late.into()),
        }
    }

    /// Takes the message that waited, when its turn has come. Gives whether the client is done.
    async fn resume(&mut self, reporter: &mut Reporter) -> Result<bool, Ended> {
        while let Some(frame) = self.held.take() {
            if self.client_said(frame, reporter).await? {
                return Ok(true);
            }
            if self.held.is_some() {
                return Ok(false);
            }
            // What came behind it is there already.
            self.held = self.client.there()?;
        }
        Ok(false)
    }

    /// One message of the client. Gives whether it was the last.
    async fn client_said(&mut self, frame: Frame, reporter: &mut Reporter) -> Result<bool, Ended> {
        let step = self.turn.step(&frame)?;
        let judged = match step {
            Step::Terminate => {
                self.outbox.put(&frame)?;
                return Ok(true);
            }
            Step::Hold => {
                self.held = Some(frame);
                return Ok(false);
            }
            Step::Drop => return Ok(false),
            Step::Refuse(fault) => {
                let refusal = self.record(&fault);
                self.refuse(&frame, refusal).await?;
                return Ok(false);
            }
            Step::Forward => None,
            Step::Judge(judged) => match self.judge(judged).await {
                Ok(()) => Some(judged),
                Err(refusal) => {
                    self.refuse(&frame, refusal).await?;
                    return Ok(false);
                }
            },
        };
        if self.turn.is_idle() && self.status == b'I' && frame.kind != b'S' {
            self.keep(reporter).await?;
        }
        self.turn.begin(&frame, judged)?;
        self.outbox.put(&frame)?;
        if self.outbox.len() >= PIECE_BYTES {
            self.flush_far(reporter).await?;
        }
        Ok(false)
    }

    /// Tells the server what this connection may, and waits until it is done.
    async fn keep(&mut self, reporter: &mut Reporter) -> Result<(), Ended> {
        let Some(guard) = &self.guard else {
            return Ok(());
        };
        self.outbox.put_own(guard)?;
        self.outbox.send(&mut self.far, reporter).await?;
        loop {
            let telling = tokio::time::timeout(self.around.limits.connect_wait, self.far.next());
            let frame = telling
                .await
                .map_err(|_| StreamError::Late)?
                .map_err(broken)?;
            let frame = frame.ok_or(Ended::Gone)?;
            match guard::said(&frame) {
                Said::Ready => return Ok(()),
                Said::Quiet => {}
                Said::Other => self.far_said(&frame, reporter)?,
                Said::Failed => {
                    return Err(Ended::from(Fault::answer(
                        "the far end did not take the binding's role, or that nothing is written",
                    )));
                }
            }
        }
    }

    /// What a statement needs beyond the yes to the connection.
    async fn judge(&mut self, judged: Judged) -> Result<(), Refusal> {
        let fault = |reason, hint| Err(Fault::new(reason, hint));
        let held = match judged.class {
            Class::Session => return Ok(()),
            Class::Read if self.has_read => return Ok(()),
            Class::Read => {
                self.asking
                    .ask(self.around, (Deed::Read, self.proved))
                    .await?;
                self.has_read = true;
                return Ok(());
            }
            Class::Write if self.has_written => return Ok(()),
            Class::Write => {
                self.asking
                    .ask(self.around, (Deed::Write, self.proved))
                    .await?;
                if self.access == Access::Read {
                    fault(
                        Reason::OperationNotGranted,
                        "this connection was opened to read: open a new one to write",
                    )
                } else {
                    self.has_written = true;
                    return Ok(());
                }
            }
            Class::Unclear => fault(
                Reason::OperationNotGranted,
                "say it in one way: U& strings and names, E strings in parts, numbers in other \
                 bases or with letters glued to them are read in two ways by versions or settings",
            ),
            Class::Held => fault(
                Reason::OperationNotGranted,
                "leave role, encoding and read-only defaults as they are: the binding and the gate \
                 hold them",
            ),
            Class::Authority => fault(
                Reason::BindingDenies,
                "leave logins, passwords, owners and rights: a change would outlive the session",
            ),
        };
        held.map_err(|fault: Fault| self.record(&fault))
    }

    fn record(&self, fault: &Fault) -> Refusal {
        self.around.refusals.record(fault, self.asking.target)
    }

    /// Tells the client no, in a way that leaves both sides in step.
    async fn refuse(&mut self, frame: &Frame, refusal: Refusal) -> Result<(), Ended> {
        if Turn::is_in_run(frame) {
            // In order: the far end fails at this place, and its error is told as ours.
            self.outbox.put_own(&guard::failing())?;
            self.refused = Some(refusal);
            self.turn.skip();
            return Ok(());
        }
        let told = error_response(&refusal, When::Statement);
        self.to_client.extend_from_slice(&told);
        put(b'Z', &[self.status], &mut self.to_client);
        Ok(())
    }

    /// One message of the far end.
    fn far_said(&mut self, frame: &Frame, reporter: &mut Reporter) -> Result<(), Ended> {
        self.outbox.draw().receive(HEAD_BYTES + frame.body.len())?;
        if !answers::is_known(frame) {
            return Err(answers::malformed().into());
        }
        match frame.kind {
            b'Z' => {
                self.turn.ready()?;
                self.status = answers::status(frame)?;
                if self.status == b'I' {
                    self.turn.transaction_over();
                }
                self.refused = None;
            }
            b'G' => self.turn.copy_in()?,
            b'S' => answers::check_setting(frame, self.access == Access::Read)?,
            b'E' => {
                self.turn.failed();
                if let Some(refusal) = self.refused.take() {
                    let told = error_response(&refusal, When::Statement);
                    self.to_client.extend_from_slice(&told);
                    return Ok(());
                }
            }
            _ => {}
        }
        let scrubber = self.around.released.scrubber();
        let hits = answers::put_scrubbed(frame, scrubber.as_ref(), &mut self.to_client)?;
        reporter.received.reflected = reporter.received.reflected.saturating_add(hits);
        Ok(())
    }

    async fn flush_far(&mut self, reporter: &mut Reporter) -> Result<(), Ended> {
        self.outbox.send(&mut self.far, reporter).await
    }

    async fn flush_client(&mut self, reporter: &mut Reporter) -> Result<(), Ended> {
        if !self.to_client.is_empty() {
            reporter.received.bytes += count(self.to_client.len());
            self.client.send(&self.to_client).await?;
            self.to_client.clear();
        }
        Ok(())
    }
}

/// Kind and length of a message.
const HEAD_BYTES: usize = 5;

/// What is wrong with the far end's stream is told as the far end's.
pub(super) fn broken(error: StreamError) -> Ended {
    match error {
        StreamError::Fault(_) => {
            Fault::answer("the far end's message is malformed or over 4 MiB: ask for less at once")
                .into()
        }
        StreamError::Gone | StreamError::Late => error.into(),
    }
}

fn count(bytes: usize) -> u64 {
    u64::try_from(bytes).unwrap_or(u64::MAX)
}
