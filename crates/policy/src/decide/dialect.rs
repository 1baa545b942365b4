// SPDX-License-Identifier: Apache-2.0
//! Rules with a dialect: what a request does at a package registry or at AWS, or says in
//! GraphQL or JSON-RPC. Where such a rule names the place, such rules alone cover what goes there.

use super::cover::{has_path, is_endpoint_of};
use super::{Opinion, hint, near_miss};
use crate::binding::{Binding, PathPattern};
use crate::decision::{Layer, Reason};
use crate::facts::{AwsAction, Content, ContentKind, GraphqlOperation, RequestFacts};
use crate::grant::{AllowRule, Dialect, Grant};
use crate::registry::{self, Operation};
use crate::standing::Phase;
use std::borrow::Cow;

/// What a rule's dialect says of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fit {
    Inside,
    Outside,
    /// What the request says was not read.
    Unread(ContentKind),
}

/// The rules with a dialect at the request's place, in every spelling that a server could take for
/// it, and where a binding that fills the path itself would send it.
///
/// ATTACK: 075, 078 – a server that decodes slashes, folds case or drops the end of a path would
/// see the endpoint where a wider rule saw another path.
pub(super) fn here<'a>(
    grant: &'a Grant,
    phase: Phase,
    (facts, bindings): (&RequestFacts, &[&Binding]),
) -> Vec<&'a AllowRule> {
    let mut paths = vec![Cow::Borrowed(&facts.path)];
    paths.extend(bindings.iter().map(|binding| binding.judged(&facts.path)));
    let is_meant = |pattern: &PathPattern| paths.iter().any(|path| pattern.means(path));
    let is_here = |rule: &&AllowRule| {
        rule.dialect != Dialect::Plain
            && rule.phase == phase
            && is_endpoint_of(rule, facts)
            && rule.paths.iter().any(is_meant)
    };
    let speaking = grant.allow.speaking_at(&facts.endpoint);
    speaking.filter(is_here).collect()
}

/// The rules that cover the request, or why none of them does.
pub(super) fn covering<'a>(
    rules: &[&'a AllowRule],
    facts: &RequestFacts,
) -> Result<Vec<&'a AllowRule>, Opinion> {
    let able = able(rules, facts);
    let fits: Vec<_> = able
        .iter()
        .copied()
        .filter(|rule| fit(rule, facts) == Fit::Inside)
        .collect();
    if !fits.is_empty() {
        return Ok(fits);
    }
    let unread = able
        .iter()
        .any(|rule| matches!(fit(rule, facts), Fit::Unread(_)));
    let reason = match (able.is_empty(), unread) {
        (true, _) => near_miss::rule_miss(rules, facts),
        (false, true) => Reason::ContentUnread,
        (false, false) => Reason::OperationNotGranted,
    };
    // The same one in whatever order the grant lists them.
    let named = if able.is_empty() { rules } else { &able };
    let Some(rule) = named.iter().min_by(|a, b| a.name.cmp(&b.name)) else {
        return Ok(Vec::new());
    };
    Err(Opinion::deny(
        Layer::Session,
        rule.name.clone(),
        reason,
        hint::outside(reason, rule, facts),
    ))
}

/// In which language a request must be read before it can be judged; nothing when it was, or when
/// two rules would read it in two.
pub(super) fn unread(grant: &Grant, phase: Phase, facts: &RequestFacts) -> Option<ContentKind> {
    if facts.content.is_some() {
        return None;
    }
    let here = here(grant, phase, (facts, &[]));
    let mut kinds = able(&here, facts)
        .into_iter()
        .filter_map(|rule| match fit(rule, facts) {
            Fit::Unread(kind) => Some(kind),
            Fit::Inside | Fit::Outside => None,
        });
    let first = kinds.next()?;
    kinds.all(|kind| kind == first).then_some(first)
}

fn able<'a>(rules: &[&'a AllowRule], facts: &RequestFacts) -> Vec<&'a AllowRule> {
    let able = |rule: &&&AllowRule| rule.methods.contains(&facts.method) && has_path(rule, facts);
    rules.iter().filter(able).copied().collect()
}

/// Whether the rule's dialect has room for the request.
pub(super) fn fit(rule: &AllowRule, facts: &RequestFacts) -> Fit {
    let is_inside = match (&rule.dialect, &facts.content) {
        (Dialect::Plain, _) => true,
        (Dialect::Registry(grant), _) => match operation(rule, facts) {
            Some(Operation::Read) => true,
            Some(Operation::Publish) => grant.publish,
            Some(_) | None => false,
        },
        (Dialect::Graphql(granted), Some(Content::Graphql(said))) => {
            // Over GET nothing is changed, whatever a rule lists (GraphQL over HTTP).
            let posted = facts.method.as_str() == "POST";
            let fits = |operation: &GraphqlOperation| {
                granted.contains(operation) && (posted || *operation == GraphqlOperation::Query)
            };
            !said.is_empty() && said.iter().all(fits)
        }
        (Dialect::Jsonrpc(granted), Some(Content::Jsonrpc(said))) => {
            // Without a body there is nothing to call: a stream that is opened, a session's end.
            let posted = facts.method.as_str() == "POST";
            said.is_empty() != posted
                && said
                    .iter()
                    .all(|method| granted.iter().any(|pattern| pattern.is_match(method)))
        }
        // An action that nobody knows is none of the rule's.
        (Dialect::Aws(granted), Some(Content::Aws(call))) if call.protocol == granted.protocol => {
            let is_granted =
                |action: &AwsAction| granted.actions.iter().any(|one| one.is_match(action));
            !call.actions.is_empty() && call.actions.iter().all(is_granted)
        }
        (Dialect::Aws(granted), _) => return Fit::Unread(ContentKind::Aws(granted.protocol)),
        (Dialect::Graphql(_), _) => return Fit::Unread(ContentKind::Graphql),
        (Dialect::Jsonrpc(_), _) => return Fit::Unread(ContentKind::Jsonrpc),
    };
    if is_inside { Fit::Inside } else { Fit::Outside }
}

/// What the request does at the registry of the rule.
pub(super) fn operation(rule: &AllowRule, facts: &RequestFacts) -> Option<Operation> {
    match &rule.dialect {
        Dialect::Registry(grant) => Some(registry::operation(
            grant.protocol,
            &grant.under,
            &facts.method,
            &facts.path,
        )),
        Dialect::Plain | Dialect::Graphql(_) | Dialect::Jsonrpc(_) | Dialect::Aws(_) => None,
    }
}
