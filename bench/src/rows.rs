// SPDX-License-Identifier: Apache-2.0
//! The result: one row for each metric and peer, as JSON and as a table, and the targets.

use crate::statistics::{median, spread};
use anyhow::{Context, Result};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::Path;

/// Torno's own name among the contenders.
pub const TORNO: &str = "torno";

/// In a target: the faster of these two in that row.
pub const REVERSE_PROXY: &str = "the faster reverse proxy";
const REVERSE_PROXIES: [&str; 2] = ["haproxy", "nginx"];

/// What a metric measured, by contender: rounds that count, and why others don't.
#[derive(Debug, Default)]
pub struct Measured {
    rounds: BTreeMap<String, Vec<f64>>,
    faults: BTreeMap<String, String>,
}

impl Measured {
    /// A round that counts.
    pub fn add(&mut self, contender: &str, value: f64) {
        self.rounds
            .entry(contender.to_owned())
            .or_default()
            .push(value);
    }

    /// A round that proves nothing: with one of them the contender has no figure.
    pub fn invalid(&mut self, contender: &str, why: &str) {
        self.faults
            .entry(contender.to_owned())
            .or_insert_with(|| why.to_owned());
    }

    fn value(&self, contender: &str) -> Option<f64> {
        if self.faults.contains_key(contender) {
            return None;
        }
        median(self.rounds.get(contender)?)
    }

    fn spread(&self, contender: &str) -> f64 {
        spread(self.rounds.get(contender).map_or(&[], Vec::as_slice))
    }

    fn peers(&self) -> Vec<&str> {
        let all = self.rounds.keys().chain(self.faults.keys());
        let mut names: Vec<&str> = all.map(String::as_str).filter(|n| *n != TORNO).collect();
        names.sort_unstable();
        names.dedup();
        names
    }
}

/// One line of the result.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// What was measured.
    pub metric: String,
    /// In which unit.
    pub unit: &'static str,
    /// Torno's median; absent when invalid.
    pub torno: Option<f64>,
    /// The peer's median; absent when invalid.
    pub peer: Option<f64>,
    /// Which peer.
    pub peer_name: String,
    /// Torno's over the peer's.
    pub ratio: Option<f64>,
    /// (largest − smallest) / median of the rounds: the larger of Torno's and the peer's.
    pub spread: f64,
    /// Why a figure is absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub invalid: Option<String>,
}

/// Rows of one metric, a peer each.
#[must_use]
pub fn rows(metric: &str, unit: &'static str, measured: &Measured) -> Vec<Row> {
    let torno = measured.value(TORNO);
    let row = |name: &str| {
        let peer = measured.value(name);
        let fault = |who: &str| {
            let why = measured.faults.get(who)?;
            Some(format!("invalid: {who}: {why}"))
        };
        Row {
            metric: metric.to_owned(),
            unit,
            torno,
            peer,
            peer_name: name.to_owned(),
            ratio: torno
                .zip(peer)
                .filter(|(_, peer)| *peer > 0.0)
                .map(|(torno, peer)| torno / peer),
            spread: measured.spread(TORNO).max(measured.spread(name)),
            invalid: fault(TORNO).or_else(|| fault(name)),
        }
    };
    measured.peers().into_iter().map(row).collect()
}

/// A figure of Torno's own, without a peer.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Figure {
    /// What was measured, and at which size.
    pub metric: String,
    /// In which unit.
    pub unit: &'static str,
    /// How much; absent when invalid.
    pub value: Option<f64>,
    /// The most that is promised.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_most: Option<f64>,
    /// Why it is absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub invalid: Option<String>,
}

impl Figure {
    /// One that was measured.
    #[must_use]
    pub fn new(metric: impl Into<String>, unit: &'static str, value: f64) -> Self {
        Self {
            metric: metric.into(),
            unit,
            value: Some(value),
            at_most: None,
            invalid: None,
        }
    }

    /// With a promise.
    #[must_use]
    pub fn at_most(mut self, limit: f64) -> Self {
        self.at_most = Some(limit);
        self
    }

    /// The promise that it breaks, in words.
    #[must_use]
    pub fn missed(&self) -> Option<String> {
        let Self { metric, unit, .. } = self;
        match (self.value, self.at_most) {
            (Some(value), Some(limit)) if value > limit => Some(format!(
                "{metric}: {value:.1} {unit}, wanted at most {limit} {unit}"
            )),
            (None, _) => Some(format!("{metric}: absent")),
            (Some(_), _) => None,
        }
    }
}

/// Writes them for programs.
///
/// # Errors
/// When the file can't be written.
pub fn write<R: Serialize>(path: &Path, rows: &[R]) -> Result<()> {
    let lines: Vec<String> = rows
        .iter()
        .map(|row| serde_json::to_string(row).map(|line| format!("  {line}")))
        .collect::<Result<_, _>>()
        .context("no JSON of the rows")?;
    let text = format!("[\n{}\n]\n", lines.join(",\n"));
    std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

/// Prints them for people.
pub fn print(rows: &[Row]) {
    let shown = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |v| format!("{v:.1}"));
    println!(
        "{:<34} {:>10} {:>10} {:>8} {:>7}  {:<16} unit",
        "metric", "torno", "peer", "ratio", "spread", "peer_name"
    );
    for row in rows {
        println!(
            "{:<34} {:>10} {:>10} {:>8} {:>7.2}  {:<16} {} {}",
            row.metric,
            shown(row.torno),
            shown(row.peer),
            row.ratio
                .map_or_else(|| "-".to_owned(), |r| format!("{r:.2}")),
            row.spread,
            row.peer_name,
            row.unit,
            row.invalid.as_deref().unwrap_or_default()
        );
    }
}

/// What has to hold.
#[derive(Debug, Clone, Copy)]
pub enum Target {
    /// Torno's figure over this peer's is at least this.
    RatioAtLeast(&'static str, &'static str, f64),
    /// Torno's figure minus this peer's is at most this.
    MoreByAtMost(&'static str, &'static str, f64),
}

/// The targets that are missed, in words. A row that is absent or invalid misses its target.
#[must_use]
pub fn missed(rows: &[Row], targets: &[Target]) -> Vec<String> {
    let named = |metric: &str, peer: &str| {
        let mut matching = rows.iter();
        matching.find(|row| row.metric == metric && row.peer_name == peer)
    };
    // The one that Torno looks worse beside, by the ratio or by the peer's own figure.
    let find = |metric: &str, peer: &str, badness: &dyn Fn(&Row) -> Option<f64>| {
        if peer != REVERSE_PROXY {
            return named(metric, peer);
        }
        let both = REVERSE_PROXIES.map(|peer| named(metric, peer));
        let judged = both
            .into_iter()
            .flatten()
            .filter(|row| badness(row).is_some());
        judged.min_by(|a, b| f64::total_cmp(&worse(badness, a), &worse(badness, b)))
    };
    let judge = |target: &Target| match *target {
        Target::RatioAtLeast(metric, peer, wanted) => {
            let ratio = find(metric, peer, &|row| row.ratio).and_then(|row| row.ratio);
            let holds = ratio.is_some_and(|ratio| ratio >= wanted);
            let is = ratio.map_or_else(|| "absent".to_owned(), |ratio| format!("{ratio:.2}×"));
            (!holds).then(|| format!("{metric}: {is} of {peer}, wanted at least {wanted}×"))
        }
        Target::MoreByAtMost(metric, peer, wanted) => {
            let row = find(metric, peer, &|row| row.peer);
            let more = row.and_then(|row| Some(row.torno? - row.peer?));
            let holds = more.is_some_and(|more| more <= wanted);
            let is = more.map_or_else(|| "absent".to_owned(), |more| format!("{more:.1} more"));
            (!holds).then(|| format!("{metric}: {is} than {peer}, wanted at most {wanted} more"))
        }
    };
    targets.iter().filter_map(judge).collect()
}

fn worse(badness: &dyn Fn(&Row) -> Option<f64>, row: &Row) -> f64 {
    badness(row).unwrap_or(f64::INFINITY)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured() -> Measured {
        let mut measured = Measured::default();
        for value in [90.0, 100.0, 110.0] {
            measured.add(TORNO, value);
            measured.add("squid", value / 2.0);
        }
        measured
    }

    #[test]
    fn a_row_holds_medians_their_ratio_and_the_larger_spread() {
        let rows = rows("rps", "requests/s", &measured());
        let row = rows.first().unwrap();
        assert_eq!((row.torno, row.peer), (Some(100.0), Some(50.0)));
        assert!((row.ratio.unwrap() - 2.0).abs() < 1e-9);
        assert!((row.spread - 0.2).abs() < 1e-9);
    }

    #[test]
    fn one_invalid_round_takes_the_figure_away_and_says_why() {
        let mut measured = measured();
        measured.invalid("squid", "503");
        let rows = rows("rps", "requests/s", &measured);
        let row = rows.first().unwrap();
        assert_eq!((row.peer, row.ratio), (None, None));
        assert_eq!(row.invalid.as_deref(), Some("invalid: squid: 503"));
        assert_eq!(
            missed(&rows, &[Target::RatioAtLeast("rps", "squid", 1.0)]).len(),
            1
        );
    }

    #[test]
    fn a_figure_misses_its_promise_by_its_size_or_by_its_absence() {
        let figure = Figure::new("idle", "KiB", 64.0).at_most(64.0);
        assert_eq!(figure.missed(), None);
        let larger = Figure::new("idle", "KiB", 64.5).at_most(64.0);
        assert!(larger.missed().is_some());
        let absent = Figure {
            value: None,
            ..figure
        };
        assert!(absent.missed().is_some());
    }

    #[test]
    fn of_two_reverse_proxies_the_faster_one_counts() {
        let mut measured = measured();
        measured.add("haproxy", 100.0);
        measured.add("nginx", 160.0);
        let faster = rows("rps", "requests/s", &measured);
        let least = |wanted| {
            missed(
                &faster,
                &[Target::RatioAtLeast("rps", REVERSE_PROXY, wanted)],
            )
        };
        assert!(least(0.6).is_empty());
        assert_eq!(least(0.7).len(), 1);
        // A latency: the lower is the faster.
        let more = |wanted| {
            missed(
                &faster,
                &[Target::MoreByAtMost("rps", REVERSE_PROXY, wanted)],
            )
        };
        assert_eq!((more(0.0).len(), more(-0.1).len()), (0, 1));
        measured.invalid("nginx", "503");
        let one = rows("rps", "requests/s", &measured);
        let ratio = Target::RatioAtLeast("rps", REVERSE_PROXY, 1.0);
        assert!(missed(&one, &[ratio]).is_empty());
    }

    #[test]
    fn a_target_is_missed_by_a_figure_or_by_an_absent_row() {
        let rows = rows("rps", "requests/s", &measured());
        assert!(missed(&rows, &[Target::RatioAtLeast("rps", "squid", 2.0)]).is_empty());
        let more = Target::MoreByAtMost("rps", "squid", 49.0);
        let absent = Target::RatioAtLeast("rps", "mitmproxy", 10.0);
        assert_eq!(missed(&rows, &[more, absent]).len(), 2);
    }
}
