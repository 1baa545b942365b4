// SPDX-License-Identifier: Apache-2.0
//! What to do next, in one sentence a model or a person can act on. Of a request it shows host,
//! port and method, which are canonical and can't carry anything else; never path, query or header.

use super::dialect;
use crate::decision::Reason;
use crate::facts::{AwsAction, Content, RequestFacts};
use crate::grant::{AllowRule, Dialect};
use crate::names::{Scheme, ToolName};
use crate::postgres::Deed;
use crate::registry::Operation;

pub(super) fn standing(reason: Reason) -> String {
    let hint = match reason {
        Reason::SessionFenced => {
            "the session was restarted and this belongs to its earlier life; start a new one"
        }
        Reason::SessionKilled => "the session was killed; a person must start a new one",
        Reason::SessionFrozen => {
            "the session is frozen since a tripwire of its own was on its way out; a person looks \
             at `torno session logs` and ends it with `torno kill`"
        }
        Reason::SessionPaused => {
            "the session is paused; a person goes on with it by `torno session resume`"
        }
        _ => "the session is over; start a new one with `torno run`",
    };
    hint.to_owned()
}

pub(super) fn organisation() -> String {
    "the organisation's policy does not permit this and no grant can; `torno policy show` prints \
     the rule"
        .to_owned()
}

pub(super) fn undecidable() -> String {
    "this could not be judged, so it is refused; `torno policy explain` shows where it stopped"
        .to_owned()
}

/// The hint of a refusal that only the record knows any more.
pub(super) fn next_step(reason: Reason, facts: &RequestFacts) -> String {
    match reason {
        Reason::SessionUnknown
        | Reason::SessionKilled
        | Reason::SessionEnded
        | Reason::SessionFenced
        | Reason::SessionFrozen
        | Reason::SessionPaused => standing(reason),
        Reason::OrganisationForbids => organisation(),
        Reason::Tripwire => tripwire(),
        Reason::OperationNotGranted | Reason::ContentUnread => format!(
            "the [[allow]] rule with {} says what may be said and done there",
            place(facts)
        ),
        _ => credential(reason, facts),
    }
}

/// Said by notary and gate alike.
pub(super) fn tripwire() -> String {
    crate::tripwire::HINT.to_owned()
}

pub(super) fn tool(tool: &ToolName) -> String {
    format!("add `\"{tool}\" = \"ask\"` under [tool] in torno.toml and run `torno trust`")
}

/// The hint for a request that the grant does not cover.
pub(super) fn uncovered(reason: Reason, facts: &RequestFacts) -> String {
    if facts.endpoint.scheme == Scheme::Postgres {
        return database(reason, facts);
    }
    let (host, method, place) = (&facts.endpoint.host, &facts.method, place(facts));
    let change = match reason {
        Reason::HostNotGranted | Reason::PortNotGranted => {
            let websocket = if facts.websocket {
                " websocket = true"
            } else {
                ""
            };
            format!("add [[allow]] {place} methods = [\"{method}\"]{websocket}")
        }
        Reason::WebsocketNotGranted => format!(
            "add websocket = true to the [[allow]] rule with {place} (add that rule where there is \
             none)"
        ),
        Reason::MethodNotGranted => {
            format!("add \"{method}\" to the methods of the [[allow]] rule with {place}")
        }
        Reason::PathNotGranted => {
            format!("add the path to the paths of the [[allow]] rule with {place}")
        }
        Reason::GitNotGranted => {
            format!("add [git.\"https://{host}/…\"] for this repository and operation")
        }
        Reason::RefNotGranted => {
            format!("add the reference to the push refs of [git.\"https://{host}/…\"]")
        }
        Reason::PhaseNotGranted => {
            format!("list {host} for this phase too: under [install], or as [[allow]]")
        }
        Reason::BindingNotGranted => {
            return format!(
                "the credential for {host} is not bound for this {method} request; its owner can \
                 widen it with `torno secret bind`, and a `narrow` in torno.toml must not leave it out"
            );
        }
        _ => return undecidable(),
    };
    format!("{change} in torno.toml and run `torno trust`")
}

/// The hint for what no grant covers at a database. User and database are the workload's words and
/// are not shown.
fn database(reason: Reason, facts: &RequestFacts) -> String {
    let host = &facts.endpoint.host;
    match reason {
        Reason::BindingNotGranted if facts.method == Deed::Write.method() => format!(
            "this connection to {host} may only read; its owner can bind it with `--access write`, \
             and access in torno.toml must not be \"read\""
        ),
        Reason::BindingNotGranted => format!(
            "no secret of this session is bound for this user and database of {host}; use those \
             of the binding, exactly"
        ),
        Reason::PhaseNotGranted => {
            format!("the secret for {host} belongs to another phase; list it for this one")
        }
        _ => format!(
            "bind a password with `torno secret bind NAME --host {host} --postgres …`, add \
             [secret.NAME] to torno.toml and run `torno trust`"
        ),
    }
}

/// The hint for a request at the place of a rule with a dialect, which leaves it out. A JSON-RPC
/// method is the workload's own text and is not shown.
pub(super) fn outside(reason: Reason, rule: &AllowRule, facts: &RequestFacts) -> String {
    let place = place(facts);
    let change = match (reason, &rule.dialect, &facts.content) {
        (Reason::ContentUnread, ..) => {
            return format!(
                "the [[allow]] rule with {place} judges what a request says, and this was not \
                 read; give its content in an act"
            );
        }
        (Reason::OperationNotGranted, Dialect::Registry(registry), _) => {
            let operation = dialect::operation(rule, facts).unwrap_or(Operation::Unknown);
            let protocol = registry.protocol.as_str();
            if operation != Operation::Publish {
                return format!(
                    "this is {operation} at the {protocol} registry, which no rule with \
                     `registry` allows; do it outside of the session"
                );
            }
            format!(
                "this is {operation} at the {protocol} registry: add \"publish\" to the \
                 operations of the [[allow]] rule with {place}"
            )
        }
        (Reason::OperationNotGranted, Dialect::Graphql(granted), Some(Content::Graphql(said))) => {
            let missing = said.iter().find(|operation| !granted.contains(operation));
            match missing {
                Some(missing) => format!(
                    "this is a GraphQL {missing}: add \"{missing}\" to graphql in the \
                     [[allow]] rule with {place}"
                ),
                None => return "send what is no GraphQL query with POST".to_owned(),
            }
        }
        (Reason::OperationNotGranted, Dialect::Aws(granted), Some(Content::Aws(call))) => {
            let is_granted =
                |action: &&AwsAction| granted.actions.iter().any(|one| one.is_match(action));
            let service = &granted.service;
            match call.actions.iter().find(|action| !is_granted(action)) {
                Some(missing) => format!(
                    "this is {missing} at {service}: add \"{missing}\" to the actions of the \
                     [[allow]] rule with {place}"
                ),
                None => {
                    return format!(
                        "this is no action of {service} that is known here; do it outside"
                    );
                }
            }
        }
        (Reason::OperationNotGranted, ..) => {
            format!("add the JSON-RPC method to jsonrpc in the [[allow]] rule with {place}")
        }
        (Reason::MethodNotGranted, Dialect::Graphql(_), _) => {
            return "send GraphQL with POST, or a query with GET".to_owned();
        }
        (Reason::PathNotGranted, ..) => {
            return format!(
                "ask at the path exactly as the [[allow]] rule with {place} spells it: this one \
                 reads like it to some servers"
            );
        }
        _ => return uncovered(reason, facts),
    };
    format!("{change} in torno.toml and run `torno trust`")
}

/// The hint for a request whose placeholder, binding or own credential does not fit.
pub(super) fn credential(reason: Reason, facts: &RequestFacts) -> String {
    let host = &facts.endpoint.host;
    match reason {
        Reason::PlaceholderMissing => {
            format!("send the placeholder of the credential for {host} in the place it is bound to")
        }
        Reason::PlaceholderRepeated => {
            "send the placeholder once; the parameter, field, member or part that it is bound to once \
             and in its one spelling"
                .to_owned()
        }
        Reason::ContentUnread => {
            "the slot of its body was not read; give what it holds as `body` in an act".to_owned()
        }
        Reason::PlaceholderUnknown => "this placeholder belongs to another session or is dead; \
                                       use the one from this session's environment"
            .to_owned(),
        Reason::CredentialEndpointMismatch => format!(
            "send a placeholder in the place it is bound to, to its bound host only; the credential's \
             owner can bind it to {host} with `torno secret bind`"
        ),
        Reason::OwnCredential => format!(
            "leave the credential out; at a host without binding, own_credentials = true in the \
             [[allow]] rule with {} would let it through",
            place(facts)
        ),
        Reason::BindingDenies => format!(
            "at {host} this makes another credential or leaves authority behind (a key, hook, \
             token, member …), which the binding denies; its owner can lift that with \
             `torno secret bind … --allow-minting`"
        ),
        Reason::BindingAmbiguous => format!(
            "two bindings match this request to {host}; narrow one with [secret.NAME] narrow or \
             `torno secret bind`"
        ),
        Reason::BindingExpired => {
            format!(
                "the binding to {host} is over; its owner can renew it with `torno secret bind`"
            )
        }
        Reason::CredentialRevoked => {
            "the credential was revoked; its owner can put a new one with `torno secret put`"
                .to_owned()
        }
        _ => uncovered(reason, facts),
    }
}

/// The keys of an `[[allow]]` rule that name this endpoint, without those that are the default.
fn place(facts: &RequestFacts) -> String {
    let endpoint = &facts.endpoint;
    let scheme = match endpoint.scheme {
        Scheme::Http => " scheme = \"http\"",
        Scheme::Https | Scheme::Postgres => "",
    };
    let port = if endpoint.port == endpoint.scheme.default_port() {
        String::new()
    } else {
        format!(" port = {}", endpoint.port)
    };
    format!("host = \"{}\"{scheme}{port}", endpoint.host)
}
