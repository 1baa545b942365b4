// SPDX-License-Identifier: Apache-2.0
//! Phase 1: what one session may hold at once. Every bound of the pipeline that an operator or a
//! grant could want to change stands here; bounds of a format stand beside their parser.

use crate::refuse::Fault;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;
use torno_policy::Reason;

/// What one session may use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Connections from the sandbox that are served at once. One more is dropped and recorded.
    pub connections_max: usize,
    /// From a connection's first byte to the end of a TLS handshake, and from a request's first
    /// byte to the end of its head: a slow head holds a connection no longer than this.
    pub head_wait: Duration,
    /// Between two requests on one connection.
    pub idle_wait: Duration,
    /// Between two reads or writes of a body, either way.
    pub body_wait: Duration,
    /// From the last byte of a request to the head of its answer; models think for minutes.
    pub answer_wait: Duration,
    /// To connect and to verify the far end.
    pub connect_wait: Duration,
    /// Bytes that the session may send out in all: heads and bodies.
    pub egress_bytes_max: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            // LIMIT: a browser-like client opens six to a host; 512 is dozens of such clients.
            connections_max: 512,
            // LIMIT: 20 s is above any honest client's pause inside a head.
            head_wait: Duration::from_secs(20),
            // LIMIT: common servers close an idle connection after 60 to 75 s.
            idle_wait: Duration::from_secs(75),
            // LIMIT: server-sent events ping at least every minute or two.
            body_wait: Duration::from_secs(300),
            // LIMIT: ten minutes, the longest default time-out of model clients.
            answer_wait: Duration::from_secs(600),
            // LIMIT: ten seconds covers three lost SYN packets.
            connect_wait: Duration::from_secs(10),
            // LIMIT: 1 GiB, the default of `limits.egress` in a policy file.
            egress_bytes_max: 1 << 30,
        }
    }
}

/// Counts what a session uses.
#[derive(Debug)]
pub(crate) struct Usage {
    connections: AtomicUsize,
    connections_max: usize,
    egress_left: AtomicU64,
}

impl Usage {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            connections: AtomicUsize::new(0),
            connections_max: limits.connections_max,
            egress_left: AtomicU64::new(limits.egress_bytes_max),
        }
    }

    /// A place for one connection, given back when the result is dropped.
    pub(crate) fn admit(self: &Arc<Self>) -> Result<Admitted, Fault> {
        let taken = self.connections.fetch_add(1, Ordering::Relaxed);
        let admitted = Admitted(Arc::clone(self));
        if taken < self.connections_max {
            Ok(admitted)
        } else {
            Err(Fault::new(
                Reason::LimitReached,
                "close connections before opening more: the session holds as many as it may",
            ))
        }
    }

    /// Takes bytes from the session's egress budget; nothing is taken when they don't fit.
    pub(crate) fn spend(&self, bytes: usize) -> Result<(), Fault> {
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        let take = |left: u64| left.checked_sub(bytes);
        self.egress_left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, take)
            .map(|_| ())
            .map_err(|_| {
                Fault::new(
                    Reason::LimitReached,
                    "the session's egress budget is spent: nothing more can be sent from it",
                )
            })
    }
}

/// One connection's place.
#[derive(Debug)]
pub(crate) struct Admitted(Arc<Usage>);

impl Drop for Admitted {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_given_back_and_the_budget_is_never_overdrawn() {
        let limits = Limits {
            connections_max: 1,
            egress_bytes_max: 10,
            ..Limits::default()
        };
        let usage = Arc::new(Usage::new(&limits));
        let first = usage.admit().unwrap();
        assert_eq!(usage.admit().unwrap_err().reason, Reason::LimitReached);
        drop(first);
        assert!(usage.admit().is_ok());
        assert!(usage.spend(11).is_err());
        assert!(usage.spend(10).is_ok());
        assert!(usage.spend(1).is_err());
    }
}
