// SPDX-License-Identifier: Apache-2.0
//! Phases 5 and 6: one question, one answer. Where the policy says Ask, the notary answers with
//! `approval_unavailable`: nobody can be asked in this version, so nothing is held here.

use crate::normalize::Request;
use crate::ports::{Answered, AtHand, Ports};
use torno_policy::names::RuleName;
use torno_policy::{Layer, Reason, Refusal};

/// Asks about one request. The answer must be for the endpoint that was asked about.
pub(crate) async fn ask(
    ports: &Ports,
    request: &Request,
    at_hand: AtHand,
) -> Result<Answered, Refusal> {
    match ports.ask.ask(&request.facts, at_hand).await? {
        Answered::Granted(granted) if granted.allowed.endpoint != request.facts.endpoint => {
            Err(Refusal {
                reason: Reason::Undecidable,
                layer: Layer::Wire,
                rule: RuleName::new("egress.ask"),
                hint: "the answer was for another endpoint: try again".to_owned(),
            })
        }
        answered @ (Answered::Granted(_) | Answered::Read(_)) => Ok(answered),
    }
}
