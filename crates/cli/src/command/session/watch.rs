// SPDX-License-Identifier: Apache-2.0
//! `torno session watch`: requests as they are decided and as they end, one line each, from the
//! record alone. It ends with the session. Everything in a line was chosen by a workload, so it
//! goes through `printable.rs`.

use crate::clock;
use crate::command::audit::Tail;
use crate::context::{Context, say};
use crate::printable;
use crate::stop::Outcome;
use serde::Serialize;
use std::collections::BTreeMap;
use torno_audit::line::Record;
use torno_audit::record::Verdict;
use torno_audit::{Event, RequestDecided, RequestEnded, request};
use torno_policy::decide::next_step;
use torno_policy::facts::RequestFacts;
use torno_policy::names::{RecordSeq, RequestPath, SessionId};

/// LIMIT: requests under way whose end is waited for; the oldest are forgotten, and their end then
/// shows without its place. A gate has fewer connections than this.
const UNDER_WAY_MAX: usize = 8_192;

/// Shows a session until it is over, or every session until interrupted.
pub(super) async fn watch(session: Option<&SessionId>, context: &Context) -> Outcome {
    let mut tail = Tail::open(&context.paths.record(), session.is_some())?;
    let mut view = View::default();
    loop {
        for record in tail.more()? {
            let record = record?;
            if session.is_some() && record.entry.session.as_ref() != session {
                continue;
            }
            if let Some(line) = view.take(&record) {
                show(&line, context)?;
            }
            if session.is_some() && is_over(&record.entry.event) {
                return Ok(());
            }
        }
        tail.wait().await;
    }
}

const fn is_over(event: &Event) -> bool {
    matches!(event, Event::SessionEnded { .. } | Event::SessionKilled)
}

/// What one line says. Its names are the output's with `--output json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Line {
    at: String,
    session: Option<String>,
    /// `allow`, `ask`, `deny`; `end` of a session's own events.
    decision: &'static str,
    what: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<(u64, u64)>,
    #[serde(skip_serializing_if = "Option::is_none")]
    credential: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rule: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
}

/// Requests that were allowed and have not ended.
#[derive(Default)]
struct View {
    under_way: BTreeMap<RecordSeq, Box<RequestDecided>>,
}

impl View {
    /// The line of a record, if it has one. An allowed request shows when it ended.
    fn take(&mut self, record: &Record) -> Option<Line> {
        let mut line = Line {
            at: clock::milliseconds(record.entry.at_ms),
            session: record.entry.session.as_ref().map(ToString::to_string),
            decision: "end",
            what: String::new(),
            status: None,
            bytes: None,
            credential: None,
            reason: None,
            rule: None,
            hint: None,
        };
        match &record.entry.event {
            Event::RequestDecided(decided) if decided.verdict == Verdict::Allow => {
                if self.under_way.len() >= UNDER_WAY_MAX {
                    self.under_way.pop_first();
                }
                self.under_way.insert(record.seq, decided.clone());
                return None;
            }
            Event::RequestDecided(decided) => refused(&mut line, decided),
            Event::RequestEnded(ended) => {
                ended_line(&mut line, ended, self.under_way.remove(&ended.decision));
            }
            Event::RequestRefused(refused) => {
                line.decision = "deny";
                line.what = format!("{} ×{}", refused.target.as_str(), refused.count);
                line.reason = Some(refused.reason.code());
                line.rule = Some(refused.rule.as_str().to_owned());
            }
            Event::TripwireSeen(seen) => {
                line.decision = "deny";
                line.what = format!(
                    "a tripwire in the {} for {}: the session is frozen",
                    seen.location.as_str(),
                    seen.endpoint
                );
                line.rule = Some(seen.wire.rule().to_string());
            }
            Event::BudgetFrozen { records } => {
                line.decision = "deny";
                line.what = format!("its {records} records are spent: the session is frozen");
            }
            Event::SessionEnded { .. } => "the session ended".clone_into(&mut line.what),
            Event::SessionKilled => "the session was killed".clone_into(&mut line.what),
            _ => return None,
        }
        Some(line)
    }
}

fn place(decided: &RequestDecided) -> String {
    let (endpoint, path) = (decided.endpoint.to_string(), decided.path.as_str());
    let default = format!(":{}", decided.endpoint.scheme.default_port());
    let endpoint = endpoint.strip_suffix(&default).unwrap_or(&endpoint);
    format!("{} {endpoint}{path}", decided.method)
}

fn refused(line: &mut Line, decided: &RequestDecided) {
    line.decision = match decided.verdict {
        Verdict::Allow => "allow",
        Verdict::Ask => "ask",
        Verdict::Deny => "deny",
    };
    line.what = place(decided);
    line.rule = Some(decided.rule.as_str().to_owned());
    line.reason = decided.reason.map(torno_policy::Reason::code);
    line.hint = decided.reason.and_then(|reason| {
        let path = RequestPath::parse_named(decided.path.as_str()).ok()?;
        Some(next_step(reason, &facts(decided, path)))
    });
}

/// As far as the record tells them.
fn facts(decided: &RequestDecided, path: RequestPath) -> RequestFacts {
    RequestFacts {
        entry: decided.entry,
        endpoint: decided.endpoint.clone(),
        method: decided.method.clone(),
        path,
        websocket: false,
        presented: Vec::new(),
        own_credentials: Vec::new(),
        git: None,
        content: None,
        body: None,
    }
}

fn ended_line(line: &mut Line, ended: &RequestEnded, decided: Option<Box<RequestDecided>>) {
    line.decision = match ended.outcome {
        request::Outcome::Completed | request::Outcome::Aborted => "allow",
        request::Outcome::Refused => "deny",
    };
    line.status = ended.status;
    line.bytes = Some((ended.sent, ended.received));
    line.reason = ended.reason.map(torno_policy::Reason::code);
    match decided {
        Some(decided) => {
            line.what = place(&decided);
            line.credential = decided.credential.as_ref().map(ToString::to_string);
            line.rule = Some(decided.rule.as_str().to_owned());
        }
        None => line.what = format!("the request of record {}", ended.decision),
    }
}

fn show(line: &Line, context: &Context) -> Outcome {
    if context.json {
        return context.show(line, "");
    }
    say(&text(line, context.color_out))
}

/// One line, and the hint of a refusal below it.
fn text(line: &Line, color: bool) -> String {
    let paint = |text: &str, code: &str| {
        if color {
            format!("\x1b[{code}m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    };
    let decision = match line.decision {
        "allow" => paint("allow", "32"),
        "deny" => paint("deny ", "31"),
        "ask" => paint("ask  ", "33"),
        other => format!("{other:5}"),
    };
    let status = line
        .status
        .map_or_else(|| "-".to_owned(), |status| status.to_string());
    let mut text = format!("{}  {decision}", line.at);
    if line.bytes.is_some() {
        text.push_str(&format!("  {status:>3}"));
    }
    text.push_str(&format!("  {}", printable::line(&line.what)));
    if let Some((sent, received)) = line.bytes {
        text.push_str(&format!("  {sent} up, {received} down"));
    }
    if let Some(credential) = &line.credential {
        text.push_str(&format!("  with {}", printable::line(credential)));
    }
    if let Some(reason) = line.reason {
        text.push_str(&format!("  {reason}"));
    }
    if let Some(rule) = &line.rule {
        text.push_str(&format!("  ({})", printable::line(rule)));
    }
    text.push('\n');
    if let Some(hint) = &line.hint {
        let hint = paint(&printable::line(hint), "2");
        text.push_str(&format!("      {hint}\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn record(seq: u64, event: &Value) -> Record {
        let line = json!({ "seq": seq, "at": 1_700_000_000_000_u64, "session": "s1",
            "event": event });
        torno_audit::line::parse(line.to_string().as_bytes()).unwrap()
    }

    fn decided(seq: u64, verdict: &str, reason: Option<&str>, path: &str) -> Record {
        let endpoint = json!({ "scheme": "https", "host": "api.example.test", "port": 443 });
        record(
            seq,
            &json!({ "kind": "request_decided", "entry": "captured", "endpoint": endpoint,
                "method": "POST", "path": path, "query_bytes": null, "verdict": verdict,
                "layer": "session", "rule": "grant.allow[0]", "reason": reason,
                "credential": (verdict == "allow").then_some("github"), "binding": null,
                "git": null }),
        )
    }

    fn ended(seq: u64, decision: u64) -> Record {
        record(
            seq,
            &json!({ "kind": "request_ended", "decision": decision, "outcome": "completed",
                "status": 201, "reason": null, "sent": 5, "received": 7, "reflected": 0,
                "carried": 0, "address": null, "resolved_by_proxy": false }),
        )
    }

    #[test]
    fn an_allowed_request_is_one_line_when_it_ended() {
        let mut view = View::default();
        assert_eq!(view.take(&decided(4, "allow", None, "/v1/items")), None);
        let line = view.take(&ended(5, 4)).unwrap();
        let text = text(&line, false);
        let expected = "allow  201  POST https://api.example.test/v1/items  5 up, 7 down  \
                        with github  (grant.allow[0])\n";
        assert!(text.ends_with(expected), "{text}");
        assert!(view.under_way.is_empty());
        assert!(view.take(&ended(6, 4)).unwrap().what.contains("record 4"));
    }

    #[test]
    fn a_refused_request_says_at_once_what_to_do() {
        let refused = decided(4, "deny", Some("host_not_granted"), "/");
        let line = View::default().take(&refused).unwrap();
        let hint = line.hint.clone().unwrap();
        assert!(
            hint.contains("[[allow]] host = \"api.example.test\""),
            "{hint}"
        );
        let text = text(&line, false);
        assert!(
            text.contains("host_not_granted  (grant.allow[0])\n      add "),
            "{text}"
        );
    }

    // ATTACK: 212
    #[test]
    fn no_line_moves_a_terminal_and_colours_are_ours_alone() {
        let mut view = View::default();
        assert_eq!(view.take(&decided(4, "allow", None, "/")), None);
        let mut line = view.take(&ended(5, 4)).unwrap();
        line.what.push_str("x\u{1b}[2K\n99 forged\u{202e}");
        let plain = text(&line, false);
        let shown = plain.strip_suffix('\n').unwrap();
        assert!(!shown.contains(char::is_control), "{plain:?}");
        assert!(!plain.contains('\u{202e}'), "{plain:?}");
        let bright = text(&line, true);
        assert_eq!(bright.matches('\x1b').count(), 2, "{bright:?}");
    }
}
