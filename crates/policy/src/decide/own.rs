// SPDX-License-Identifier: Apache-2.0
//! `exclusive`: the client's own credentials.
//!
//! On an endpoint that a credential of the session is bound to, none goes through: mode `inject`
//! replaces the one in its slot, cookies that the gate keeps replace all of the client's, and
//! everything else is refused, whatever a rule says (an attacker's own key at an allowed host
//! carries data out). On any other endpoint one goes through only where
//! a rule for that exact host says `own_credentials = true`. A `cookie` counts like the others, and
//! so does what stands in the parameter or segment that such a binding fills, and in the place of a
//! body that was read for one; so does a presigned URL where such a binding signs.

use super::cover::Cover;
use super::credential::held;
use super::{Layers, Opinion, hint};
use crate::binding::{Binding, Held, Mode, Slot};
use crate::decision::{Layer, PermittedInjection, PermittedKeeping, Reason};
use crate::facts::RequestFacts;
use crate::grant::HostPattern;
use crate::names::RuleName;

pub(super) fn check(
    layers: &Layers<'_>,
    facts: &RequestFacts,
    cover: &Cover<'_>,
    (injection, keeping): (Option<&PermittedInjection>, Option<&PermittedKeeping>),
) -> Result<(), Opinion> {
    let replaced = injection.filter(|injection| injection.mode == Mode::Inject);
    let replaced = replaced.map(|injection| &injection.slot);
    let brokers = keeping.is_some_and(|keeping| keeping.cookies);
    let goes = |name: &String| {
        replaced.is_some_and(|slot| slot.writes(name)) || (brokers && name == "cookie")
    };
    let in_header = !facts.own_credentials.iter().all(goes);
    let in_slot = bound(layers, facts).any(|binding| is_own(&binding.slot, replaced, facts));
    if !in_header && !in_slot {
        return Ok(());
    }
    let exact = cover
        .rules
        .iter()
        .filter(|rule| matches!(rule.host, HostPattern::Exact(_)));
    let granted = exact.into_iter().any(|rule| rule.own_credentials);
    if granted && bound(layers, facts).next().is_none() {
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

/// Whether the client has something of its own where the slot is in the query, the path or a body
/// that was read, and it is not replaced.
fn is_own(slot: &Slot, replaced: Option<&Slot>, facts: &RequestFacts) -> bool {
    replaced != Some(slot) && matches!(held(slot, facts), Some(Held::Own | Held::Twice))
}

/// The bindings to this endpoint of any credential that the grant names, for whatever method, path
/// or phase.
fn bound<'a>(layers: &Layers<'a>, facts: &'a RequestFacts) -> impl Iterator<Item = &'a Binding> {
    let grant = layers.grant;
    let named = move |binding: &Binding| {
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
        .filter(move |binding| binding.endpoint == facts.endpoint && named(binding))
}
