// SPDX-License-Identifier: Apache-2.0
//! The decision: a meet over layers on `Deny < Ask < Allow`. The one maker of [`Permit`].
//!
//! A request is judged in this order; the first deny is the answer, else the first ask.
//!
//! - **standing**: the session is unknown, killed, ended, frozen, or the asker of an earlier
//!   generation;
//! - **vault**: a tripwire is on its way out (wherever to);
//! - **organisation**: its policy forbids, or does not permit, what would happen (credential
//!   included);
//! - **session**: no `[[allow]]` rule, git grant or granted binding covers it (`cover.rs`);
//! - **vault**: a placeholder or binding does not fit (`credential.rs` has that table);
//! - **session**: the client brings a credential of its own where it may not (`own.rs`).
//!
//! A tool call is judged by standing, organisation and the tool layer. [`explain`] shows each
//! layer's answer; [`decide`] is the meet of exactly those.

use crate::binding::Binding;
use crate::decision::{Asked, Decision, Layer, Permit, PermittedInjection, Reason, Refusal};
use crate::facts::{Act, RequestFacts, ToolFacts, Unread};
use crate::grant::{Grant, Verdict};
use crate::names::{CredentialName, Endpoint, Generation, RuleName};
use crate::organisation::{self, Judgement, Organisation, Subject};
use crate::placeholder::PlaceholderDigest;
use crate::standing::{Standing, State};
use crate::tool;
use crate::tripwire::IssuedTripwire;

mod cover;
mod credential;
mod dialect;
mod digest;
mod git;
mod hint;
mod near_miss;
mod opinion;
mod own;
mod postgres;
mod tripwire;

pub use digest::act_digest;
pub use opinion::{Answer, Explanation, Opinion};

/// Everything that has a say, as rows of one policy generation.
#[derive(Debug, Clone, Copy)]
pub struct Layers<'a> {
    /// The session's row; `None` when there is no such session.
    pub standing: Option<&'a Standing>,
    /// The generation that the asker's socket was made for.
    pub asker: Generation,
    /// The organisation's policy.
    pub organisation: &'a Organisation,
    /// The session's grant.
    pub grant: &'a Grant,
    /// Bindings of the session's tenant.
    pub bindings: &'a [Binding],
    /// The session's live placeholders.
    pub placeholders: &'a [IssuedPlaceholder],
    /// The session's tripwires.
    pub tripwires: &'a [IssuedTripwire],
    /// Unix seconds.
    pub now: u64,
}

/// A placeholder that the session was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IssuedPlaceholder {
    /// Its digest.
    pub digest: PlaceholderDigest,
    /// The credential it stands for.
    pub credential: CredentialName,
}

/// Judges one act.
#[must_use]
pub fn decide(layers: &Layers<'_>, act: &Act) -> Decision {
    let explanation = explain(layers, act);
    let mut asked = None;
    let mut allowed = None;
    for opinion in explanation.layers {
        let Opinion {
            layer,
            rule,
            answer,
        } = opinion;
        match answer {
            Answer::Deny { reason, hint } => {
                return Decision::Deny(Refusal {
                    reason,
                    layer,
                    rule,
                    hint,
                });
            }
            Answer::Ask => asked = asked.or(Some((layer, rule))),
            // The rule that a permit names is the one of the session or tool layer.
            Answer::Allow if matches!(layer, Layer::Session | Layer::Tool) => {
                allowed = allowed.or(Some((layer, rule)));
            }
            Answer::Allow => {}
        }
    }
    match (asked, allowed, layers.standing) {
        (Some((layer, rule)), _, _) => Decision::Ask(Asked {
            layer,
            rule,
            digest: act_digest(act),
        }),
        (None, Some((layer, rule)), Some(standing)) => Decision::Allow(Permit {
            session: standing.session.clone(),
            generation: standing.generation,
            endpoint: endpoint(act).cloned(),
            watched: watched(layers, act, explanation.injection.as_ref()),
            transcripts: explanation.transcripts,
            injection: explanation.injection,
            keeping: explanation.keeping.map(Box::new),
            rule,
            layer,
        }),
        // INVARIANT: no layer said yes, so the answer is no.
        (None, _, _) => Decision::Deny(Refusal {
            reason: Reason::Undecidable,
            layer: Layer::Session,
            rule: RuleName::new("default"),
            hint: hint::undecidable(),
        }),
    }
}

/// What each layer says of an act: the same answers that [`decide`] meets.
#[must_use]
pub fn explain(layers: &Layers<'_>, act: &Act) -> Explanation {
    let standing = match standing(layers) {
        Ok(standing) => standing,
        Err(refused) => return Explanation::plain(vec![refused]),
    };
    match act {
        Act::Request(facts) => explain_request(layers, standing, facts),
        Act::Tool(facts) => explain_tool(layers, standing, facts),
    }
}

/// What to do next about a request that was refused, as far as its reason and place tell: for who
/// reads the record.
#[must_use]
pub fn next_step(reason: Reason, facts: &RequestFacts) -> String {
    hint::next_step(reason, facts)
}

/// What the gate must read of a request before it can be judged. Asked for when the decision was
/// made without: where the answer was [`Reason::ContentUnread`], and where the organisation's layer
/// refused or asked, whose rules may let through what they see the content of.
#[must_use]
pub fn unread(layers: &Layers<'_>, decision: &Decision, facts: &RequestFacts) -> Option<Unread> {
    let may_change = match decision {
        Decision::Deny(refusal) => matches!(
            refusal.reason,
            Reason::ContentUnread | Reason::OrganisationForbids
        ),
        Decision::Ask(_) => true,
        Decision::Allow(_) => false,
    };
    if !may_change {
        return None;
    }
    let phase = standing(layers).ok()?.phase;
    git::unread(layers.grant, facts)
        .or_else(|| dialect::unread(layers.grant, phase, facts))
        .map(Unread::Content)
        .or_else(|| credential::unread(layers, phase, facts).map(Unread::Slot))
}

fn explain_request(layers: &Layers<'_>, standing: &Standing, facts: &RequestFacts) -> Explanation {
    let cover = cover::cover(layers, standing.phase, facts);
    let transcripts = cover
        .as_ref()
        .is_ok_and(|cover| tripwire::takes_transcripts(facts, cover));
    if let Err(tripped) = tripwire::check(layers, facts, transcripts) {
        return Explanation::plain(vec![running(), tripped]);
    }
    let credential = match &cover {
        Ok(cover) => Some(credential::choose(layers, standing.phase, facts, cover)),
        Err(_) => None,
    };
    let injection = match &credential {
        Some(Ok(injection)) => injection.clone(),
        Some(Err(_)) | None => None,
    };
    let writing = |facts: &RequestFacts| explain_request(layers, standing, facts);
    let injection = injection.map(|injection| postgres::narrowed(injection, facts, writing));
    let keeping = match (&credential, &cover) {
        (Some(Ok(_)), Ok(cover)) => credential::keeping(layers, facts, cover),
        (Some(Err(_)) | None, _) | (_, Err(_)) => None,
    };
    // Cookies and tokens that a credential earned have its authority.
    let earned = keeping.as_ref().map(|keeping| &keeping.credential);
    let credential_name = injection.as_ref().map(|injection| &injection.credential);
    let credential_name = credential_name.or(earned);
    let subject = Subject {
        session: &standing.session,
        phase: standing.phase,
        credential: credential_name,
    };
    let organisation = judged_by_organisation(layers, subject, (facts, injection.as_ref()));

    let mut opinions = vec![running(), organisation];
    match cover {
        Err(refused) => opinions.push(refused),
        Ok(cover) => {
            let goes_in = (injection.as_ref(), keeping.as_ref());
            let own = own::check(layers, facts, &cover, goes_in);
            opinions.push(Opinion::allow(Layer::Session, cover.rule()));
            opinions.push(match credential {
                Some(Err(refused)) => refused,
                Some(Ok(_)) | None => Opinion::allow(Layer::Vault, credential::rule(&injection)),
            });
            opinions.extend(own.err());
        }
    }
    Explanation {
        layers: opinions,
        injection,
        keeping,
        transcripts,
    }
}

fn explain_tool(layers: &Layers<'_>, standing: &Standing, facts: &ToolFacts) -> Explanation {
    let subject = Subject {
        session: &standing.session,
        phase: standing.phase,
        credential: None,
    };
    let question = organisation::tool(subject, facts);
    let organisation = organisation_opinion(layers.organisation.judge(question.as_ref()));
    let (verdict, rule) = tool::judge(&layers.grant.tools, facts);
    let answer = match verdict {
        Verdict::Allow => Answer::Allow,
        Verdict::Ask => Answer::Ask,
        Verdict::Deny => Answer::Deny {
            reason: Reason::ToolNotGranted,
            hint: hint::tool(&facts.tool),
        },
    };
    let tool = Opinion {
        layer: Layer::Tool,
        rule,
        answer,
    };
    Explanation::plain(vec![running(), organisation, tool])
}

fn standing<'a>(layers: &Layers<'a>) -> Result<&'a Standing, Opinion> {
    let deny = |reason| {
        let rule = RuleName::new("standing");
        Err(Opinion::deny(
            Layer::Standing,
            rule,
            reason,
            hint::standing(reason),
        ))
    };
    let Some(standing) = layers.standing else {
        return deny(Reason::SessionUnknown);
    };
    match standing.state {
        State::Killed => deny(Reason::SessionKilled),
        State::Ended => deny(Reason::SessionEnded),
        State::Frozen => deny(Reason::SessionFrozen),
        State::Paused => deny(Reason::SessionPaused),
        State::Running if standing.generation != layers.asker => deny(Reason::SessionFenced),
        State::Running => Ok(standing),
    }
}

fn running() -> Opinion {
    Opinion::allow(Layer::Standing, RuleName::new("standing"))
}

/// The organisation's opinion of what the client sent, and of what goes out where a binding fills a
/// segment of the path by itself: the stricter of the two.
fn judged_by_organisation(
    layers: &Layers<'_>,
    subject: Subject<'_>,
    (facts, injection): (&RequestFacts, Option<&PermittedInjection>),
) -> Opinion {
    let judge = |facts: &RequestFacts| {
        organisation_opinion(layers.organisation.judge_request(subject, facts))
    };
    let as_said = judge(facts);
    let sent = injection.map(|injection| injection.slot.named(&facts.path));
    match sent {
        Some(sent) if *sent != facts.path => {
            let as_sent = judge(&RequestFacts {
                path: sent.into_owned(),
                ..facts.clone()
            });
            if as_sent.verdict() < as_said.verdict() {
                as_sent
            } else {
                as_said
            }
        }
        Some(_) | None => as_said,
    }
}

fn organisation_opinion(judgement: Judgement) -> Opinion {
    let answer = match (judgement.verdict, judgement.undecidable) {
        (Verdict::Allow, _) => Answer::Allow,
        (Verdict::Ask, _) => Answer::Ask,
        (Verdict::Deny, true) => Answer::Deny {
            reason: Reason::Undecidable,
            hint: hint::undecidable(),
        },
        (Verdict::Deny, false) => Answer::Deny {
            reason: Reason::OrganisationForbids,
            hint: hint::organisation(),
        },
    };
    Opinion {
        layer: Layer::Organisation,
        rule: judgement.rule,
        answer,
    }
}

fn endpoint(act: &Act) -> Option<&Endpoint> {
    match act {
        Act::Request(facts) => Some(&facts.endpoint),
        Act::Tool(_) => None,
    }
}

/// Every credential that the session was given a placeholder for, but for the one that goes in.
fn watched(
    layers: &Layers<'_>,
    act: &Act,
    injection: Option<&PermittedInjection>,
) -> Vec<CredentialName> {
    match act {
        Act::Tool(_) => Vec::new(),
        Act::Request(_) => layers
            .placeholders
            .iter()
            .map(|issued| &issued.credential)
            .filter(|name| injection.is_none_or(|injection| injection.credential != **name))
            .cloned()
            .collect(),
    }
}
