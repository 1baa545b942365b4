// SPDX-License-Identifier: Apache-2.0
//! Phase 11: how an allowed request ended. A guard tells it exactly once, also when the exchange
//! was cut or panicked.

use crate::connect::Upstream;
use crate::ports::Ask;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use torno_notary_protocol::gate::{End, Outcome};
use torno_policy::Refusal;
use torno_policy::names::RecordSeq;

/// What went out.
#[derive(Debug, Default)]
pub(crate) struct Sent {
    pub(crate) bytes: u64,
    pub(crate) carried: u32,
}

/// What came back.
#[derive(Debug, Default)]
pub(crate) struct Received {
    pub(crate) status: Option<u16>,
    /// Set once a byte of the answer went to the client: no refusal can be answered any more.
    pub(crate) started: Arc<AtomicBool>,
    pub(crate) bytes: u64,
    pub(crate) reflected: u32,
    /// Names of cookies that were kept.
    pub(crate) cookies: Vec<String>,
}

/// One allowed request's end, not yet told.
pub(crate) struct Reporter {
    pub(crate) ask: Arc<dyn Ask>,
    pub(crate) record: RecordSeq,
    end: Option<End>,
    pub(crate) sent: Sent,
    pub(crate) received: Received,
    address: Option<String>,
    resolved_by_proxy: bool,
}

impl Reporter {
    /// `started` is set for the client's connection as soon as an answer begins.
    pub(crate) fn new(ask: Arc<dyn Ask>, record: RecordSeq, started: &Arc<AtomicBool>) -> Self {
        let received = Received {
            started: Arc::clone(started),
            ..Received::default()
        };
        Self {
            ask,
            record,
            end: None,
            sent: Sent::default(),
            received,
            address: None,
            resolved_by_proxy: false,
        }
    }

    pub(crate) fn dialled(&mut self, upstream: &Upstream) {
        self.address = Some(upstream.address.clone());
        self.resolved_by_proxy = upstream.resolved_by_proxy;
    }

    pub(crate) fn completed(mut self, status: u16) {
        self.end = Some(End::Completed { status });
    }

    /// A connection that is no HTTP was carried to its end.
    pub(crate) fn carried(mut self) {
        self.end = Some(End::Carried);
    }

    pub(crate) fn refused(mut self, refusal: Refusal) {
        self.end = Some(End::Refused(refusal));
    }
}

impl Drop for Reporter {
    fn drop(&mut self) {
        let status = self.received.status;
        self.ask.report(Outcome {
            record: self.record,
            end: self.end.take().unwrap_or(End::Aborted { status }),
            sent_bytes: self.sent.bytes,
            received_bytes: self.received.bytes,
            reflected: self.received.reflected,
            carried: self.sent.carried,
            cookies: std::mem::take(&mut self.received.cookies),
            address: self.address.take(),
            resolved_by_proxy: self.resolved_by_proxy,
        });
    }
}
