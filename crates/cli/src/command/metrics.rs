// SPDX-License-Identifier: Apache-2.0
//! `torno metrics`: what the record counts, as Prometheus text. No socket is opened for it: a timer
//! writes it where a collector reads files. No label takes a host, a path or a session.

use crate::context::{Context, say};
use crate::stop::{Outcome, Stop};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use torno_audit::line::Record;
use torno_audit::record::Verdict;
use torno_audit::{Event, Records};
use torno_policy::Reason;
use torno_policy::names::{RecordSeq, SessionId};

/// What the record counts, as Prometheus text, for a collector that reads files
///
/// Counters are those of the record that is there: pruning it lowers them, as a restart would.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: torno metrics > /var/lib/node_exporter/torno.prom")]
pub(crate) struct Metrics {}

/// Runs it.
pub(crate) fn run(_metrics: &Metrics, context: &Context) -> Outcome<u8> {
    let failed = |error: torno_audit::reader::ReadError| {
        Stop::new("the record can't be read")
            .because(&error)
            .next("run this as the user that runs tornod")
    };
    let mut counts = Counts::default();
    for record in Records::open(&context.paths.record(), 0).map_err(failed)? {
        counts.take(&record.map_err(failed)?);
    }
    say(&counts.text())?;
    Ok(0)
}

/// Sums over a record. Every label is of a closed set.
#[derive(Debug, Default)]
struct Counts {
    /// By decision and reason.
    requests: BTreeMap<(&'static str, &'static str), u64>,
    released: u64,
    reflected: u64,
    sent: u64,
    received: u64,
    begun: u64,
    live: BTreeSet<SessionId>,
    /// Allowed requests whose end was not recorded, of sessions that live.
    open: BTreeMap<RecordSeq, Option<SessionId>>,
    budget_frozen: u64,
    tripwires: u64,
    claimed: u64,
    records: u64,
}

impl Counts {
    fn take(&mut self, record: &Record) {
        self.records = record.seq.0.saturating_add(1);
        let session = &record.entry.session;
        match &record.entry.event {
            Event::RequestDecided(decided) => {
                let decision = match decided.verdict {
                    Verdict::Allow => "allow",
                    Verdict::Ask => "ask",
                    Verdict::Deny => "deny",
                };
                self.request(decision, decided.reason, 1);
                if decided.verdict == Verdict::Allow {
                    self.open.insert(record.seq, session.clone());
                }
            }
            Event::RequestRefused(refused) => {
                self.request("deny", Some(refused.reason), u64::from(refused.count));
            }
            Event::RequestEnded(ended) => {
                self.open.remove(&ended.decision);
                self.sent = self.sent.saturating_add(ended.sent);
                self.received = self.received.saturating_add(ended.received);
            }
            Event::CredentialReleased(_) => self.released += 1,
            Event::CredentialReflected { count, .. } => self.reflected += u64::from(*count),
            Event::SessionBegun { .. } => {
                self.begun += 1;
                self.live.extend(session.clone());
            }
            Event::SessionEnded { .. } | Event::SessionKilled => {
                if let Some(session) = session {
                    self.live.remove(session);
                }
                self.open.retain(|_, of| of != session);
            }
            Event::BudgetFrozen { .. } => self.budget_frozen += 1,
            Event::TripwireSeen(_) => self.tripwires += 1,
            Event::SandboxClaimed { .. } => self.claimed += 1,
            _ => {}
        }
    }

    fn request(&mut self, decision: &'static str, reason: Option<Reason>, count: u64) {
        let key = (decision, reason.map_or("", Reason::code));
        let sum = self.requests.entry(key).or_default();
        *sum = sum.saturating_add(count);
    }

    fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a String can't fail.
        let _ = writeln!(
            text,
            "# HELP torno_requests_total Requests by decision and reason.\n\
             # TYPE torno_requests_total counter"
        );
        for ((decision, reason), count) in &self.requests {
            let _ = writeln!(
                text,
                "torno_requests_total{{decision=\"{decision}\",reason=\"{reason}\"}} {count}"
            );
        }
        for (name, kind, help, value) in self.sums() {
            let _ = writeln!(
                text,
                "# HELP torno_{name} {help}.\n# TYPE torno_{name} {kind}\ntorno_{name} {value}"
            );
        }
        text
    }

    /// Name, kind, help and value of each sum without labels.
    fn sums(&self) -> [(&'static str, &'static str, &'static str, u64); 11] {
        let wide = |length: usize| u64::try_from(length).unwrap_or(u64::MAX);
        [
            (
                "credentials_released_total",
                "counter",
                "Credentials that went out",
                self.released,
            ),
            (
                "credentials_reflected_total",
                "counter",
                "Credentials in answers",
                self.reflected,
            ),
            (
                "sent_bytes_total",
                "counter",
                "Bytes of request bodies",
                self.sent,
            ),
            (
                "received_bytes_total",
                "counter",
                "Bytes of answers",
                self.received,
            ),
            (
                "sessions_begun_total",
                "counter",
                "Sessions that began",
                self.begun,
            ),
            (
                "sessions",
                "gauge",
                "Sessions that live",
                wide(self.live.len()),
            ),
            (
                "requests_open",
                "gauge",
                "Requests under way",
                wide(self.open.len()),
            ),
            (
                "budget_frozen_total",
                "counter",
                "Sessions out of records",
                self.budget_frozen,
            ),
            (
                "tripwires_seen_total",
                "counter",
                "Sessions frozen by a tripwire",
                self.tripwires,
            ),
            (
                "sandboxes_claimed_total",
                "counter",
                "Sessions that got a sandbox made ahead",
                self.claimed,
            ),
            (
                "records",
                "gauge",
                "Place after the newest record",
                self.records,
            ),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn counted(events: &[Value]) -> String {
        let mut counts = Counts::default();
        for (seq, event) in (0_u64..).zip(events) {
            let line = json!({ "seq": seq, "at": 1_700_000_000_000_u64, "session": "s1",
                "event": event });
            counts.take(&torno_audit::line::parse(line.to_string().as_bytes()).unwrap());
        }
        counts.text()
    }

    fn decided(reason: Option<&str>) -> Value {
        json!({ "kind": "request_decided", "entry": "captured",
            "endpoint": { "scheme": "https", "host": "hidden.test", "port": 443 },
            "method": "GET", "path": "/secret/path", "query_bytes": null,
            "verdict": if reason.is_some() { "deny" } else { "allow" },
            "layer": "session", "rule": "r", "reason": reason,
            "credential": null, "binding": null, "git": null })
    }

    #[test]
    fn what_is_recorded_is_counted_and_nothing_of_a_request_is_a_label() {
        let refused = json!({ "kind": "request_refused", "reason": "bad_path", "layer": "wire",
            "rule": "wire", "target": "x", "count": 3 });
        let ended = json!({ "kind": "request_ended", "decision": 0, "outcome": "completed",
            "status": 201, "reason": null, "sent": 5, "received": 7, "reflected": 0,
            "carried": 0, "address": null, "resolved_by_proxy": false });
        let missing = decided(Some("host_not_granted"));
        let events = [decided(None), decided(None), missing, refused, ended];
        let text = counted(&events);
        for line in [
            "torno_requests_total{decision=\"allow\",reason=\"\"} 2",
            "torno_requests_total{decision=\"deny\",reason=\"host_not_granted\"} 1",
            "torno_requests_total{decision=\"deny\",reason=\"bad_path\"} 3",
            "torno_sent_bytes_total 5",
            "torno_requests_open 1",
            "torno_records 5",
        ] {
            assert!(
                text.lines().any(|l| l == line),
                "`{line}` is missing: {text}"
            );
        }
        assert!(!text.contains("hidden") && !text.contains("secret") && !text.contains("s1"));
        // Prometheus' own form: a name, labels, a number.
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let (name, value) = line.rsplit_once(' ').unwrap();
            assert!(
                name.starts_with("torno_") && value.parse::<u64>().is_ok(),
                "{line}"
            );
        }
    }

    #[test]
    fn an_end_of_a_session_ends_what_it_had_open() {
        let killed = json!({ "kind": "session_killed" });
        let text = counted(&[decided(None), killed]);
        assert!(text.contains("torno_requests_open 0\n"), "{text}");
    }
}
