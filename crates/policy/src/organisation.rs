// SPDX-License-Identifier: Apache-2.0
//! The organisation's layer: Cedar, deny wins, `@ask` on a `forbid` turns it into a question.
//!
//! A policy is parsed and validated once, against the schema that `torno policy show --schema`
//! prints. Every rule has a name (`@id("no-metadata")`), so that each answer can say which rule
//! gave it. What can't be evaluated is denied.

use crate::decision::{Layer, Reason, Refusal};
use crate::document::DocumentError;
use crate::facts::RequestFacts;
use crate::grant::{Grant, Verdict};
use crate::names::RuleName;
use cedar_policy::{
    AuthorizationError, Authorizer, Decision as CedarDecision, Effect, Entities, Policy, PolicyId,
    PolicySet, Request,
};
use std::collections::HashMap;
use std::fmt;

mod depth;
mod known;
mod question;
mod read;

pub use question::Subject;
pub(crate) use question::tool;

use known::Known;
use question::Asked;

/// The shipped policy, in force where the organisation has none. `torno policy show` prints it.
pub const SHIPPED: &str = include_str!("organisation/shipped.cedar");

/// What a policy can speak of.
pub const SCHEMA: &str = include_str!("organisation/schema.cedarschema");

/// A parsed and validated organisation policy.
pub struct Organisation {
    authorizer: Authorizer,
    nothing: Entities,
    /// Permits, and forbids that no person can lift.
    firm: PolicySet,
    /// Forbids that a person can lift.
    asking: PolicySet,
    /// What each rule calls itself.
    rules: HashMap<PolicyId, RuleName>,
    known: Known,
}

/// What the organisation says of one act.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judgement {
    /// The answer.
    pub verdict: Verdict,
    /// The rule that gave it.
    pub rule: RuleName,
    /// Set when the policy could not be evaluated; the answer is then no.
    pub undecidable: bool,
}

impl Organisation {
    /// Reads and validates a policy.
    ///
    /// # Errors
    /// The first thing that is wrong with it, with its place.
    pub fn parse(text: &str) -> Result<Self, DocumentError> {
        let mut organisation = Self::empty();
        for (name, policy) in read::policies(text)? {
            organisation
                .add(&name, policy)
                .map_err(|message| DocumentError {
                    message,
                    span: None,
                })?;
        }
        Ok(organisation)
    }

    /// The shipped policy. Should it not parse (a test holds that it does), nothing is permitted.
    #[must_use]
    pub fn shipped() -> Self {
        Self::parse(SHIPPED).unwrap_or_else(|_| Self::empty())
    }

    /// A policy without a rule: it permits nothing.
    fn empty() -> Self {
        Self {
            authorizer: Authorizer::new(),
            nothing: Entities::empty(),
            firm: PolicySet::new(),
            asking: PolicySet::new(),
            rules: HashMap::new(),
            known: Known::default(),
        }
    }

    fn add(&mut self, name: &str, policy: Policy) -> Result<(), String> {
        self.rules
            .insert(policy.id().clone(), RuleName::new(format!("org.{name}")));
        let asks = policy.annotation("ask").is_some();
        let set = if asks {
            &mut self.asking
        } else {
            &mut self.firm
        };
        set.add(policy).map_err(|error| error.to_string())
    }

    /// Judges a request. A path with escapes that a server may decode is judged in each of its
    /// readings, and the strictest counts: what a rule forbids is not reached by another spelling.
    #[must_use]
    pub(crate) fn judge_request(&self, subject: Subject<'_>, facts: &RequestFacts) -> Judgement {
        let judge = |facts: &RequestFacts| {
            // Once for equal ones.
            self.known.answer(Asked::new(subject, facts), |asked| {
                self.judge(question::request(asked).as_ref())
            })
        };
        let mut strictest = judge(facts);
        // ATTACK: 075
        for path in facts.path.readings() {
            let read = judge(&RequestFacts {
                path,
                ..facts.clone()
            });
            if read.verdict < strictest.verdict {
                strictest = read;
            }
        }
        strictest
    }

    /// Judges one question: deny if a determining `forbid` lacks `@ask` or nothing permits, ask if
    /// one has it, else allow.
    #[must_use]
    pub(crate) fn judge(&self, question: Option<&Request>) -> Judgement {
        let Some(question) = question else {
            return undecidable(RuleName::new("org.question"));
        };
        let firm = self
            .authorizer
            .is_authorized(question, &self.firm, &self.nothing);
        if let Some(error) = firm.diagnostics().errors().next() {
            return undecidable(self.rule_of(Some(policy_of(error))));
        }
        let rule = self.rule_of(firm.diagnostics().reason().min());
        if firm.decision() == CedarDecision::Deny {
            return Judgement {
                verdict: Verdict::Deny,
                rule,
                undecidable: false,
            };
        }
        if self.asking.is_empty() {
            return Judgement {
                verdict: Verdict::Allow,
                rule,
                undecidable: false,
            };
        }
        // Only forbids are in this set, so what determines its answer is what asks.
        let asking = self
            .authorizer
            .is_authorized(question, &self.asking, &self.nothing);
        if let Some(error) = asking.diagnostics().errors().next() {
            return undecidable(self.rule_of(Some(policy_of(error))));
        }
        match asking.diagnostics().reason().min() {
            Some(id) => {
                let rule = self.rule_of(Some(id));
                Judgement {
                    verdict: Verdict::Ask,
                    rule,
                    undecidable: false,
                }
            }
            None => Judgement {
                verdict: Verdict::Allow,
                rule,
                undecidable: false,
            },
        }
    }

    /// Whether a session may start with this grant: the organisation's floors and ceilings.
    ///
    /// # Errors
    /// The refusal, when it may not, or when a person would have to be asked.
    pub fn admits_start(&self, grant: &Grant) -> Result<(), Refusal> {
        let judgement = self.judge(question::start(grant).as_ref());
        let reason = match (judgement.verdict, judgement.undecidable) {
            (Verdict::Allow, _) => return Ok(()),
            (Verdict::Ask, _) => Reason::ApprovalUnavailable,
            (Verdict::Deny, true) => Reason::Undecidable,
            (Verdict::Deny, false) => Reason::OrganisationForbids,
        };
        let hint = "the organisation's policy does not let a session start with this grant; \
                    `torno policy show` prints the rule";
        Err(Refusal {
            reason,
            layer: Layer::Organisation,
            rule: judgement.rule,
            hint: hint.to_owned(),
        })
    }

    /// The name of a rule; `org.default` where no rule decided.
    fn rule_of(&self, id: Option<&PolicyId>) -> RuleName {
        let named = id.and_then(|id| self.rules.get(id)).cloned();
        named.unwrap_or_else(|| RuleName::new("org.default"))
    }

    /// The names of its rules with what each does, sorted, for display.
    #[must_use]
    pub fn rules(&self) -> Vec<(RuleName, Verdict)> {
        let verdict = |policy: &Policy| match (policy.effect(), policy.annotation("ask")) {
            (Effect::Permit, _) => Verdict::Allow,
            (Effect::Forbid, None) => Verdict::Deny,
            (Effect::Forbid, Some(_)) => Verdict::Ask,
        };
        let all = self.firm.policies().chain(self.asking.policies());
        let mut rules: Vec<_> = all
            .map(|policy| (self.rule_of(Some(policy.id())), verdict(policy)))
            .collect();
        rules.sort();
        rules
    }
}

impl fmt::Debug for Organisation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Organisation")
            .field("rules", &self.rules())
            .finish()
    }
}

fn policy_of(error: &AuthorizationError) -> &PolicyId {
    match error {
        AuthorizationError::PolicyEvaluationError(error) => error.policy_id(),
    }
}

fn undecidable(rule: RuleName) -> Judgement {
    Judgement {
        verdict: Verdict::Deny,
        rule,
        undecidable: true,
    }
}

#[cfg(test)]
mod tests;
