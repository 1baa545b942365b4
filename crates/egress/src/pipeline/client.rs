// SPDX-License-Identifier: Apache-2.0
//! The client's side of one connection: reads heads within their time, and answers refusals.

use crate::accept::Limits;
use crate::head::{Head, HeadScan};
use crate::identify::{Opening, not_http, opening};
use crate::normalize::Request;
use crate::refuse::{self, DRAIN_BYTES, DRAIN_WAIT, Fault, Form};
use crate::revoke::Live;
use crate::wire::{self, Duplex, ReadBuffer, Source, StreamError};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use torno_policy::facts::GitOperation;
use torno_policy::{Reason, Refusal};

/// A connection from the sandbox whose requests can be read.
pub(super) struct Client {
    pub(super) io: Box<dyn Duplex>,
    pub(super) buffer: ReadBuffer,
    pub(super) live: Arc<Live>,
    /// Set once a byte of the current request's answer was written.
    pub(super) started: Arc<AtomicBool>,
    /// How its refusals are told.
    pub(super) form: Form,
}

/// LIMIT: a refusal is a few hundred bytes; who does not take them reads nothing at all.
const ANSWER_WAIT: Duration = Duration::from_secs(20);

/// What follows an exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    Request,
    Close,
}

impl Client {
    /// Reads one head; `None` when the client is done.
    pub(super) async fn read_head(&mut self, limits: &Limits) -> Result<Option<Head>, Fault> {
        let mut scan = HeadScan::default();
        let mut source = Source {
            io: &mut self.io,
            buffer: &mut self.buffer,
            wait: limits.idle_wait,
        };
        if source.buffer.unread().is_empty() && source.more().await.is_err() {
            return Ok(None);
        }
        // One time for the whole head: a byte now and then does not stretch it.
        let reading = async {
            loop {
                // ATTACK: 070 – TLS inside TLS has no line end to wait for.
                let opened = opening(source.buffer.unread())?;
                if matches!(opened, Some(Opening::Tls | Opening::Postgres)) {
                    return Err(not_http());
                }
                if let Some(end) = scan.end(source.buffer.unread())? {
                    let head = source.buffer.unread().get(..end).unwrap_or_default();
                    let head = Head::parse(head)?;
                    source.buffer.consume(end);
                    return Ok(Some(head));
                }
                match source.more().await {
                    Ok(()) => {}
                    Err(StreamError::Gone) => return Ok(None),
                    Err(error) => {
                        let slow = Reason::MalformedRequest;
                        return Err(error.into_fault(slow, slow));
                    }
                }
            }
        };
        let slow = Fault::malformed("send the whole head at once");
        let read = tokio::time::timeout(limits.head_wait, reading).await;
        read.unwrap_or(Err(slow))
    }

    /// Writes a refusal's answer. ATTACK: 054 – a body that was not read is never read as a
    /// request.
    pub(super) async fn answer(&mut self, refusal: &Refusal, ends: (bool, bool)) -> Next {
        self.answer_as(self.form, refusal, ends).await
    }

    /// How this request's refusal is told: git's own where git asks before it fetches or pushes.
    pub(super) fn form_for(&self, request: &Request) -> Form {
        let operation = request.facts.git.as_ref().map(|git| &git.operation);
        match (self.form, operation) {
            (Form::Http, Some(GitOperation::DiscoverFetch | GitOperation::DiscoverPush)) => {
                Form::Git
            }
            (form, _) => form,
        }
    }

    /// The same in a form that this one request has.
    pub(super) async fn answer_as(
        &mut self,
        form: Form,
        refusal: &Refusal,
        (is_head, close): (bool, bool),
    ) -> Next {
        let bytes = refuse::answer(refusal, form, close, is_head);
        let written = wire::write_out(&mut self.io, &bytes, ANSWER_WAIT).await;
        if written.is_err() {
            return Next::Close;
        }
        if !close {
            return Next::Request;
        }
        self.drain().await;
        Next::Close
    }

    /// Ends a connection on which the client may still be sending.
    pub(super) async fn drain(&mut self) {
        let draining = async {
            if self.io.shutdown().await.is_err() {
                return;
            }
            let mut drained = 0;
            while drained < DRAIN_BYTES {
                let there = self.buffer.unread().len();
                self.buffer.consume(there);
                match self.buffer.fill(&mut self.io).await {
                    Ok(0) | Err(_) => return,
                    Ok(count) => drained += count,
                }
            }
        };
        // Late or not, the connection ends here.
        let _ = tokio::time::timeout(DRAIN_WAIT, draining).await;
    }
}
