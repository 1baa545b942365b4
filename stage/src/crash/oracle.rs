// SPDX-License-Identifier: Apache-2.0
//! The far ends against the record. Each request has a path of its own, so that each is matched
//! with its own decision, and its credential with the release that belongs to that decision.

use crate::daemon::Daemon;
use crate::world::World;
use crate::world::journal::{Journal, Request};
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// How long the far ends are watched for a request that comes after the end.
const WATCH: Duration = Duration::from_millis(300);

/// What was compared.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Judged {
    /// Requests at the far ends; each had its decision in the record.
    pub requests: usize,
    /// Credentials at the far ends; each had its release in the record.
    pub credentials: usize,
}

/// Where the far ends' books stood before.
pub(super) struct Marks {
    api: usize,
    other: usize,
}

impl Marks {
    pub(super) fn take(world: &World) -> Self {
        Self {
            api: world.api.journal.mark(),
            other: world.other.journal.mark(),
        }
    }

    fn requests(&self, world: &World, name: &str) -> Vec<Request> {
        let of = |journal: &Journal, mark: usize| {
            let connections = journal.since(mark);
            connections
                .into_iter()
                .flat_map(|connection| connection.requests)
                .filter(|request| request.target.contains(name))
                .collect::<Vec<_>>()
        };
        let mut all = of(&world.api.journal, self.api);
        all.extend(of(&world.other.journal, self.other));
        all
    }

    /// How many requests of this blow the far ends saw so far.
    pub(super) fn seen(&self, world: &World, name: &str) -> usize {
        self.requests(world, name).len()
    }

    /// Every request has a decision that allowed it, every credential a release for that decision.
    pub(super) fn judge(&self, world: &World, daemon: &Daemon, name: &str) -> Result<Judged> {
        let requests = self.requests(world, name);
        std::thread::sleep(WATCH);
        let later = self.seen(world, name) - requests.len();
        ensure!(later == 0, "{later} requests came after the end");
        judge(&requests, &daemon.records()?, &world.api_token)
    }
}

fn judge(requests: &[Request], records: &[Value], token: &str) -> Result<Judged> {
    let mut decisions: BTreeMap<&str, u64> = BTreeMap::new();
    let mut releases = BTreeSet::new();
    for record in records {
        let event = record.get("event").context("a record without event")?;
        match text(event, "kind") {
            Some("request_decided") if text(event, "verdict") == Some("allow") => {
                let seq = record.get("seq").and_then(Value::as_u64);
                let path = text(event, "path").context("a decision without path")?;
                decisions.insert(path, seq.context("a record without place")?);
            }
            Some("credential_released") => {
                releases.extend(event.get("decision").and_then(Value::as_u64));
            }
            _ => {}
        }
    }
    let real = format!("Bearer {token}");
    let mut judged = Judged::default();
    for request in requests {
        let target = request.target.as_str();
        let decision = decisions.get(target);
        let decision = decision
            .with_context(|| format!("the far end saw `{target}`, and no record allows it"))?;
        judged.requests += 1;
        let value = request.header("authorization");
        ensure!(
            value.is_none() || value.as_ref() == Some(&real),
            "the far end saw another credential in `{target}`"
        );
        if value.is_some() {
            ensure!(
                releases.contains(decision),
                "the far end saw the credential in `{target}`, and no record releases it"
            );
            judged.credentials += 1;
        }
    }
    Ok(judged)
}

fn text<'v>(value: &'v Value, name: &str) -> Option<&'v str> {
    value.get(name).and_then(Value::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(target: &str, token: Option<&str>) -> Request {
        let value = |token| format!("Bearer {token}").into_bytes();
        Request {
            target: target.to_owned(),
            headers: token
                .map(|token| ("authorization".to_owned(), value(token)))
                .into_iter()
                .collect(),
            ..Request::default()
        }
    }

    fn decided(seq: u64, path: &str) -> Value {
        serde_json::json!({ "seq": seq, "event": {
            "kind": "request_decided", "verdict": "allow", "path": path } })
    }

    fn released(decision: u64) -> Value {
        serde_json::json!({ "seq": 9, "event": {
            "kind": "credential_released", "decision": decision } })
    }

    #[test]
    fn a_request_without_its_decision_and_a_credential_without_its_release_are_found() {
        let records = [decided(1, "/a"), released(1), decided(2, "/b")];
        let judge = |requests: &[Request]| judge(requests, &records, "t");
        let good = judge(&[request("/a", Some("t")), request("/b", None)]).unwrap();
        assert_eq!((good.requests, good.credentials), (2, 1));
        assert!(judge(&[request("/c", None)]).is_err(), "no decision");
        assert!(judge(&[request("/b", Some("t"))]).is_err(), "no release");
        assert!(judge(&[request("/a", Some("x"))]).is_err(), "another value");
    }
}
