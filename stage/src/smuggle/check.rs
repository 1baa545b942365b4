// SPDX-License-Identifier: Apache-2.0
//! Compares what was judged, what left, and what the application at the far end saw.

use super::wire::{Seen, Sent, digest};
use std::collections::BTreeMap;

/// A request that was allowed: method, target and host.
pub type Judged = (String, String, String);

/// What came of all payloads at one far end.
#[derive(Debug, Default, Clone)]
pub struct Counts {
    /// Payloads, each in each split.
    pub sent: usize,
    /// Refusals before the question or by its answer, by reason.
    pub refused: BTreeMap<String, usize>,
    /// Requests that were allowed.
    pub allowed: usize,
    /// Of these, those whose application saw them as they were judged.
    pub passed: usize,
    /// Of these, those that no application saw: the far end refused, or the payload broke off.
    pub unseen: usize,
    /// Of those that passed: the body broke off, and the server handed over what had come.
    pub cut: usize,
    /// Requests that were not judged as they were seen. None may be.
    pub unjudged: Vec<String>,
}

/// LIMIT: findings that are told of one far end; all are counted.
pub const TOLD_MAX: usize = 20;

impl Counts {
    /// Compares: each request that left was judged, in the one form, and each that was seen left.
    #[must_use]
    pub fn compare(
        judged: Vec<Judged>,
        sent: Vec<Result<Vec<Sent>, String>>,
        seen: &[Seen],
    ) -> Self {
        let mut counts = Self {
            allowed: judged.len(),
            ..Self::default()
        };
        let mut allowed: BTreeMap<Judged, usize> = BTreeMap::new();
        for judged in judged {
            *allowed.entry(judged).or_default() += 1;
        }
        let mut left: BTreeMap<Judged, Vec<Sent>> = BTreeMap::new();
        for read in sent {
            match read {
                Err(odd) => counts.unjudged.push(format!("left in an odd form: {odd}")),
                Ok(requests) => {
                    for request in requests {
                        let key = (
                            request.method.clone(),
                            request.target.clone(),
                            request.host.clone(),
                        );
                        if !take(&mut allowed, &key) {
                            counts
                                .unjudged
                                .push(format!("left without a yes: {request:?}"));
                        }
                        left.entry(key).or_default().push(request);
                    }
                }
            }
        }
        for request in seen {
            let sent = left.entry(key(request)).or_default();
            match sent.iter().position(|sent| is_of(request, sent)) {
                Some(at) => {
                    let sent = sent.swap_remove(at);
                    counts.passed += 1;
                    counts.cut += usize::from(!sent.is_whole && request.body.is_some());
                }
                None => counts
                    .unjudged
                    .push(format!("seen and never sent so: {request:?}")),
            }
        }
        counts.unseen = counts.allowed.saturating_sub(counts.passed);
        counts
    }
}

/// Whether what was seen is what was sent. Of a body that broke off some servers hand over what
/// had come as if it were all.
fn is_of(seen: &Seen, sent: &Sent) -> bool {
    let Some(body) = &seen.body else {
        return true;
    };
    if sent.is_whole {
        return *body == digest(&sent.body);
    }
    let begun = |length| sent.body.get(..length).map(digest);
    (0..=sent.body.len()).any(|length| begun(length).as_ref() == Some(body))
}

fn key(seen: &Seen) -> Judged {
    (seen.method.clone(), seen.target.clone(), seen.host.clone())
}

fn take(allowed: &mut BTreeMap<Judged, usize>, key: &Judged) -> bool {
    let left = allowed.get_mut(key).filter(|left| **left > 0);
    left.map(|left| *left -= 1).is_some()
}

#[cfg(test)]
mod tests {
    use super::super::wire::{self, read};
    use super::*;

    fn judged(target: &str) -> Judged {
        ("GET".to_owned(), target.to_owned(), "h".to_owned())
    }

    fn seen(target: &str, body: &str) -> Seen {
        Seen {
            method: "GET".to_owned(),
            target: target.to_owned(),
            host: "h".to_owned(),
            body: Some(wire::digest(body)),
        }
    }

    #[test]
    fn one_request_more_another_path_host_or_body_is_unjudged() {
        let sent = || vec![read(b"GET /ok/a HTTP/1.1\r\nHost: h\r\n\r\n")];
        let good = Counts::compare(vec![judged("/ok/a")], sent(), &[seen("/ok/a", "")]);
        assert!(good.unjudged.is_empty() && good.passed == 1, "{good:?}");
        let none = Counts::compare(Vec::new(), sent(), &[]);
        assert_eq!(none.unjudged.len(), 1, "nobody said yes");
        let twice = [seen("/ok/a", ""), seen("/ok/a", "")];
        for (what, requests) in [
            ("seen twice", &twice[..]),
            ("another path", &[seen("/forbidden/a", "")]),
            ("another body", &[seen("/ok/a", "x")]),
            (
                "another host",
                &[Seen {
                    host: "g".to_owned(),
                    ..seen("/ok/a", "")
                }],
            ),
        ] {
            let counts = Counts::compare(vec![judged("/ok/a")], sent(), requests);
            assert_eq!(counts.unjudged.len(), 1, "{what}");
        }
        let odd = vec![read(b"GET /ok/a HTTP/1.1\nHost: h\n\r\n\r\n")];
        let counts = Counts::compare(vec![judged("/ok/a")], odd, &[]);
        assert_eq!(counts.unjudged.len(), 1);
    }
}
