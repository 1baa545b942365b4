// SPDX-License-Identifier: Apache-2.0
//! Phases 5 and 6: one question, one answer. Where the policy says Ask, the notary answers with
//! `approval_unavailable`: nobody can be asked in this version, so nothing is held here.

use crate::normalize::Request;
use crate::ports::{AtHand, Granted, Ports};
use torno_policy::names::RuleName;
use torno_policy::{Layer, Reason, Refusal};

/// Asks about one request. The answer must be for the endpoint that was asked about.
pub(crate) async fn ask(
    ports: &Ports,
    request: &Request,
    at_hand: AtHand,
) -> Result<Granted, Refusal> {
    let granted = ports.ask.ask(&request.facts, at_hand).await?;
    if granted.allowed.endpoint == request.facts.endpoint {
        Ok(granted)
    } else {
        Err(Refusal {
            reason: Reason::Undecidable,
            layer: Layer::Wire,
            rule: RuleName::new("egress.ask"),
            hint: "the answer was for another endpoint: try again".to_owned(),
        })
    }
}
