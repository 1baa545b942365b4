// SPDX-License-Identifier: Apache-2.0
//! Why nothing of the grant covers a request: the nearest miss, which tells a person what line to
//! change. From near to far: the other phase has it; a rule here has the path; the method; the
//! endpoint; a granted secret is bound here; a git grant is; the host is named at all.

use super::Layers;
use super::cover::{has_path, is_endpoint_of, is_usable, rule_matches};
use crate::binding::Binding;
use crate::decision::Reason;
use crate::facts::RequestFacts;
use crate::grant::AllowRule;
use crate::names::Host;
use crate::standing::Phase;

pub(super) fn reason(layers: &Layers<'_>, phase: Phase, facts: &RequestFacts) -> Reason {
    let grant = layers.grant;
    let here = grant.allow.at(&facts.endpoint);
    let here: Vec<_> = here.filter(|rule| is_endpoint_of(rule, facts)).collect();
    let bound: Vec<_> = granted_bindings(layers)
        .filter(|b| b.endpoint == facts.endpoint)
        .collect();
    let other = phase.other();
    if here
        .iter()
        .any(|rule| rule.phase == other && rule_matches(rule, facts))
        || bound
            .iter()
            .any(|binding| is_usable(grant, binding, other, facts))
    {
        return Reason::PhaseNotGranted;
    }
    let in_phase: Vec<_> = here
        .into_iter()
        .filter(|rule| rule.phase == phase)
        .collect();
    if !in_phase.is_empty() {
        return rule_miss(&in_phase, facts);
    }
    if !bound.is_empty() {
        Reason::BindingNotGranted
    } else if grant.git.iter().any(|git| git.endpoint == facts.endpoint) {
        Reason::GitNotGranted
    } else if names_host(layers, &facts.endpoint.host) {
        Reason::PortNotGranted
    } else {
        Reason::HostNotGranted
    }
}

/// What the rules of this endpoint miss: only the method, only the path, or both.
pub(super) fn rule_miss(rules: &[&AllowRule], facts: &RequestFacts) -> Reason {
    let has_path = |rule: &&AllowRule| has_path(rule, facts);
    let has_method = |rule: &&AllowRule| rule.methods.contains(&facts.method);
    match (rules.iter().any(has_path), rules.iter().any(has_method)) {
        (false, true) => Reason::PathNotGranted,
        (true, _) | (false, false) => Reason::MethodNotGranted,
    }
}

fn names_host(layers: &Layers<'_>, host: &Host) -> bool {
    layers.grant.allow.names(host)
        || layers
            .grant
            .git
            .iter()
            .any(|git| git.endpoint.host == *host)
        || granted_bindings(layers).any(|binding| binding.endpoint.host == *host)
}

/// The bindings of credentials that the grant names under `[secret]`, of either phase.
fn granted_bindings<'a>(layers: &Layers<'a>) -> impl Iterator<Item = &'a Binding> {
    let secrets = &layers.grant.secrets;
    layers.bindings.iter().filter(move |b| {
        secrets
            .iter()
            .any(|secret| secret.credential == b.credential)
    })
}
