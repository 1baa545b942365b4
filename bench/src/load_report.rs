// SPDX-License-Identifier: Apache-2.0
//! What a run of the load generator did, as the line of JSON that it prints.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One run of `torno-load`.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct LoadReport {
    /// Requests that were sent, warm-up and failures included: what a record must have grown by.
    pub sent: u64,
    /// Whole answers by status, warm-up included.
    pub statuses: BTreeMap<u16, u64>,
    /// Answers whose body differed from what the far end holds.
    pub mismatched: u64,
    /// Connections and requests that broke.
    pub failures: u64,
    /// The first of these failures.
    pub first_failure: Option<String>,
    /// Connections that were opened.
    pub connections: u64,
    /// Whole answers within the measured time.
    pub measured: u64,
    /// The measured time.
    pub seconds: f64,
    /// Body bytes within the measured time.
    pub bytes: u64,
    /// Median latency of measured answers, microseconds.
    pub p50_us: u32,
    /// 99th percentile of it.
    pub p99_us: u32,
}

impl LoadReport {
    /// Why this run proves nothing, if it doesn't.
    #[must_use]
    pub fn fault(&self) -> Option<String> {
        let good = self.statuses.get(&200).copied().unwrap_or_default();
        if let Some(failure) = &self.first_failure {
            return Some(format!("{} failures, first: {failure}", self.failures));
        }
        if self.measured == 0 {
            return Some("no answer within the measured time".to_owned());
        }
        if good != self.sent {
            return Some(format!(
                "{} requests sent, statuses {:?}",
                self.sent, self.statuses
            ));
        }
        (self.mismatched > 0).then(|| format!("{} bodies differ", self.mismatched))
    }

    /// Whole answers a second.
    #[must_use]
    pub fn requests_per_second(&self) -> f64 {
        rate(self.measured, self.seconds)
    }

    /// The share of one request, warm-up included, in what all of them cost together.
    #[must_use]
    pub fn each_of(&self, cost: f64) -> f64 {
        let per_cost = rate(self.sent, cost);
        if per_cost > 0.0 { 1.0 / per_cost } else { 0.0 }
    }

    /// Body megabytes (10^6) a second.
    #[must_use]
    pub fn megabytes_per_second(&self) -> f64 {
        rate(self.bytes, self.seconds) / 1e6
    }
}

/// Counts of a run stay far below 2^53.
fn rate(count: u64, seconds: f64) -> f64 {
    let count = u32::try_from(count).map_or_else(
        |_| f64::from(u32::try_from(count >> 16).unwrap_or(u32::MAX)) * 65_536.0,
        f64::from,
    );
    if seconds > 0.0 { count / seconds } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> LoadReport {
        LoadReport {
            sent: 10,
            statuses: BTreeMap::from([(200, 10)]),
            measured: 8,
            seconds: 2.0,
            bytes: 4_000_000_000_000,
            ..LoadReport::default()
        }
    }

    #[test]
    fn a_run_of_good_answers_has_no_fault() {
        assert_eq!(report().fault(), None);
        assert!((report().requests_per_second() - 4.0).abs() < 1e-9);
        assert!((report().megabytes_per_second() - 2_000_000.0).abs() < 1.0);
        assert!((report().each_of(5.0) - 0.5).abs() < 1e-9);
    }

    #[test]
    fn a_refusal_a_lost_answer_a_wrong_body_or_a_broken_connection_is_a_fault() {
        let mut refused = report();
        refused.statuses = BTreeMap::from([(200, 9), (403, 1)]);
        let mut lost = report();
        lost.sent = 11;
        let mut differs = report();
        differs.mismatched = 1;
        let mut broken = report();
        broken.failures = 1;
        broken.first_failure = Some("reset".to_owned());
        let mut idle = report();
        idle.measured = 0;
        for run in [refused, lost, differs, broken, idle] {
            assert!(run.fault().is_some(), "{run:?}");
        }
    }
}
