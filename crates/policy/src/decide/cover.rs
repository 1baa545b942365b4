// SPDX-License-Identifier: Apache-2.0
//! The session layer: what of the grant covers a request.
//!
//! Three things can: an `[[allow]]` rule, a git grant, or the binding of a granted secret (its
//! endpoint, methods and paths, narrowed by the grant). Where the endpoint has git grants, git
//! requests are covered by those alone, so that a wide rule beside them does not bring back a
//! push that the git grant leaves out. Rules with a dialect (`dialect.rs`) stand alone at their
//! place in the same way.

use super::dialect::{self, Fit};
use super::{Layers, Opinion, git, hint, near_miss};
use crate::binding::{Binding, Held};
use crate::decision::{Layer, Reason};
use crate::facts::{BodySlot, Location, RequestFacts};
use crate::grant::{AllowRule, Dialect, GitGrant, Grant, HostPattern, SecretGrant};
use crate::names::{Host, RuleName};
use crate::standing::Phase;

/// What covers a request. At least one of the three is not empty.
#[derive(Debug)]
pub(super) struct Cover<'a> {
    /// Rules that name host, scheme, port, method and path.
    pub(super) rules: Vec<&'a AllowRule>,
    /// Git grants that name repository and operation.
    pub(super) git: Vec<&'a GitGrant>,
    /// Bindings that may be used for this request, expired ones included.
    pub(super) bindings: Vec<&'a Binding>,
}

impl Cover<'_> {
    /// Whether the grant lets the request go without a credential too.
    pub(super) fn is_plain(&self) -> bool {
        !self.rules.is_empty() || !self.git.is_empty()
    }

    /// The rule to name: the same one in whatever order the grant lists them.
    pub(super) fn rule(&self) -> RuleName {
        let rules = self.rules.iter().map(|rule| &rule.name);
        let named = rules
            .chain(self.git.iter().map(|git| &git.name))
            .min()
            .cloned();
        let secret = self
            .bindings
            .iter()
            .map(|binding| &binding.credential)
            .min();
        named
            .or_else(|| secret.map(|credential| RuleName::new(format!("secret.{credential}"))))
            .unwrap_or_else(|| RuleName::new("default"))
    }
}

/// What covers the request, or why nothing does.
pub(super) fn cover<'a>(
    layers: &Layers<'a>,
    phase: Phase,
    facts: &RequestFacts,
) -> Result<Cover<'a>, Opinion> {
    let cover = cover_of_request(layers, phase, facts)?;
    if facts.websocket {
        websocket(cover, facts)
    } else {
        Ok(cover)
    }
}

/// Of what covers the request, what lets it become a WebSocket: a rule that says so. A binding or a
/// git grant is for requests, each of which is judged; what goes over a WebSocket is not.
fn websocket<'a>(mut cover: Cover<'a>, facts: &RequestFacts) -> Result<Cover<'a>, Opinion> {
    cover
        .rules
        .retain(|rule| rule.websocket && rule.dialect == Dialect::Plain);
    cover.git.clear();
    if !cover.rules.is_empty() {
        return Ok(cover);
    }
    let reason = Reason::WebsocketNotGranted;
    Err(Opinion::deny(
        Layer::Session,
        RuleName::new("grant.default"),
        reason,
        hint::uncovered(reason, facts),
    ))
}

fn cover_of_request<'a>(
    layers: &Layers<'a>,
    phase: Phase,
    facts: &RequestFacts,
) -> Result<Cover<'a>, Opinion> {
    let grant = layers.grant;
    let doubtful = [
        ("git", git::is_inconsistent(facts)),
        ("placeholder", names_nobody(facts)),
    ];
    if let Some((rule, _)) = doubtful.iter().find(|(_, is_so)| *is_so) {
        let rule = RuleName::new(*rule);
        let hint = hint::undecidable();
        return Err(Opinion::deny(
            Layer::Session,
            rule,
            Reason::Undecidable,
            hint,
        ));
    }
    let repositories: Vec<_> = grant
        .git
        .iter()
        .filter(|git| git.endpoint == facts.endpoint)
        .collect();
    if !repositories.is_empty() && git::is_git(facts) {
        let git = git::covering(&repositories, phase, facts)?;
        let secrets: Vec<_> = git.iter().filter_map(|git| git.secret.as_ref()).collect();
        let fits = |binding: &&Binding| {
            secrets.contains(&&binding.credential) && binding_matches(binding, facts)
        };
        let bindings = layers.bindings.iter().filter(fits).collect();
        return Ok(Cover {
            rules: Vec::new(),
            git,
            bindings,
        });
    }
    let usable = |binding: &&Binding| is_usable(grant, binding, phase, facts);
    let bindings: Vec<_> = layers.bindings.iter().filter(usable).collect();
    let speaking = dialect::here(grant, phase, (facts, &bindings));
    if !speaking.is_empty() {
        return Ok(Cover {
            rules: dialect::covering(&speaking, facts)?,
            git: Vec::new(),
            bindings,
        });
    }
    let covers = |rule: &&AllowRule| rule.phase == phase && rule_matches(rule, facts);
    let meaning = grant.allow.meaning(&facts.endpoint, &facts.path);
    let rules: Vec<_> = meaning.filter(covers).collect();
    if rules.is_empty() && bindings.is_empty() {
        let reason = near_miss::reason(layers, phase, facts);
        let rule = RuleName::new("grant.default");
        let hint = hint::uncovered(reason, facts);
        return Err(Opinion::deny(Layer::Session, rule, reason, hint));
    }
    Ok(Cover {
        rules,
        git: Vec::new(),
        bindings,
    })
}

/// Whether a placeholder is said to stand where none was presented: no gate says so.
fn names_nobody(facts: &RequestFacts) -> bool {
    let (in_path, in_query) = facts.path.words();
    let presented = |location: &Location| {
        let mut all = facts.presented.iter();
        all.any(|one| one.location == *location)
    };
    let is_held = |body: &BodySlot| body.held == Held::Placeholder;
    (in_path > 0 && !presented(&Location::Path))
        || (in_query > 0 && !presented(&Location::Query))
        || (facts.body.as_deref().is_some_and(is_held) && !presented(&Location::Slot))
}

/// Whether a granted secret of this phase lets the binding be used for the request.
pub(super) fn is_usable(
    grant: &Grant,
    binding: &Binding,
    phase: Phase,
    facts: &RequestFacts,
) -> bool {
    let path = binding.judged(&facts.path);
    let selects = |secret: &SecretGrant| {
        secret.phase == phase
            && secret.credential == binding.credential
            && secret
                .methods
                .as_ref()
                .is_none_or(|methods| methods.contains(&facts.method))
            && secret
                .paths
                .as_ref()
                .is_none_or(|paths| paths.iter().any(|p| p.is_match(&path)))
    };
    binding_matches(binding, facts) && grant.secrets.iter().any(selects)
}

/// Whether the binding is for this very endpoint, method and path; one whose slot is in what a
/// WebSocket says is for handshakes.
fn binding_matches(binding: &Binding, facts: &RequestFacts) -> bool {
    let path = binding.judged(&facts.path);
    binding.endpoint == facts.endpoint
        && (facts.websocket || !binding.slot.is_in_websocket())
        && binding.methods.contains(&facts.method)
        && binding.paths.iter().any(|pattern| pattern.is_match(&path))
}

pub(super) fn rule_matches(rule: &AllowRule, facts: &RequestFacts) -> bool {
    is_endpoint_of(rule, facts)
        && rule.methods.contains(&facts.method)
        && has_path(rule, facts)
        && dialect::fit(rule, facts) == Fit::Inside
}

/// Whether the rule is for this path. That of a registry is every path below its place: what its
/// clients encode is read there.
pub(super) fn has_path(rule: &AllowRule, facts: &RequestFacts) -> bool {
    match &rule.dialect {
        Dialect::Registry(registry) => facts
            .path
            .path()
            .strip_prefix(&registry.under)
            .is_some_and(|below| below.starts_with('/')),
        Dialect::Plain | Dialect::Graphql(_) | Dialect::Jsonrpc(_) | Dialect::Aws(_) => rule
            .paths
            .iter()
            .any(|pattern| pattern.is_match(&facts.path)),
    }
}

/// Whether the rule is for this scheme, host and port.
pub(super) fn is_endpoint_of(rule: &AllowRule, facts: &RequestFacts) -> bool {
    rule.scheme == facts.endpoint.scheme
        && rule.port == facts.endpoint.port
        && host_matches(&rule.host, &facts.endpoint.host)
}

pub(super) fn host_matches(pattern: &HostPattern, host: &Host) -> bool {
    match (pattern, host.name()) {
        (HostPattern::Exact(exact), _) => exact == host,
        // Exactly one label stands before the suffix: `*.example.org` is not `example.org`.
        (HostPattern::OneLabel(suffix), Some(name)) => name
            .split_once('.')
            .is_some_and(|(_, rest)| suffix.name() == Some(rest)),
        (HostPattern::OneLabel(_), None) => false,
    }
}
