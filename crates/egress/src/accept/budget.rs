// SPDX-License-Identifier: Apache-2.0
//! What one request draws on: what its session may send, take in and hold open, and what its host
//! may. Bytes are counted as they come, before they go on, so a stream stops in its midst.

use super::{HostLimits, Usage};
use crate::refuse::Fault;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use torno_policy::Reason;
use torno_policy::names::Host;

/// LIMIT: hosts that are counted one by one; a session that reaches more by a wildcard shares one
/// host's budget among the rest.
const HOSTS_MAX: usize = 1024;

/// The budgets of a session's hosts.
#[derive(Debug)]
pub(super) struct Hosts {
    limits: HostLimits,
    known: Mutex<HashMap<Host, Arc<HostUsage>>>,
    rest: Arc<HostUsage>,
}

impl Hosts {
    pub(super) fn new(limits: &HostLimits) -> Self {
        Self {
            limits: limits.clone(),
            known: Mutex::default(),
            rest: Arc::new(HostUsage::new(limits)),
        }
    }

    fn of(&self, host: &Host) -> Arc<HostUsage> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(usage) = known.get(host) {
            return Arc::clone(usage);
        }
        if known.len() >= HOSTS_MAX {
            return Arc::clone(&self.rest);
        }
        let usage = Arc::new(HostUsage::new(&self.limits));
        known.insert(host.clone(), Arc::clone(&usage));
        usage
    }
}

/// What is left of one host's.
#[derive(Debug)]
struct HostUsage {
    egress: Left,
    ingress: Left,
    streams: AtomicUsize,
    streams_max: usize,
}

impl HostUsage {
    fn new(limits: &HostLimits) -> Self {
        Self {
            egress: Left::new(limits.egress_bytes_max),
            ingress: Left::new(limits.ingress_bytes_max),
            streams: AtomicUsize::new(0),
            streams_max: limits.streams_max,
        }
    }
}

/// Bytes that are left of a budget.
#[derive(Debug)]
pub(super) struct Left(AtomicU64);

impl Left {
    pub(super) fn new(bytes: u64) -> Self {
        Self(AtomicU64::new(bytes))
    }

    /// Takes bytes; nothing is taken when they don't fit.
    fn take(&self, bytes: usize) -> bool {
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        let take = |left: u64| left.checked_sub(bytes);
        let taken = self
            .0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
        taken.is_ok()
    }
}

/// One open request's hold on both budgets; its place is given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Draw {
    session: Arc<Usage>,
    host: Arc<HostUsage>,
}

impl Draw {
    /// Bytes that are about to leave.
    pub(crate) fn send(&self, bytes: usize) -> Result<(), Fault> {
        if !self.host.egress.take(bytes) {
            return Err(spent(
                "limits.each_host.egress",
                "what this session may send to one host is spent: nothing more goes there",
            ));
        }
        if !self.session.egress.take(bytes) {
            return Err(spent(
                "limits.egress",
                "the session's egress budget is spent: nothing more can be sent from it",
            ));
        }
        Ok(())
    }

    /// Bytes that came, and are about to go on inside.
    pub(crate) fn receive(&self, bytes: usize) -> Result<(), Fault> {
        if !self.host.ingress.take(bytes) {
            return Err(spent(
                "limits.each_host.ingress",
                "what this session may take from one host is spent: nothing more comes from there",
            ));
        }
        if !self.session.ingress.take(bytes) {
            return Err(spent(
                "limits.ingress",
                "the session's ingress budget is spent: nothing more comes into it",
            ));
        }
        Ok(())
    }
}

impl Drop for Draw {
    fn drop(&mut self) {
        self.host.streams.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Usage {
    /// A place for one request to a host.
    pub(crate) fn open(self: &Arc<Self>, host: &Host) -> Result<Draw, Fault> {
        let host = self.hosts.of(host);
        let taken = host.streams.fetch_add(1, Ordering::Relaxed);
        let fits = taken < host.streams_max;
        let draw = Draw {
            session: Arc::clone(self),
            host,
        };
        if fits {
            Ok(draw)
        } else {
            Err(spent(
                "limits.each_host.streams",
                "let requests to this host end before sending more: as many are open as may be",
            ))
        }
    }
}

fn spent(rule: &'static str, hint: &'static str) -> Fault {
    Fault::new(Reason::LimitReached, hint).by(rule)
}

#[cfg(test)]
mod tests {
    use super::super::Limits;
    use super::*;

    fn host(name: &str) -> Host {
        Host::parse(name).unwrap()
    }

    fn rule(result: Result<(), Fault>) -> Option<&'static str> {
        result.err().and_then(|fault| fault.rule)
    }

    #[test]
    fn each_host_has_its_own_and_all_share_the_sessions() {
        let usage = Arc::new(Usage::new(&Limits {
            egress_bytes_max: 25,
            ingress_bytes_max: 15,
            each_host: HostLimits {
                egress_bytes_max: 10,
                ingress_bytes_max: 8,
                streams_max: 2,
            },
            ..Limits::default()
        }));
        let a = usage.open(&host("a.test")).unwrap();
        let b = usage.open(&host("b.test")).unwrap();
        assert_eq!(rule(a.send(11)), Some("limits.each_host.egress"));
        assert_eq!(rule(a.send(10)), None);
        assert_eq!(rule(a.send(1)), Some("limits.each_host.egress"));
        assert_eq!(rule(b.send(10)), None);
        let c = usage.open(&host("c.test")).unwrap();
        assert_eq!(rule(c.send(6)), Some("limits.egress"));
        assert_eq!(rule(a.receive(8)), None);
        assert_eq!(rule(b.receive(8)), Some("limits.ingress"));
        assert_eq!(rule(b.receive(7)), Some("limits.each_host.ingress"));
        // Another request to the host draws on the same.
        let again = usage.open(&host("a.test")).unwrap();
        assert_eq!(rule(again.receive(1)), Some("limits.each_host.ingress"));
        let third = usage.open(&host("a.test")).unwrap_err();
        assert_eq!(third.rule, Some("limits.each_host.streams"));
        drop(again);
        assert!(usage.open(&host("a.test")).is_ok());
    }

    #[test]
    fn hosts_beyond_the_bound_share_one_budget() {
        let usage = Arc::new(Usage::new(&Limits {
            each_host: HostLimits {
                streams_max: 1,
                ..HostLimits::default()
            },
            ..Limits::default()
        }));
        let open = |at: usize| usage.open(&host(&format!("h{at}.test")));
        let held: Vec<_> = (0..HOSTS_MAX).map(|at| open(at).unwrap()).collect();
        let first = open(HOSTS_MAX).unwrap();
        assert!(open(HOSTS_MAX + 1).is_err());
        drop((held, first));
        assert!(open(HOSTS_MAX + 1).is_ok());
    }
}
