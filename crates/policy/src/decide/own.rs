// SPDX-License-Identifier: Apache-2.0
//! `exclusive`: the client's own credentials.
//!
//! On an endpoint that a credential of the session is bound to, none goes through: mode `inject`
//! replaces the one in its slot, everything else is refused, whatever a rule says (an attacker's
//! own key at an allowed host carries data out). On any other endpoint one goes through only where
//! a rule for that exact host says `own_credentials = true`. A `cookie` counts like the others.

use super::cover::Cover;
use super::{Layers, Opinion, hint};
use crate::binding::{Binding, Mode};
use crate::decision::{Layer, PermittedInjection, Reason};
use crate::facts::RequestFacts;
use crate::grant::HostPattern;
use crate::names::RuleName;

pub(super) fn check(
    layers: &Layers<'_>,
    facts: &RequestFacts,
    cover: &Cover<'_>,
    injection: Option<&PermittedInjection>,
) -> Result<(), Opinion> {
    let replaced = injection.filter(|injection| injection.mode == Mode::Inject);
    let replaced = replaced.map(|injection| injection.slot.header_name());
    let stays = facts
        .own_credentials
        .iter()
        .any(|name| Some(name.as_str()) != replaced);
    if !stays {
        return Ok(());
    }
    let exact = cover
        .rules
        .iter()
        .filter(|rule| matches!(rule.host, HostPattern::Exact(_)));
    let granted = exact.into_iter().any(|rule| rule.own_credentials);
    if granted && !is_bound(layers, facts) {
        return Ok(());
    }
    let (rule, reason) = (RuleName::new("exclusive"), Reason::OwnCredential);
    Err(Opinion::deny(
        Layer::Session,
        rule,
        reason,
        hint::credential(reason, facts),
    ))
}

/// Whether any credential that the grant names is bound to this endpoint, for whatever method,
/// path or phase.
fn is_bound(layers: &Layers<'_>, facts: &RequestFacts) -> bool {
    let grant = layers.grant;
    let named = |binding: &Binding| {
        grant
            .secrets
            .iter()
            .any(|secret| secret.credential == binding.credential)
            || grant
                .git
                .iter()
                .any(|git| git.secret.as_ref() == Some(&binding.credential))
    };
    layers
        .bindings
        .iter()
        .any(|binding| binding.endpoint == facts.endpoint && named(binding))
}
