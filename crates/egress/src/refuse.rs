// SPDX-License-Identifier: Apache-2.0
//! The one exit for every refusal: recorded (repeats coalesce), and answered with a reason that a
//! model can act on. The answer's text is fixed; nothing of the request is repeated in it.

mod grpc;
mod postgres;

pub(crate) use postgres::{When, cut, error_response};

use crate::ports::Ask;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;
use torno_notary_protocol::gate::WireRefusal;
use torno_policy::facts::Location;
use torno_policy::names::RuleName;
use torno_policy::{Layer, Reason, Refusal};

/// Why the gate itself refuses: a reason, where, and what to do next. Copies nothing hostile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) reason: Reason,
    pub(crate) hint: &'static str,
    pub(crate) location: Option<Location>,
    /// The limit that was reached, by its name in the policy file.
    pub(crate) rule: Option<&'static str>,
}

impl Fault {
    pub(crate) const fn new(reason: Reason, hint: &'static str) -> Self {
        Self {
            reason,
            hint,
            location: None,
            rule: None,
        }
    }

    pub(crate) const fn by(mut self, rule: &'static str) -> Self {
        self.rule = Some(rule);
        self
    }

    pub(crate) const fn malformed(hint: &'static str) -> Self {
        Self::new(Reason::MalformedRequest, hint)
    }

    pub(crate) const fn answer(hint: &'static str) -> Self {
        Self::new(Reason::UpstreamResponse, hint)
    }

    pub(crate) fn at(mut self, location: Location) -> Self {
        self.location = Some(location);
        self
    }

    /// The refusal as it is recorded and answered.
    pub(crate) fn refusal(&self) -> Refusal {
        let (layer, rule) = match self.reason {
            Reason::ConnectFailed
            | Reason::UpstreamTls
            | Reason::UpstreamResponse
            | Reason::UpstreamTimeout
            | Reason::NameUnresolved
            | Reason::AddressRefused => (Layer::Connect, "egress.connect"),
            Reason::LimitReached => (Layer::Session, "egress.limits"),
            _ => (Layer::Wire, "egress.wire"),
        };
        Refusal {
            reason: self.reason,
            layer,
            rule: RuleName::new(self.rule.unwrap_or(rule)),
            hint: self.hint.to_owned(),
        }
    }
}

/// How a refusal is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Form {
    /// By status, with the reason as JSON.
    #[default]
    Http,
    /// The same, as text: of what git looks up before it fetches or pushes, it shows no other kind.
    Git,
    /// As clients of gRPC read it: 200 and a status of its own.
    Grpc,
}

/// The whole answer to a refused request.
pub(crate) fn answer(refusal: &Refusal, form: Form, close: bool, without_body: bool) -> Vec<u8> {
    if form == Form::Grpc {
        return grpc::answer(refusal);
    }
    let body = body(refusal);
    let status = refusal.reason.status();
    let mut head = String::with_capacity(320 + body.len());
    let connection = if close { "close" } else { "keep-alive" };
    let kind = match form {
        Form::Git => "text/plain",
        Form::Http | Form::Grpc => "application/json",
    };
    // INVARIANT: writing to a String never fails.
    let _ = write!(
        head,
        "HTTP/1.1 {status} {}\r\ncontent-type: {kind}\r\nx-content-type-options: nosniff\r\n\
         cache-control: no-store\r\n{}content-length: {}\r\nconnection: {connection}\r\n\r\n",
        phrase(status),
        retry_after(refusal),
        body.len(),
    );
    if !without_body {
        head.push_str(&body);
    }
    head.into_bytes()
}

/// Where time alone mends it: within a second there is room for another request.
fn retry_after(refusal: &Refusal) -> &'static str {
    match refusal.rule.as_str() {
        "limits.rate" => "retry-after: 1\r\n",
        _ => "",
    }
}

/// ATTACK: 112 – JSON alone would let `<` through to a viewer that guesses types.
fn body(refusal: &Refusal) -> String {
    let json = serde_json::to_string(refusal).unwrap_or_else(|_| String::from("{}"));
    let mut safe = String::with_capacity(json.len());
    for character in json.chars() {
        match character {
            '<' | '>' | '&' | '\u{7f}'.. => {
                let mut units = [0; 2];
                for unit in character.encode_utf16(&mut units) {
                    let _ = write!(safe, "\\u{unit:04x}");
                }
            }
            plain => safe.push(plain),
        }
    }
    safe
}

fn phrase(status: u16) -> &'static str {
    match status {
        400 => "Bad Request",
        403 => "Forbidden",
        413 => "Content Too Large",
        421 => "Misdirected Request",
        429 => "Too Many Requests",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        _ => "Refused",
    }
}

/// LIMIT: what is read and thrown away after an answer that came first, so that the client reads it
/// before its connection or stream is reset.
pub(crate) const DRAIN_BYTES: usize = 1 << 20;
pub(crate) const DRAIN_WAIT: Duration = Duration::from_secs(2);
/// LIMIT: equal refusals within a second are one record; a loop that polls stays readable.
const COALESCE: Duration = Duration::from_secs(1);
/// LIMIT: kinds of refusal that are counted at once; at the limit all are written and forgotten.
const KINDS_MAX: usize = 256;
/// LIMIT: characters of a target in the record, as the protocol says.
const TARGET_CHARS_MAX: usize = 256;

type Kind = (Reason, Option<Location>, String);

struct Repeats {
    since: Instant,
    more: u32,
    refusal: Refusal,
}

/// Records refusals that no question was asked for. The first of a kind is told at once; repeats
/// within [`COALESCE`] are counted and told together, at the latest when the session ends.
pub(crate) struct Refusals {
    ask: Arc<dyn Ask>,
    kinds: Mutex<HashMap<Kind, Repeats>>,
}

impl Refusals {
    pub(crate) fn new(ask: Arc<dyn Ask>) -> Self {
        Self {
            ask,
            kinds: Mutex::new(HashMap::new()),
        }
    }

    /// Records one refusal of the gate and gives it back as it is answered.
    pub(crate) fn record(&self, fault: &Fault, target: &str) -> Refusal {
        let refusal = fault.refusal();
        let now = Instant::now();
        let kind = (fault.reason, fault.location.clone(), escaped(target));
        let mut kinds = self.kinds.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(repeats) = kinds.get_mut(&kind)
            && now.duration_since(repeats.since) < COALESCE
        {
            repeats.more = repeats.more.saturating_add(1);
            return refusal;
        }
        if kinds.len() >= KINDS_MAX {
            self.tell_all(&mut kinds);
        }
        let fresh = Repeats {
            since: now,
            more: 0,
            refusal: refusal.clone(),
        };
        let before = kinds.insert(kind.clone(), fresh);
        let count = before.map_or(0, |b| b.more).saturating_add(1);
        self.tell(&kind, refusal.clone(), count);
        refusal
    }

    /// Tells what has been counted for longer than [`COALESCE`].
    pub(crate) fn tell_due(&self) {
        let now = Instant::now();
        let mut kinds = self.kinds.lock().unwrap_or_else(PoisonError::into_inner);
        kinds.retain(|kind, repeats| {
            let due = now.duration_since(repeats.since) >= COALESCE;
            if due && repeats.more > 0 {
                self.tell(kind, repeats.refusal.clone(), repeats.more);
            }
            !due
        });
    }

    fn tell_all(&self, kinds: &mut HashMap<Kind, Repeats>) {
        for (kind, repeats) in kinds.drain() {
            if repeats.more > 0 {
                self.tell(&kind, repeats.refusal, repeats.more);
            }
        }
    }

    fn tell(&self, (_, location, target): &Kind, refusal: Refusal, count: u32) {
        self.ask.refused(WireRefusal {
            refusal,
            location: location.clone(),
            target: target.clone(),
            count,
        });
    }
}

impl Drop for Refusals {
    fn drop(&mut self) {
        let mut kinds = std::mem::take(&mut self.kinds);
        let kinds = kinds.get_mut().unwrap_or_else(PoisonError::into_inner);
        self.tell_all(kinds);
    }
}

/// ATTACK: 212 – a line break or escape sequence never reaches the record.
fn escaped(target: &str) -> String {
    let escaped = target.bytes().flat_map(std::ascii::escape_default);
    escaped.take(TARGET_CHARS_MAX).map(char::from).collect()
}

#[cfg(test)]
mod tests;
