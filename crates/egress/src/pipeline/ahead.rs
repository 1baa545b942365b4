// SPDX-License-Identifier: Apache-2.0
//! What of a body is part of the question is read before it is asked: the commands of a push,
//! whose place alone tells that they are there, and whatever the notary asks for because a rule of
//! the session judges what is said at this place. So is a body whose digest a signature has to
//! name, and one that may hold the placeholder of a refresh token which this place made. What was
//! read leaves as it came, but for what is put into it.

use super::{Client, Pipeline};
use crate::ask::ask;
use crate::connect::Upstream;
use crate::forward::{Stop, Upload, go_on};
use crate::normalize::{Reading, Request};
use crate::ports::{Answered, Granted};
use crate::refuse::Fault;
use crate::revoke::Epoch;
use crate::wire::{Source, StreamError};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit};
use tokio::time::Instant;
use torno_policy::names::RuleName;
use torno_policy::{Layer, Reason, Refusal};

/// A yes, and what it came with.
pub(super) struct Asked<'p> {
    pub(super) epoch: Epoch,
    pub(super) granted: Granted,
    pub(super) idle: Option<Upstream>,
    /// For the connection that has to be made.
    pub(super) place: Option<SemaphorePermit<'p>>,
    /// The yes is no younger.
    pub(super) asked: Instant,
}

impl Pipeline {
    /// The commands of a push, a body that was signed and not hashed, or one that may refresh a
    /// token of this place.
    pub(super) async fn read_first(
        &self,
        client: &mut Client,
        request: &mut Request,
    ) -> Result<Upload, Fault> {
        let mut upload = Upload::new(request.framing);
        if request.is_push() {
            let mut reading = request.reading_push()?;
            self.read_ahead(client, request, &mut upload, &mut reading)
                .await?;
        } else if request.has_unread_payload() {
            self.read_ahead(client, request, &mut upload, &mut Reading::Payload)
                .await?;
        } else if self.may_refresh(request) {
            self.read_ahead(client, request, &mut upload, &mut Reading::Refresh)
                .await?;
        }
        Ok(upload)
    }

    fn may_refresh(&self, request: &Request) -> bool {
        let (endpoint, path) = (&request.facts.endpoint, request.facts.path.path());
        self.released.has_refreshed_at(endpoint, path) && request.may_refresh()
    }

    /// Asks, and again with what the notary wants read: content, or the slot of a body. Meanwhile
    /// the connection at hand is anybody's: a client may take long to send its body.
    pub(super) async fn asked(
        &self,
        client: &mut Client,
        request: &mut Request,
        upload: &mut Upload,
        mut idle: Option<Upstream>,
    ) -> Result<Asked<'_>, Stop> {
        loop {
            let place = match &idle {
                Some(_) => None,
                None => Some(self.place_to_connect(request).await?),
            };
            let epoch = self.revocations.epoch();
            let asked = Instant::now();
            let unread = match ask(&self.ports, request, self.at_hand(idle.as_ref())).await {
                Ok(Answered::Granted(granted)) => {
                    return Ok(Asked {
                        epoch,
                        granted,
                        idle,
                        place,
                        asked,
                    });
                }
                Ok(Answered::Read(unread)) => unread,
                Err(refusal) => {
                    // The connection in hand is as good as before.
                    idle.into_iter().for_each(|idle| self.pool.put(idle));
                    return Err(refusal.into());
                }
            };
            idle.into_iter().for_each(|idle| self.pool.put(idle));
            // Reading may take long, and another may connect meanwhile.
            drop(place);
            // INVARIANT: each question has what the one before wanted, and nothing is wanted twice.
            if request.has_read(&unread) {
                return Err(asked_twice().into());
            }
            let mut reading = Reading::Whole(unread);
            let read = self.read_ahead(client, request, upload, &mut reading);
            let read = read.await;
            read.map_err(|fault| {
                let target = format!("{} {}", request.facts.endpoint, request.facts.path.path());
                self.refusals.record(&fault, &target)
            })?;
            idle = self.pool.take(&request.facts.endpoint, request.protocol);
        }
    }

    /// Reads on until the request has what is read for, or refuses.
    async fn read_ahead(
        &self,
        client: &mut Client,
        request: &mut Request,
        upload: &mut Upload,
        reading: &mut Reading,
    ) -> Result<(), Fault> {
        let stopped = Reason::MalformedRequest;
        if !request.begin(reading)? {
            return request.take(reading, &[], true).map(drop);
        }
        if request.expects_continue && client.buffer.unread().is_empty() {
            let told = go_on(&mut client.io).await;
            told.map_err(|_| StreamError::Gone.into_fault(stopped, stopped))?;
            request.expects_continue = false;
        }
        let mut source = Source {
            io: &mut client.io,
            buffer: &mut client.buffer,
            wait: self.limits.head_wait,
        };
        if upload.room.is_none() {
            upload.room = Some(room(&self.ahead).await?);
        }
        let reading = async {
            loop {
                let more = upload.read_ahead(&mut source).await;
                let more = more.map_err(|error| error.into_fault(stopped, stopped))?;
                if request.take(reading, &upload.ahead, !more)? {
                    return Ok(());
                }
                // Pieces that are here already are no waits: others, and the clock, have a turn.
                tokio::task::consume_budget().await;
            }
        };
        let slow = Fault::malformed("send at once what a rule reads before it judges");
        let read = tokio::time::timeout(AHEAD_WAIT, reading).await;
        read.unwrap_or(Err(slow))
    }
}

/// The right to hold a body, or a message, whole.
pub(crate) async fn room(ahead: &Arc<Semaphore>) -> Result<OwnedSemaphorePermit, Fault> {
    let room = Arc::clone(ahead).acquire_owned();
    let room = tokio::time::timeout(AHEAD_WAIT, room).await;
    room.ok().and_then(Result::ok).ok_or_else(|| {
        let hint = "too many bodies of this session are judged at once: try again";
        Fault::new(Reason::LimitReached, hint)
    })
}

/// LIMIT: one time for all that is read ahead: a byte now and then does not stretch it.
const AHEAD_WAIT: Duration = Duration::from_secs(60);
/// LIMIT: bodies of a session that are held at once, of 1 MiB at most each; others wait.
pub(super) const AHEAD_MAX: usize = 32;

fn asked_twice() -> Refusal {
    Refusal {
        reason: Reason::Undecidable,
        layer: Layer::Wire,
        rule: RuleName::new("egress.ask"),
        hint: "what it says was read and could not be judged: let one rule name this place"
            .to_owned(),
    }
}
