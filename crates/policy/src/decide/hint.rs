// SPDX-License-Identifier: Apache-2.0
//! What to do next, in one sentence a model or a person can act on. Of a request it shows host,
//! port and method, which are canonical and can't carry anything else; never path, query or header.

use crate::decision::Reason;
use crate::facts::RequestFacts;
use crate::names::{Scheme, ToolName};

pub(super) fn standing(reason: Reason) -> String {
    match reason {
        Reason::SessionFenced => {
            "the session was restarted; this connection belongs to its earlier life"
        }
        Reason::SessionKilled => "the session was killed; a person must start a new one",
        _ => "the session is over; start a new one with `torno run`",
    }
    .to_owned()
}

pub(super) fn organisation() -> String {
    "the organisation's policy does not permit this and no grant can; `torno policy show` prints the rule"
        .to_owned()
}

pub(super) fn undecidable() -> String {
    "this could not be judged, so it is refused; `torno policy explain` shows where it stopped"
        .to_owned()
}

pub(super) fn tool(tool: &ToolName) -> String {
    format!("add `\"{tool}\" = \"ask\"` under [tool] in torno.toml and run `torno trust`")
}

pub(super) fn request(reason: Reason, facts: &RequestFacts) -> String {
    let (host, method) = (&facts.endpoint.host, &facts.method);
    let place = place(facts);
    match reason {
        Reason::HostNotGranted | Reason::PortNotGranted => format!(
            "add [[allow]] {place} methods = [\"{method}\"] to torno.toml and run `torno trust`"
        ),
        Reason::MethodNotGranted => format!(
            "add \"{method}\" to the methods of the [[allow]] rule with {place} in torno.toml and run `torno trust`"
        ),
        Reason::PathNotGranted => format!(
            "add the path to the paths of the [[allow]] rule with {place} in torno.toml and run `torno trust`"
        ),
        Reason::GitNotGranted => format!(
            "add [git.\"https://{host}/…\"] for this repository and operation to torno.toml and run `torno trust`"
        ),
        Reason::RefNotGranted => format!(
            "push to a reference that the push rule of [git.\"https://{host}/…\"] in torno.toml lists"
        ),
        Reason::PhaseNotGranted => {
            "the grant gives this in the session's other phase only; list it under [install] or [[allow]] as needed".to_owned()
        }
        Reason::PlaceholderMissing => format!(
            "send the placeholder from the environment in the header that the credential for {host} is bound to"
        ),
        Reason::PlaceholderRepeated => "send the placeholder once".to_owned(),
        Reason::PlaceholderUnknown => {
            "this placeholder belongs to another session or is dead; use the one from this session's environment".to_owned()
        }
        Reason::CredentialEndpointMismatch => format!(
            "send a placeholder only in the bound header to the bound host; `torno secret bind` (by its owner) can bind it to {host}"
        ),
        Reason::OwnCredential => format!(
            "leave out the credential; for a host without binding, a person can set own_credentials = true in the [[allow]] rule with {place}"
        ),
        Reason::BindingAmbiguous => format!(
            "two bindings match this request to {host}; narrow one with [secret.NAME] narrow = {{ … }} or `torno secret bind`"
        ),
        Reason::BindingNotGranted => format!(
            "the credential for {host} is not bound for this {method} request; its owner can widen it with `torno secret bind`, and narrow in torno.toml must list it"
        ),
        Reason::BindingExpired => format!(
            "the binding to {host} is over; its owner can renew it with `torno secret bind`"
        ),
        Reason::CredentialRevoked => {
            "the credential was revoked; its owner can put a new one with `torno secret put`".to_owned()
        }
        _ => undecidable(),
    }
}

/// The keys of an `[[allow]]` rule that name this endpoint, without those that are the default.
fn place(facts: &RequestFacts) -> String {
    let endpoint = &facts.endpoint;
    let scheme = match endpoint.scheme {
        Scheme::Http => " scheme = \"http\"",
        Scheme::Https => "",
    };
    let port = if endpoint.port == endpoint.scheme.default_port() {
        String::new()
    } else {
        format!(" port = {}", endpoint.port)
    };
    format!("host = \"{}\"{scheme}{port}", endpoint.host)
}
