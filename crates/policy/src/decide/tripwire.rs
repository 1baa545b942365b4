// SPDX-License-Identifier: Apache-2.0
//! Tripwires on their way out. One is judged before any rule: wherever it was going, and whether
//! or not that was granted, the session is not what it was taken for.

use super::cover::Cover;
use super::{Layers, Opinion, hint};
use crate::binding::template;
use crate::decision::{Layer, Reason};
use crate::facts::{Location, Presented, RequestFacts};
use crate::grant::HostPattern;
use crate::tripwire::IssuedTripwire;

/// Refuses a request that carries one; in a body, unless that is a transcript. Of a body only what
/// was read for a slot is known here: the rest is searched as it leaves.
pub(super) fn check(
    layers: &Layers<'_>,
    facts: &RequestFacts,
    transcripts: bool,
) -> Result<(), Opinion> {
    let tripped = facts.presented.iter().find_map(|one| {
        let is_quoted = transcripts && one.location == Location::Body;
        let issued = issued(layers, one);
        issued.filter(|_| !is_quoted)
    });
    match tripped {
        None => Ok(()),
        Some(issued) => Err(Opinion::deny(
            Layer::Vault,
            issued.wire.rule(),
            Reason::Tripwire,
            hint::tripwire(),
        )),
    }
}

/// The tripwire that is presented, if it is one.
pub(super) fn issued<'a>(layers: &Layers<'a>, one: &Presented) -> Option<&'a IssuedTripwire> {
    let mut tripwires = layers.tripwires.iter();
    tripwires.find(|wire| wire.digest == one.digest)
}

/// Whether bodies for this place are transcripts of a model, which quote whatever an agent read:
/// the host is a model provider's and a credential of the session is bound to it, or a rule of the
/// grant says so.
pub(super) fn takes_transcripts(facts: &RequestFacts, cover: &Cover<'_>) -> bool {
    let says_so = cover
        .rules
        .iter()
        .any(|rule| rule.transcripts && matches!(rule.host, HostPattern::Exact(_)));
    says_so || (!cover.bindings.is_empty() && template::takes_transcripts(&facts.endpoint.host))
}
