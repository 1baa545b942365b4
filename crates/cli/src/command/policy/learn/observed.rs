// SPDX-License-Identifier: Apache-2.0
//! What a session asked for: the requests that rules can be learnt from, and a line for each other
//! one that says why it is none.

use std::collections::BTreeSet;
use std::fmt;
use torno_audit::record::Verdict;
use torno_audit::{Event, RequestDecided};
use torno_policy::Reason;
use torno_policy::facts::{Entry, RequestFacts};
use torno_policy::names::{Endpoint, Method, RequestPath};

/// A request that a rule is learnt from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Learnt {
    pub(super) endpoint: Endpoint,
    pub(super) method: Method,
    pub(super) path: RequestPath,
}

impl Learnt {
    /// As it is judged.
    pub(super) fn facts(&self) -> RequestFacts {
        RequestFacts {
            entry: Entry::Captured,
            endpoint: self.endpoint.clone(),
            method: self.method.clone(),
            path: self.path.clone(),
            websocket: false,
            presented: Vec::new(),
            own_credentials: Vec::new(),
            git: None,
            content: None,
            body: None,
        }
    }
}

impl fmt::Display for Learnt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.path();
        write!(f, "{} {}{path}", self.method, self.endpoint)
    }
}

/// LIMIT: lines about what is not learnt; further ones are a count.
const LEFT_MAX: usize = 100;

/// The requests of a session, each once.
#[derive(Debug, Default)]
pub(super) struct Observed {
    pub(super) learnt: Vec<Learnt>,
    pub(super) left: Vec<String>,
    seen: BTreeSet<String>,
    requests: usize,
}

impl Observed {
    /// Whether the session asked for nothing.
    pub(super) const fn is_empty(&self) -> bool {
        self.requests == 0
    }

    /// Takes one record of the session.
    pub(super) fn take(&mut self, event: &Event) {
        match event {
            Event::RequestDecided(decided) => self.decided(decided),
            // What came before belongs to its install phase.
            Event::SessionLocked => {
                let count = self.learnt.len();
                self.learnt.clear();
                self.seen.clear();
                self.leave(format!(
                    "not learnt: {count} requests of the install phase; `torno preset learn` is \
                     for those"
                ));
            }
            _ => {}
        }
    }

    fn decided(&mut self, decided: &RequestDecided) {
        self.requests += 1;
        let place = format!(
            "{} {}{}",
            decided.method,
            decided.endpoint,
            decided.path.as_str()
        );
        let reason = decided.reason.map_or("", Reason::code);
        if !self.seen.insert(format!("{place} {reason}")) {
            return;
        }
        if let Some(why) = why_not(decided) {
            self.leave(format!("not learnt, {why}: {place}"));
            return;
        }
        // A star that a client wrote would stand for everything in a pattern.
        let path = Some(decided.path.as_str()).filter(|path| !path.contains('*'));
        match path.and_then(|path| RequestPath::parse(path).ok()) {
            Some(path) if decided.path.cut().is_none() => self.learnt.push(Learnt {
                endpoint: decided.endpoint.clone(),
                method: decided.method.clone(),
                path,
            }),
            Some(_) | None => {
                self.leave(format!("not learnt, its path can't be a pattern: {place}"));
            }
        }
    }

    fn leave(&mut self, line: String) {
        match self.left.len() {
            ..LEFT_MAX => self.left.push(line),
            LEFT_MAX => self.left.push("further ones are left out here".to_owned()),
            _ => {}
        }
    }
}

/// Why no rule is learnt from a request.
fn why_not(decided: &RequestDecided) -> Option<String> {
    let host = &decided.endpoint.host;
    if decided.git.is_some() {
        return Some("git has sections of its own ([git.\"https://…\"])".to_owned());
    }
    if let Some(name) = &decided.credential {
        return Some(format!(
            "it used {name} (keep its [secret.{name}]; `torno secret bind {name} --host {host} \
             --method {} --path …` says where it may go)",
            decided.method
        ));
    }
    if decided.content.is_some() {
        return Some("a rule judged what it said; keep that rule".to_owned());
    }
    match (decided.verdict, decided.reason) {
        (Verdict::Allow | Verdict::Ask, _) => None,
        (
            Verdict::Deny,
            Some(
                Reason::HostNotGranted
                | Reason::PortNotGranted
                | Reason::MethodNotGranted
                | Reason::PathNotGranted,
            ),
        ) => None,
        (Verdict::Deny, Some(Reason::WebsocketNotGranted)) => {
            Some("a WebSocket is opened by a rule with `websocket = true`".to_owned())
        }
        (Verdict::Deny, Some(Reason::OwnCredential)) => {
            Some("the client brought a credential of its own".to_owned())
        }
        (Verdict::Deny, reason) => Some(reason.map_or("refused", Reason::code).to_owned()),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use serde_json::json;

    /// A record of a decision.
    pub(in super::super) fn decided(
        (host, method, path): (&str, &str, &str),
        (reason, credential): (Option<&str>, Option<&str>),
    ) -> Event {
        let verdict = if reason.is_some() { "deny" } else { "allow" };
        serde_json::from_value(json!({
            "kind": "request_decided", "entry": "captured",
            "endpoint": { "scheme": "https", "host": host, "port": 443 },
            "method": method, "path": path, "query_bytes": null, "verdict": verdict,
            "layer": "session", "rule": "grant.allow[0]", "reason": reason,
            "credential": credential, "binding": null, "git": null,
        }))
        .unwrap()
    }

    #[test]
    fn nothing_is_learnt_from_credentials_stars_malice_or_the_install_phase() {
        let mut observed = Observed::default();
        observed.take(&decided(("early.test", "GET", "/"), (None, None)));
        observed.take(&Event::SessionLocked);
        let host = "allow.test";
        observed.take(&decided((host, "GET", "/a"), (None, None)));
        observed.take(&decided((host, "GET", "/a"), (None, None)));
        let missing = Some("host_not_granted");
        observed.take(&decided(("new.test", "POST", "/b"), (missing, None)));
        for (path, reason, credential) in [
            ("/c", None, Some("github")),
            ("/d/*", None, None),
            ("/e", Some("tripwire"), None),
            ("/f", Some("organisation_forbids"), None),
            ("/g", Some("own_credential"), None),
            ("/h", Some("placeholder_unknown"), None),
            ("/i", Some("websocket_not_granted"), None),
        ] {
            observed.take(&decided((host, "GET", path), (reason, credential)));
        }
        let learnt: Vec<_> = observed.learnt.iter().map(ToString::to_string).collect();
        assert_eq!(
            learnt,
            [
                "GET https://allow.test:443/a",
                "POST https://new.test:443/b"
            ]
        );
        assert_eq!(observed.left.len(), 8, "{:?}", observed.left);
        assert!(observed.left[1].contains("torno secret bind github --host allow.test"));
    }
}
