// SPDX-License-Identifier: Apache-2.0
//! The one way to a far end: what waits here was searched for tripwires and counted in the
//! session's budget, and nothing goes on once the connection was cut.

use super::frame::{Frame, Lane, put};
use super::relay::broken;
use super::startup::Startup;
use super::{Around, Ended};
use crate::accept::Draw;
use crate::normalize::BodySearch;
use crate::report::Reporter;
use crate::revoke::Live;
use crate::wire::{Duplex, StreamError};
use std::time::Duration;

/// What waits to be sent.
pub(super) struct Outbox<'a> {
    /// Over all that the client says, its start first, whatever messages it is cut into.
    search: BodySearch<'a>,
    draw: &'a Draw,
    live: &'a Live,
    waiting: Vec<u8>,
}

/// The far end's side of a connection. It is written to from an [`Outbox`] alone.
pub(super) struct Far(Lane);

impl<'a> Outbox<'a> {
    pub(super) fn new(around: &Around<'a>, draw: &'a Draw) -> Self {
        Self {
            search: around.tripwires.of_body(false),
            draw,
            live: around.live,
            waiting: Vec::new(),
        }
    }

    /// The start of the connection, of which the client chose some.
    pub(super) fn put_start(
        &mut self,
        startup: &Startup,
        ours: &[(&'static str, String)],
    ) -> Result<(), Ended> {
        let packet = startup.packet(ours);
        self.search.pass(&packet)?;
        self.put_own(&packet)
    }

    /// A message of the client's.
    pub(super) fn put(&mut self, frame: &Frame) -> Result<(), Ended> {
        self.search.pass(&frame.body)?;
        let mut message = Vec::with_capacity(frame.body.len().saturating_add(5));
        put(frame.kind, &frame.body, &mut message);
        self.put_own(&message)
    }

    /// A message of the gate's own making. It parts nothing that the client says in two.
    pub(super) fn put_own(&mut self, message: &[u8]) -> Result<(), Ended> {
        self.draw.send(message.len())?;
        self.waiting.extend_from_slice(message);
        Ok(())
    }

    /// What it is counted in.
    pub(super) fn draw(&self) -> &Draw {
        self.draw
    }

    /// How much waits.
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Sends what waits.
    pub(super) async fn send(
        &mut self,
        far: &mut Far,
        reporter: &mut Reporter,
    ) -> Result<(), Ended> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        if self.live.is_cut() {
            return Err(Ended::Gone);
        }
        let bytes = u64::try_from(self.waiting.len()).unwrap_or(u64::MAX);
        reporter.sent.bytes += bytes;
        far.0.send(&self.waiting).await.map_err(broken)?;
        self.waiting.clear();
        Ok(())
    }
}

impl Far {
    pub(super) fn new(io: Box<dyn Duplex>, body_max: usize, wait: Duration) -> Self {
        Self(Lane::new(io, &[], body_max, wait))
    }

    /// A message that is there already.
    pub(super) fn there(&mut self) -> Result<Option<Frame>, StreamError> {
        self.0.there()
    }

    /// The next message; nothing when the stream is over. Dropping the future loses no byte.
    pub(super) async fn next(&mut self) -> Result<Option<Frame>, StreamError> {
        self.0.next().await
    }

    pub(super) async fn close(&mut self, wait: Duration) {
        self.0.close(wait).await;
    }
}
