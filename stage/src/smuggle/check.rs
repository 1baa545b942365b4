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
    /// Of those that were not seen: it left whole, and the far end refused it or was done before.
    pub whole_unseen: usize,
    /// Of those that passed: the body broke off, and the server handed over what had come.
    pub cut: usize,
    /// Of those that passed: the target had an empty query, and the application was told none,
    /// because what stands between it and its server has one word for both.
    pub untold: usize,
    /// Requests that were not judged as they were seen. None may be.
    pub unjudged: Vec<String>,
}

/// LIMIT: findings that are told of one far end; all are counted.
pub const TOLD_MAX: usize = 20;

impl Counts {
    /// Compares: each request that left was judged, in the one form, and each that was seen left.
    /// Where an application can't be told of an empty query, a target without its `?` is that one.
    #[must_use]
    pub fn compare(
        judged: Vec<Judged>,
        sent: Vec<Result<Vec<Sent>, String>>,
        seen: &[Seen],
        tells_empty_queries: bool,
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
        counts.see(&mut left, seen, tells_empty_queries);
        counts.unseen = counts.allowed.saturating_sub(counts.passed);
        counts.whole_unseen = left.values().flatten().filter(|sent| sent.is_whole).count();
        counts
    }

    /// Finds what was sent for each request that was seen, and takes it.
    fn see(
        &mut self,
        left: &mut BTreeMap<Judged, Vec<Sent>>,
        seen: &[Seen],
        tells_empty_queries: bool,
    ) {
        // A body that broke off fits many requests. Who fits fewest chooses first, and only what
        // then remains can be excused.
        let mut others = Vec::new();
        let mut ordered: Vec<&Seen> = seen.iter().collect();
        ordered.sort_by_cached_key(|request| {
            let sent = left.get(&key(request)).into_iter().flatten();
            sent.filter(|sent| is_of(request, sent)).count()
        });
        for request in ordered {
            match taken(left, &key(request), request) {
                Some(sent) => self.pass(request, &sent),
                None => others.push(request),
            }
        }
        for request in others {
            let (method, target, host) = key(request);
            let queried = (method, format!("{target}?"), host);
            let can_be = !tells_empty_queries && !target.contains('?');
            let found = can_be.then(|| taken(left, &queried, request));
            match found.flatten() {
                Some(sent) => {
                    self.untold += 1;
                    self.pass(request, &sent);
                }
                None => {
                    let rest = left.get(&key(request));
                    self.unjudged.push(format!(
                        "seen and never sent so: {request:?}; left: {rest:?}"
                    ));
                }
            }
        }
    }

    fn pass(&mut self, request: &Seen, sent: &Sent) {
        self.passed += 1;
        self.cut += usize::from(!sent.is_whole && request.body.is_some());
    }
}

/// Takes the request that was sent under that key and is what was seen.
fn taken(left: &mut BTreeMap<Judged, Vec<Sent>>, key: &Judged, request: &Seen) -> Option<Sent> {
    let sent = left.get_mut(key)?;
    let at = sent.iter().position(|sent| is_of(request, sent))?;
    Some(sent.swap_remove(at))
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
        let good = Counts::compare(vec![judged("/ok/a")], sent(), &[seen("/ok/a", "")], true);
        assert!(good.unjudged.is_empty() && good.passed == 1, "{good:?}");
        let none = Counts::compare(Vec::new(), sent(), &[], true);
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
            let counts = Counts::compare(vec![judged("/ok/a")], sent(), requests, true);
            assert_eq!(counts.unjudged.len(), 1, "{what}");
        }
        let odd = vec![read(b"GET /ok/a HTTP/1.1\nHost: h\n\r\n\r\n")];
        let counts = Counts::compare(vec![judged("/ok/a")], odd, &[], true);
        assert_eq!(counts.unjudged.len(), 1);
    }

    #[test]
    fn a_body_that_broke_off_takes_no_other_requests_place() {
        let cut = |body: &str| {
            let head = "POST /ok/a HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\n";
            read(format!("{head}{body}").as_bytes())
        };
        let post = |body: Option<&str>| Seen {
            method: "POST".to_owned(),
            body: body.map(wire::digest),
            ..seen("/ok/a", "")
        };
        let compare = |seen: &[Seen]| {
            let judged = vec![("POST".to_owned(), "/ok/a".to_owned(), "h".to_owned()); 3];
            let sent = vec![cut("hello"), cut(""), cut("hel")];
            Counts::compare(judged, sent, seen, true).unjudged.len()
        };
        let seen = [post(None), post(Some("he")), post(Some("hello"))];
        assert_eq!(compare(&seen), 0);
        let seen = [post(None), post(Some("hello")), post(Some("hello"))];
        assert_eq!(compare(&seen), 1, "it left once");
    }

    #[test]
    fn an_empty_query_is_excused_once_and_only_where_nobody_can_be_told_of_it() {
        let sent = || vec![read(b"GET /ok/a? HTTP/1.1\r\nHost: h\r\n\r\n")];
        let compare = |seen: &[Seen], tells| {
            let counts = Counts::compare(vec![judged("/ok/a?")], sent(), seen, tells);
            (counts.untold, counts.unjudged.len())
        };
        let short = [seen("/ok/a", "")];
        assert_eq!(compare(&short, false), (1, 0));
        assert_eq!(compare(&short, true), (0, 1), "it could be told");
        assert_eq!(compare(&[seen("/ok/a?", "")], false), (0, 0), "it was told");
        let twice = [short.clone(), short].concat();
        assert_eq!(compare(&twice, false), (1, 1), "once");
        for (what, other) in [
            ("a query", seen("/ok/a?b", "")),
            ("another path", seen("/ok", "")),
            ("another body", seen("/ok/a", "x")),
        ] {
            assert_eq!(compare(&[other], false), (0, 1), "{what}");
        }
    }
}
