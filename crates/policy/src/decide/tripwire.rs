// SPDX-License-Identifier: Apache-2.0
//! Tripwires on their way out. One is judged before any rule: wherever it was going, and whether
//! or not that was granted, the session is not what it was taken for.

use super::cover::Cover;
use super::{Layers, Opinion, hint};
use crate::binding::template;
use crate::decision::{Layer, Reason};
use crate::facts::{Location, RequestFacts};
use crate::grant::HostPattern;

/// Refuses a request that carries one outside of its body. A body is searched as it leaves.
pub(super) fn check(layers: &Layers<'_>, facts: &RequestFacts) -> Result<(), Opinion> {
    let outside = |location: &Location| *location != Location::Body;
    let tripped = facts.presented.iter().find_map(|one| {
        let is_it = |wire: &&crate::tripwire::IssuedTripwire| wire.digest == one.digest;
        outside(&one.location).then(|| layers.tripwires.iter().find(is_it))?
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
