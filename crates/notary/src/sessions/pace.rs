// SPDX-License-Identifier: Apache-2.0
//! How many requests a session makes, and how fast. Counted here, where every request is asked
//! about, so it does not depend on a gate.

use crate::notary::{Notary, Now};
use crate::refusals::refusal;
use std::collections::BTreeMap;
use torno_policy::decision::{Layer, Reason, Refusal};
use torno_policy::grant::Limits;
use torno_policy::names::{Host, SessionId};

/// LIMIT: hosts that are counted one by one; the rest of a session's share one host's number.
const HOSTS_MAX: usize = 1024;
/// Equal refusals within this time are one record.
const COALESCE_MS: u64 = 1_000;
/// One request, in parts that a millisecond brings whole numbers of.
const WHOLE: u64 = 1_000;

/// What a session has left of both.
#[derive(Debug)]
pub(crate) struct Pace {
    requests_left: u64,
    /// Of each host that was asked for, by its name; under no name for all beyond the bound.
    hosts_left: BTreeMap<Option<Host>, u64>,
    host_requests: u64,
    /// Requests a second, and so parts of one a millisecond.
    rate: u64,
    /// Parts of a request; at most a second's worth.
    level: u64,
    filled_ms: u64,
    recorded_ms: Option<u64>,
}

/// A request that is too many.
pub(crate) struct TooMany {
    pub(crate) refusal: Refusal,
    /// The first of its kind for a while: it is recorded.
    pub(crate) is_news: bool,
}

impl Pace {
    pub(crate) const fn new(limits: &Limits, now: Now) -> Self {
        Self {
            requests_left: limits.requests,
            hosts_left: BTreeMap::new(),
            host_requests: limits.each_host.requests,
            rate: limits.rate,
            level: limits.rate.saturating_mul(WHOLE),
            filled_ms: now.boot_ms,
            recorded_ms: None,
        }
    }

    /// Takes one request to a host.
    pub(crate) fn take(&mut self, host: &Host, now: Now) -> Result<(), TooMany> {
        let elapsed = now.boot_ms.saturating_sub(self.filled_ms);
        self.filled_ms = now.boot_ms.max(self.filled_ms);
        let most = self.rate.saturating_mul(WHOLE);
        self.level = most.min(self.level.saturating_add(elapsed.saturating_mul(self.rate)));
        if self.requests_left == 0 {
            let hint = "the session has made as many requests as it may; end it and begin another";
            return Err(self.too_many("limits.requests", hint, now));
        }
        let Some(level) = self.level.checked_sub(WHOLE) else {
            let wait = (WHOLE - self.level).div_ceil(self.rate.max(1));
            let hint = format!(
                "the session makes at most {} requests a second: try again in {wait} ms",
                self.rate
            );
            return Err(self.too_many("limits.rate", &hint, now));
        };
        let Some(left) = self.left_of(host).checked_sub(1) else {
            let hint = "the session has made as many requests to this host as it may";
            return Err(self.too_many("limits.each_host.requests", hint, now));
        };
        *self.left_of(host) = left;
        self.level = level;
        self.requests_left -= 1;
        Ok(())
    }

    fn left_of(&mut self, host: &Host) -> &mut u64 {
        let key = Some(host.clone());
        let is_counted = self.hosts_left.contains_key(&key) || self.hosts_left.len() < HOSTS_MAX;
        let key = key.filter(|_| is_counted);
        self.hosts_left.entry(key).or_insert(self.host_requests)
    }

    fn too_many(&mut self, rule: &str, hint: &str, now: Now) -> TooMany {
        let is_old = |at: u64| now.boot_ms.saturating_sub(at) >= COALESCE_MS;
        let is_news = self.recorded_ms.is_none_or(is_old);
        if is_news {
            self.recorded_ms = Some(now.boot_ms);
        }
        TooMany {
            refusal: refusal(Reason::LimitReached, Layer::Session, rule, hint),
            is_news,
        }
    }
}

impl Notary {
    /// Counts a request of a session. Who asks for none is refused as unknown later.
    pub(crate) fn pace(
        &mut self,
        id: Option<&SessionId>,
        host: &Host,
        now: Now,
    ) -> Result<(), TooMany> {
        let session = id.and_then(|id| self.sessions.get_mut(id));
        session.map_or(Ok(()), |session| session.pace.take(host, now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use torno_policy::document::LIMITS_DEFAULT;

    fn at(boot_ms: u64) -> Now {
        Now {
            unix_ms: 0,
            boot_ms,
        }
    }

    fn host(name: &str) -> Host {
        Host::parse(name).unwrap()
    }

    fn pace(requests: u64, rate: u64) -> Pace {
        let limits = Limits {
            requests,
            rate,
            ..LIMITS_DEFAULT
        };
        Pace::new(&limits, at(1_000))
    }

    #[test]
    fn a_second_brings_its_rate_and_saves_no_more_than_that() {
        let mut pace = pace(1_000, 4);
        let mut taken = |ms| {
            (0..100)
                .filter(|_| pace.take(&host("a.test"), at(ms)).is_ok())
                .count()
        };
        assert_eq!(taken(1_000), 4);
        assert_eq!(taken(1_249), 0);
        assert_eq!(taken(1_250), 1);
        assert_eq!(taken(60_000), 4);
        // A clock that goes back brings nothing.
        assert_eq!(taken(1_000), 0);
        assert_eq!(taken(60_500), 2);
    }

    #[test]
    fn too_many_are_told_when_to_come_back_and_recorded_once_a_second() {
        let mut pace = pace(1_000, 2);
        assert!(
            pace.take(&host("a.test"), at(1_000)).is_ok()
                && pace.take(&host("a.test"), at(1_000)).is_ok()
        );
        let first = pace.take(&host("a.test"), at(1_100)).unwrap_err();
        assert_eq!(first.refusal.rule.as_str(), "limits.rate");
        assert!(
            first.refusal.hint.ends_with("again in 400 ms"),
            "{}",
            first.refusal.hint
        );
        assert!(first.is_news && !pace.take(&host("a.test"), at(1_200)).unwrap_err().is_news);
        for ms in [2_100, 2_100] {
            assert!(pace.take(&host("a.test"), at(ms)).is_ok());
        }
        assert!(pace.take(&host("a.test"), at(2_100)).unwrap_err().is_news);
    }

    #[test]
    fn all_requests_of_a_session_have_their_number() {
        let mut pace = pace(3, 100);
        let taken = (0..10)
            .filter(|_| pace.take(&host("a.test"), at(1_000)).is_ok())
            .count();
        assert_eq!(taken, 3);
        let refusal = pace.take(&host("a.test"), at(99_000)).unwrap_err().refusal;
        assert_eq!(refusal.rule.as_str(), "limits.requests");
    }

    #[test]
    fn each_host_has_its_number_and_those_beyond_the_bound_share_one() {
        let mut limits = LIMITS_DEFAULT;
        limits.requests = 3_000;
        limits.each_host.requests = 2;
        let mut pace = Pace::new(&limits, at(1_000));
        let mut taken = |name: &str| {
            let tries = (0..4).map(|_| pace.take(&host(name), at(1_000)));
            tries.filter(Result::is_ok).count()
        };
        assert_eq!((taken("a.test"), taken("b.test")), (2, 2));
        for more in 2..HOSTS_MAX {
            assert_eq!(taken(&format!("h{more}.test")), 2);
        }
        assert_eq!((taken("c.test"), taken("d.test")), (2, 0));
        let refusal = pace.take(&host("a.test"), at(1_000)).unwrap_err().refusal;
        assert_eq!(refusal.rule.as_str(), "limits.each_host.requests");
        // What was refused for its host took nothing of the session's.
        assert_eq!(pace.requests_left, 3_000 - 2 * 1025);
    }
}
