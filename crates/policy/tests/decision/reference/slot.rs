// SPDX-License-Identifier: Apache-2.0
//! The reference's own reading of slots, by splitting texts. It knows as many spellings of a
//! parameter as the random worlds write.

use super::text_fits;
use torno_policy::binding::{Binding, Cookies, Held, Mode, Slot};
use torno_policy::facts::{Location, Presented, RequestFacts};

const WORD: &str = "{credential}";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Seen {
    Nothing,
    Placeholder,
    Own,
    Twice,
    Nowhere,
}

pub(super) fn header(binding: &Binding) -> Option<&str> {
    match &binding.slot {
        Slot::Header { name, .. } => Some(name),
        Slot::Basic { .. } | Slot::Sigv4(_) | Slot::Jwt(_) => Some("authorization"),
        Slot::Hmac(hmac) => {
            let fields = hmac.fields.iter();
            let mut signed = fields.filter(|field| {
                let said = field.value.to_string();
                said.contains("{hex}") || said.contains("{base64}")
            });
            signed.next().map(|field| field.name.as_str())
        }
        _ => None,
    }
}

pub(super) fn is_said_later(binding: &Binding) -> bool {
    matches!(binding.slot, Slot::WebsocketJson { .. })
}

/// A body that must be read for this binding first.
pub(super) fn is_unread(binding: &Binding, facts: &RequestFacts) -> bool {
    let in_body = match &binding.slot {
        Slot::Form { .. } | Slot::Json { .. } | Slot::Multipart { .. } => true,
        Slot::Hmac(hmac) => hmac.text.to_string().contains("{body"),
        _ => false,
    };
    in_body && facts.body.as_ref().map(|read| &read.slot) != Some(&binding.slot)
}

/// It can have the cookies that it earned with a body, and no body.
pub(super) fn is_bodiless(binding: &Binding, facts: &RequestFacts) -> bool {
    let in_body = matches!(
        binding.slot,
        Slot::Form { .. } | Slot::Json { .. } | Slot::Multipart { .. }
    );
    let method = facts.method.as_str();
    in_body && binding.answers.cookies == Cookies::Broker && (method == "GET" || method == "HEAD")
}

pub(super) fn is_body(one: &Presented) -> bool {
    one.location == Location::Body
}

pub(super) fn nobody_was_named(facts: &RequestFacts) -> bool {
    let at = |location: Location| facts.presented.iter().any(|p| p.location == location);
    let query = facts.path.query().unwrap_or("");
    let body = facts.body.as_ref().map(|read| read.held);
    (body == Some(Held::Placeholder) && !at(Location::Slot))
        || (facts.path.path().contains(WORD) && !at(Location::Path))
        || (query.contains(WORD) && !at(Location::Query))
}

pub(super) fn is_inside(binding: &Binding, seen: Option<Seen>, one: &Presented) -> bool {
    let there = seen == Some(Seen::Placeholder) || seen == Some(Seen::Twice);
    match &binding.slot {
        Slot::Query { .. } => there && one.location == Location::Query,
        Slot::Path { .. } => there && one.location == Location::Path,
        Slot::Form { .. } | Slot::Json { .. } | Slot::Multipart { .. } => {
            there && one.location == Location::Slot
        }
        Slot::WebsocketJson { .. } | Slot::Postgres { .. } => false,
        Slot::Header { .. }
        | Slot::Basic { .. }
        | Slot::Sigv4(_)
        | Slot::Hmac(_)
        | Slot::Jwt(_) => {
            let name = header(binding).unwrap().to_owned();
            one.location == Location::Header(name)
        }
    }
}

pub(super) fn seen(binding: &Binding, facts: &RequestFacts) -> Option<Seen> {
    match &binding.slot {
        Slot::Header { .. } | Slot::Basic { .. } | Slot::WebsocketJson { .. } => None,
        Slot::Postgres { .. } | Slot::Jwt(_) => None,
        Slot::Sigv4(_) => {
            let query = facts.path.query().unwrap_or("").to_lowercase();
            query.contains("x-amz-signature=").then_some(Seen::Own)
        }
        Slot::Form { .. } | Slot::Json { .. } | Slot::Multipart { .. } | Slot::Hmac(_) => {
            let read = facts.body.as_ref()?;
            (read.slot == binding.slot).then_some(match read.held {
                Held::Nothing => Seen::Nothing,
                Held::Placeholder => Seen::Placeholder,
                Held::Own => Seen::Own,
                Held::Twice => Seen::Twice,
                Held::Nowhere => Seen::Nowhere,
            })
        }
        Slot::Query { parameter } => Some(in_query(facts.path.query().unwrap_or(""), parameter)),
        Slot::Path { template } => {
            let path = facts.path.path();
            let (middle, named) = in_path(&template.to_string(), path)?;
            let elsewhere = named.split(WORD).count() - 1 > 1;
            Some(if elsewhere {
                Seen::Twice
            } else {
                state(&middle)
            })
        }
    }
}

fn state(value: &str) -> Seen {
    match value {
        "" => Seen::Nothing,
        WORD => Seen::Placeholder,
        _ => Seen::Own,
    }
}

fn in_query(query: &str, parameter: &str) -> Seen {
    let mut values = Vec::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        if name.to_lowercase() == parameter {
            values.push((name == parameter, value));
        }
    }
    match values.as_slice() {
        [] => Seen::Nothing,
        [(true, value)] => state(value),
        _ => Seen::Twice,
    }
}

/// What stands in the template's segment, and the path with the word there.
fn in_path(template: &str, path: &str) -> Option<(String, String)> {
    let wanted: Vec<&str> = template.split('/').collect();
    let mut given: Vec<String> = path.split('/').map(str::to_owned).collect();
    let at = wanted.iter().position(|segment| segment.contains(WORD))?;
    let (before, after) = wanted[at].split_once(WORD)?;
    let segment = given.get(at)?;
    let middle = segment
        .strip_prefix(before)?
        .strip_suffix(after)?
        .to_owned();
    given[at] = wanted[at].to_owned();
    let named = given.join("/");
    text_fits(template, &named).then_some((middle, named))
}

pub(super) fn judged(binding: &Binding, facts: &RequestFacts) -> String {
    let path = facts.path.path();
    let named = match &binding.slot {
        Slot::Path { template } if binding.mode != Mode::Placeholder => {
            in_path(&template.to_string(), path).map(|(_, named)| named)
        }
        _ => None,
    };
    named.unwrap_or_else(|| path.to_owned())
}

pub(super) fn denies(binding: &Binding, facts: &RequestFacts) -> bool {
    let lower = |text: &str| text.to_lowercase().replace("%2f", "%2F");
    let path = lower(&judged(binding, facts));
    let readings = [path.clone(), path.replace("%2F", "/")];
    binding.denied.iter().any(|denied| {
        let pattern = lower(&denied.path.to_string());
        let method = denied.methods.is_empty() || denied.methods.contains(&facts.method);
        method && readings.iter().any(|path| text_fits(&pattern, path))
    })
}
