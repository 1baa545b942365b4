// SPDX-License-Identifier: Apache-2.0
//! Phase 1: what one session may hold at once. Every bound of the pipeline that an operator or a
//! grant could want to change stands here; bounds of a format stand beside their parser.

mod budget;

pub(crate) use budget::Draw;

use crate::refuse::Fault;
use budget::{Hosts, Left};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
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
    /// Bytes that it may take in, in all: heads and bodies of answers.
    pub ingress_bytes_max: u64,
    /// What it may use at each host alike.
    pub each_host: HostLimits,
}

/// What one session may use at one host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostLimits {
    /// Bytes that go there.
    pub egress_bytes_max: u64,
    /// Bytes that come from there.
    pub ingress_bytes_max: u64,
    /// Requests that are open at once, a WebSocket and a session of a database among them.
    pub streams_max: usize,
}

impl Default for HostLimits {
    fn default() -> Self {
        Self {
            // LIMIT: what the whole session may have, where a policy file says nothing.
            egress_bytes_max: 1 << 30,
            ingress_bytes_max: 64 << 30,
            streams_max: 512,
        }
    }
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
            // LIMIT: 64 GiB, the default of `limits.ingress`.
            ingress_bytes_max: 64 << 30,
            each_host: HostLimits::default(),
        }
    }
}

/// Counts what a session uses.
#[derive(Debug)]
pub(crate) struct Usage {
    connections: AtomicUsize,
    connections_max: usize,
    egress: Left,
    ingress: Left,
    hosts: Hosts,
}

impl Usage {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            connections: AtomicUsize::new(0),
            connections_max: limits.connections_max,
            egress: Left::new(limits.egress_bytes_max),
            ingress: Left::new(limits.ingress_bytes_max),
            hosts: Hosts::new(&limits.each_host),
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
            )
            .by("limits.streams"))
        }
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
    fn a_place_is_given_back() {
        let limits = Limits {
            connections_max: 1,
            ..Limits::default()
        };
        let usage = Arc::new(Usage::new(&limits));
        let first = usage.admit().unwrap();
        assert_eq!(usage.admit().unwrap_err().reason, Reason::LimitReached);
        drop(first);
        assert!(usage.admit().is_ok());
    }
}
