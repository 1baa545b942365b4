// SPDX-License-Identifier: Apache-2.0
//! The vault layer: which credential goes in, if any.
//!
//! First: a placeholder that this session was not given is refused anywhere. Then, by the bindings
//! that cover the request and have not expired:
//!
//! | live | mode | placeholders outside the body | answer |
//! |---|---|---|---|
//! | 2 or more | any | any | `binding_ambiguous` |
//! | 1, http, not `plaintext` | any | any | `credential_endpoint_mismatch` |
//! | 1 | any | two in its slot, or the slot twice | `placeholder_repeated` |
//! | 1 | any | one elsewhere, or another credential's | `credential_endpoint_mismatch` |
//! | 1, in a body that was not read for it | any | none elsewhere | `content_unread` |
//! | 1 | any | as in the next three rows, and the binding denies it | `binding_denies` |
//! | 1 | any | as in them, and its signature would mint unseen | `binding_denies` |
//! | 1 | `inject`, `placeholder_or_inject` | none, and no place for one | `placeholder_missing` |
//! | 1 | any | its own, in its slot | put in |
//! | 1 | `inject`, `placeholder_or_inject` | none | put in |
//! | 1 | `placeholder` | none | goes without if a rule or git grant covers it |
//! | 1, in a body, and the method has none | any | none | as in the row above and the next |
//! | 1 | `placeholder` | none, only the binding covers it | `placeholder_missing` |
//! | 0, one expired | not `placeholder` | none | `binding_expired` |
//! | 0 | `placeholder` or no binding | none | goes without if a rule or git grant covers it |
//! | 0 | – | its credential has no binding left | `credential_revoked` |
//! | 0 | – | its binding here has expired | `binding_expired` |
//! | 0 | – | its binding here is of the other phase | `phase_not_granted` |
//! | 0 | – | its binding here is for other methods or paths | `binding_not_granted` |
//! | 0 | – | any other | `credential_endpoint_mismatch` |
//!
//! Placeholders in a body are inert outside of the slot: nothing is put there. A slot in a
//! WebSocket is filled when its message comes, so its credential goes to the gate with the
//! handshake.

use super::cover::{self, Cover};
use super::{IssuedPlaceholder, Layers, Opinion, hint, tripwire};
use crate::binding::{Binding, Cookies, Held, Mode, Slot};
use crate::decision::{Layer, PermittedInjection, PermittedKeeping, Reason};
use crate::facts::{Location, Presented, RequestFacts};
use crate::grant::{AllowRule, Dialect};
use crate::names::{CredentialName, RuleName, Scheme};
use crate::standing::Phase;

/// The credential to put in, if any, or why the request may not go.
pub(super) fn choose(
    layers: &Layers<'_>,
    phase: Phase,
    facts: &RequestFacts,
    cover: &Cover<'_>,
) -> Result<Option<PermittedInjection>, Opinion> {
    let mut presented = Vec::new();
    for one in &facts.presented {
        // A tripwire that was let through is quoted in a transcript.
        if tripwire::issued(layers, one).is_some() {
            continue;
        }
        let issued = layers
            .placeholders
            .iter()
            .find(|issued| issued.digest == one.digest);
        let Some(issued) = issued else {
            return Err(deny("placeholder", Reason::PlaceholderUnknown, facts));
        };
        if one.location != Location::Body {
            presented.push((one, issued));
        }
    }
    match live(layers, cover).as_slice() {
        [] => without_binding(
            layers,
            phase,
            facts,
            cover,
            presented.first().map(|(_, i)| *i),
        ),
        [binding] => with_binding(binding, facts, cover, &presented),
        [first, ..] => Err(deny_binding(first, Reason::BindingAmbiguous, facts)),
    }
}

/// The slot of a body that must be read before it is known what the client has there.
pub(super) fn unread(layers: &Layers<'_>, phase: Phase, facts: &RequestFacts) -> Option<Slot> {
    let cover = cover::cover(layers, phase, facts).ok()?;
    match live(layers, &cover).as_slice() {
        [binding] => is_unread(binding, facts).then(|| binding.slot.clone()),
        _ => None,
    }
}

/// What is kept of the answer: where one binding covers the request, does not deny it, and says so.
pub(super) fn keeping(
    layers: &Layers<'_>,
    facts: &RequestFacts,
    cover: &Cover<'_>,
) -> Option<PermittedKeeping> {
    let live = live(layers, cover);
    let [binding] = live.as_slice() else {
        return None;
    };
    if binding.denies(&facts.method, &facts.path) {
        return None;
    }
    let keeping = PermittedKeeping {
        binding: binding.id.clone(),
        credential: binding.credential.clone(),
        cookies: binding.answers.cookies == Cookies::Broker,
        tokens: binding.answers.makes_tokens(&binding.judged(&facts.path)),
    };
    (keeping.cookies || keeping.tokens).then_some(keeping)
}

fn live<'a>(layers: &Layers<'_>, cover: &Cover<'a>) -> Vec<&'a Binding> {
    let bindings = cover.bindings.iter().copied();
    bindings
        .filter(|binding| !is_expired(binding, layers.now))
        .collect()
}

fn is_unread(binding: &Binding, facts: &RequestFacts) -> bool {
    let has_place = binding.slot.reads_body() && !binding.has_no_place(&facts.method);
    has_place && held(&binding.slot, facts).is_none()
}

/// What the client has in the slot; nothing where it is a header, or was not read.
pub(super) fn held(slot: &Slot, facts: &RequestFacts) -> Option<Held> {
    let read = facts.body.as_ref().filter(|read| read.slot == *slot);
    read.map_or_else(|| slot.held(&facts.path), |read| Some(read.held))
}

/// The rule that the vault layer names when it has nothing against a request.
pub(super) fn rule(injection: &Option<PermittedInjection>) -> RuleName {
    match injection {
        Some(injection) => RuleName::new(format!("binding.{}", injection.binding)),
        None => RuleName::new("no-credential"),
    }
}

fn with_binding(
    binding: &Binding,
    facts: &RequestFacts,
    cover: &Cover<'_>,
    presented: &[(&Presented, &IssuedPlaceholder)],
) -> Result<Option<PermittedInjection>, Opinion> {
    if facts.endpoint.scheme == Scheme::Http && !binding.plaintext {
        return Err(deny_binding(
            binding,
            Reason::CredentialEndpointMismatch,
            facts,
        ));
    }
    let held = held(&binding.slot, facts);
    let (slot, stray): (Vec<_>, Vec<_>) = presented
        .iter()
        .partition(|(one, _)| is_in_slot(&binding.slot, held, &one.location));
    let foreign = slot
        .iter()
        .any(|(_, issued)| issued.credential != binding.credential);
    let is_put_in = binding.mode != Mode::Placeholder || binding.slot.is_in_websocket();
    let is_used = !slot.is_empty() || (is_put_in && !binding.has_no_place(&facts.method));
    if slot.len() > 1 || (held == Some(Held::Twice) && is_used) {
        return Err(deny_binding(binding, Reason::PlaceholderRepeated, facts));
    }
    if !stray.is_empty() || foreign {
        return Err(deny_binding(
            binding,
            Reason::CredentialEndpointMismatch,
            facts,
        ));
    }
    if is_unread(binding, facts) {
        return Err(deny_binding(binding, Reason::ContentUnread, facts));
    }
    let denies = binding.denies(&facts.method, &facts.path) || mints_unseen(binding, cover);
    if is_used && denies {
        return Err(deny_binding(binding, Reason::BindingDenies, facts));
    }
    match (is_used, held) {
        (true, Some(Held::Nowhere)) => {
            Err(deny_binding(binding, Reason::PlaceholderMissing, facts))
        }
        (true, _) => Ok(Some(injection(binding))),
        (false, _) if cover.is_plain() => Ok(None),
        (false, _) => Err(deny_binding(binding, Reason::PlaceholderMissing, facts)),
    }
}

/// Whether the credential signs for a service that makes credentials by actions which neither
/// method nor path shows, and no rule judges them.
fn mints_unseen(binding: &Binding, cover: &Cover<'_>) -> bool {
    let mints = matches!(&binding.slot, Slot::Sigv4(scope) if scope.makes_credentials());
    let judged = |rule: &&AllowRule| matches!(rule.dialect, Dialect::Aws(_));
    mints && !cover.rules.iter().any(judged)
}

/// Whether what stands at a location stands in the slot. In a query, path or body one spelling of
/// one place counts.
fn is_in_slot(slot: &Slot, held: Option<Held>, location: &Location) -> bool {
    let is_there = matches!(held, Some(Held::Placeholder | Held::Twice));
    match location {
        Location::Header(name) => slot.header_name() == Some(name),
        Location::Query => is_there && matches!(slot, Slot::Query { .. }),
        Location::Path => is_there && matches!(slot, Slot::Path { .. }),
        Location::Slot => is_there && slot.is_in_body(),
        Location::Trailer | Location::Method | Location::Body => false,
    }
}

fn without_binding(
    layers: &Layers<'_>,
    phase: Phase,
    facts: &RequestFacts,
    cover: &Cover<'_>,
    presented: Option<&IssuedPlaceholder>,
) -> Result<Option<PermittedInjection>, Opinion> {
    if let Some(issued) = presented {
        let reason = misplaced(layers, phase, facts, cover, &issued.credential);
        return Err(deny(
            &format!("secret.{}", issued.credential),
            reason,
            facts,
        ));
    }
    // Everything in `cover.bindings` has expired here. What a binding would have put in by itself
    // must not quietly go without.
    let needed = |binding: &&&Binding| binding.mode != Mode::Placeholder || !cover.is_plain();
    match cover.bindings.iter().find(needed) {
        Some(binding) => Err(deny_binding(binding, Reason::BindingExpired, facts)),
        None => Ok(None),
    }
}

/// Why a placeholder can't be used where no live binding covers the request.
fn misplaced(
    layers: &Layers<'_>,
    phase: Phase,
    facts: &RequestFacts,
    cover: &Cover<'_>,
    credential: &CredentialName,
) -> Reason {
    let mut of_credential = layers
        .bindings
        .iter()
        .filter(|b| b.credential == *credential)
        .peekable();
    if of_credential.peek().is_none() {
        return Reason::CredentialRevoked;
    }
    let here: Vec<_> = of_credential
        .filter(|b| b.endpoint == facts.endpoint)
        .collect();
    if cover.bindings.iter().any(|b| b.credential == *credential) {
        Reason::BindingExpired
    } else if here
        .iter()
        .any(|b| cover::is_usable(layers.grant, b, phase.other(), facts))
    {
        Reason::PhaseNotGranted
    } else if !here.is_empty() {
        Reason::BindingNotGranted
    } else {
        Reason::CredentialEndpointMismatch
    }
}

fn injection(binding: &Binding) -> PermittedInjection {
    PermittedInjection {
        binding: binding.id.clone(),
        revision: binding.revision,
        credential: binding.credential.clone(),
        slot: binding.slot.clone(),
        mode: binding.mode,
    }
}

fn is_expired(binding: &Binding, now: u64) -> bool {
    binding
        .expires_at
        .is_some_and(|expires_at| now > expires_at)
}

fn deny_binding(binding: &Binding, reason: Reason, facts: &RequestFacts) -> Opinion {
    deny(&format!("binding.{}", binding.id), reason, facts)
}

fn deny(rule: &str, reason: Reason, facts: &RequestFacts) -> Opinion {
    Opinion::deny(
        Layer::Vault,
        RuleName::new(rule),
        reason,
        hint::credential(reason, facts),
    )
}
