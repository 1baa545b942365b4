// SPDX-License-Identifier: Apache-2.0
//! What each layer says of an act.

use crate::decision::{Layer, PermittedInjection, PermittedKeeping, Reason};
use crate::grant::Verdict;
use crate::names::RuleName;

/// What each layer said, in the order in which they are met.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation {
    /// The answers. A layer that could not be reached (no session, no cover) is not in it.
    pub layers: Vec<Opinion>,
    /// The credential that would be put in.
    pub injection: Option<PermittedInjection>,
    /// What would be kept of the answer.
    pub keeping: Option<PermittedKeeping>,
    /// The far end runs a model: see [`Permit::transcripts`].
    pub transcripts: bool,
}

impl Explanation {
    /// Of what goes nowhere, or has no credential.
    pub(super) const fn plain(layers: Vec<Opinion>) -> Self {
        Self {
            layers,
            injection: None,
            keeping: None,
            transcripts: false,
        }
    }
}

/// The answer of one layer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opinion {
    /// The layer.
    pub layer: Layer,
    /// The rule that gave it.
    pub rule: RuleName,
    /// The answer.
    pub answer: Answer,
}

/// Yes, a question, or no with its reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// Yes.
    Allow,
    /// A person first.
    Ask,
    /// No.
    Deny {
        /// The stable reason.
        reason: Reason,
        /// What to do next.
        hint: String,
    },
}

impl Opinion {
    /// The answer on the lattice.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        match self.answer {
            Answer::Allow => Verdict::Allow,
            Answer::Ask => Verdict::Ask,
            Answer::Deny { .. } => Verdict::Deny,
        }
    }

    pub(super) fn allow(layer: Layer, rule: RuleName) -> Self {
        Self {
            layer,
            rule,
            answer: Answer::Allow,
        }
    }

    pub(super) fn deny(layer: Layer, rule: RuleName, reason: Reason, hint: String) -> Self {
        Self {
            layer,
            rule,
            answer: Answer::Deny { reason, hint },
        }
    }
}
