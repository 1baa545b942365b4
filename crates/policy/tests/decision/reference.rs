// SPDX-License-Identifier: Apache-2.0
//! A slow, plain second opinion. It shares the document types with the product and no code: names
//! and patterns are compared as texts, and the shipped organisation policy is written out by hand.
//! Each [`Fault`] spoils one clause.

use crate::faults::Fault;
use crate::world::World;
use torno_policy::Reason;
use torno_policy::binding::{Binding, Cookies, Mode};
use torno_policy::facts::{Act, GitOperation, RefChange, RequestFacts};
use torno_policy::grant::{AllowRule, Dialect, GitGrant, HostPattern, SecretGrant};
use torno_policy::names::Scheme;
use torno_policy::standing::{Phase, State};

mod dialect;
mod slot;
mod tool;

use slot::Seen;

/// A decision as far as both sides can state it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// With the binding that is put in.
    Allow(Option<String>, Option<String>),
    Ask,
    Deny(Reason),
}

pub(crate) fn reference(world: &World, act: &Act, fault: Fault) -> Outcome {
    let Some(standing) = &world.standing else {
        return Outcome::Deny(Reason::SessionUnknown);
    };
    if standing.state == State::Killed && fault != Fault::KilledStillActs {
        return Outcome::Deny(Reason::SessionKilled);
    }
    if standing.state == State::Ended {
        return Outcome::Deny(Reason::SessionEnded);
    }
    if standing.state == State::Frozen {
        return Outcome::Deny(Reason::SessionFrozen);
    }
    if standing.state == State::Paused {
        return Outcome::Deny(Reason::SessionPaused);
    }
    if standing.generation != world.asker && fault != Fault::StaleGenerationActs {
        return Outcome::Deny(Reason::SessionFenced);
    }
    match act {
        Act::Tool(facts) => tool::judge(world, facts, fault),
        Act::Request(facts) => Judge {
            world,
            facts,
            phase: standing.phase,
            fault,
        }
        .request(),
    }
}

struct Judge<'a> {
    world: &'a World,
    facts: &'a RequestFacts,
    phase: Phase,
    fault: Fault,
}

impl<'a> Judge<'a> {
    fn request(&self) -> Outcome {
        if self.trips() && self.fault != Fault::TripwireIgnored {
            return Outcome::Deny(Reason::Tripwire);
        }
        let covered = self.covered();
        let injected = match &covered {
            Ok((_, _, bindings)) => self.injected(bindings, self.is_plain(&covered)),
            Err(_) => Ok(None),
        };
        let brokered = match (&covered, &injected) {
            (Ok((_, _, bindings)), Ok(_)) => self.brokered(bindings),
            _ => None,
        };
        let with_credential = matches!(injected, Ok(Some(_))) || brokered.is_some();
        if self.organisation_forbids(with_credential) {
            return Outcome::Deny(Reason::OrganisationForbids);
        }
        let asks = self.facts.method.as_str() == "DELETE";
        if asks && self.fault == Fault::AskBeatsDeny {
            return Outcome::Ask;
        }
        let (rules, _, _) = match &covered {
            Ok(covered) => covered,
            Err(reason) => return Outcome::Deny(*reason),
        };
        let injected = match injected {
            Ok(injected) => injected,
            Err(reason) => return Outcome::Deny(reason),
        };
        if !self.own_credentials_fit(rules, (injected, brokered)) {
            return Outcome::Deny(Reason::OwnCredential);
        }
        if asks {
            Outcome::Ask
        } else {
            let id = |b: &Binding| b.id.to_string();
            Outcome::Allow(injected.map(id), brokered.map(id))
        }
    }

    /// A tripwire stands anywhere that is known: no place of these worlds takes transcripts.
    fn trips(&self) -> bool {
        self.facts.presented.iter().any(|one| {
            let wires = &self.world.tripwires;
            wires.iter().any(|wire| wire.digest == one.digest)
        })
    }

    fn organisation_forbids(&self, with_credential: bool) -> bool {
        let endpoint = &self.facts.endpoint;
        let clear = endpoint.scheme == Scheme::Http;
        endpoint.host.to_string() == "169.254.169.254"
            || (clear && (with_credential || !self.facts.own_credentials.is_empty()))
            || (endpoint.port.number() == 8443 && self.facts.method.as_str() == "POST")
    }

    fn is_plain(&self, covered: &Result<Covered<'_>, Reason>) -> bool {
        covered
            .as_ref()
            .is_ok_and(|(rules, git, _)| rules.len() + git.len() > 0)
    }

    /// A WebSocket goes by rules that say so, never by a git grant or a credential alone.
    fn covered(&self) -> Result<Covered<'a>, Reason> {
        let (mut rules, mut git, bindings) = self.covered_as_request()?;
        if self.facts.websocket && self.fault != Fault::WebsocketPassesAsRequest {
            git = Vec::new();
            rules.retain(|rule| rule.websocket && rule.dialect == Dialect::Plain);
            if rules.is_empty() {
                return Err(Reason::WebsocketNotGranted);
            }
        }
        Ok((rules, git, bindings))
    }

    fn covered_as_request(&self) -> Result<Covered<'a>, Reason> {
        let grant = &self.world.grant;
        if self.git_facts_lie() || slot::nobody_was_named(self.facts) {
            return Err(Reason::Undecidable);
        }
        let path = self.facts.path.path().replace("%2F", "/");
        let git_like = self.facts.git.is_some()
            || path.to_ascii_lowercase().contains("/info/lfs/")
            || ["/info/refs", "/git-upload-pack", "/git-receive-pack"]
                .iter()
                .any(|end| path.ends_with(end));
        let here: Vec<&GitGrant> = grant
            .git
            .iter()
            .filter(|git| git.endpoint == self.facts.endpoint)
            .collect();
        if git_like && !here.is_empty() && self.fault != Fault::GitFallsBackToRules {
            return self.covered_by_git(&here);
        }
        let speaking = self.speaking();
        let mut rules = Vec::new();
        if !speaking.is_empty() && self.fault != Fault::DialectFallsBackToRules {
            rules = self.covered_by_dialect(&speaking)?;
        } else {
            for rule in &grant.allow {
                let fits =
                    self.misses(rule) == Some(Vec::new()) && self.says_too_much(rule).is_none();
                if self.in_phase(rule.phase) && fits {
                    rules.push(rule);
                }
            }
        }
        let mut bindings = Vec::new();
        for binding in &self.world.bindings {
            let phases = |secret: &SecretGrant| self.in_phase(secret.phase);
            if self.usable(binding, phases) {
                bindings.push(binding);
            }
        }
        if rules.is_empty() && bindings.is_empty() {
            return Err(self.near_miss());
        }
        Ok((rules, Vec::new(), bindings))
    }

    fn covered_by_git(&self, here: &[&'a GitGrant]) -> Result<Covered<'a>, Reason> {
        let Some(git) = &self.facts.git else {
            return Err(Reason::GitNotGranted);
        };
        let mut able = 0;
        let mut fit = Vec::new();
        for grant in here {
            let may = match &git.operation {
                GitOperation::DiscoverFetch | GitOperation::Fetch => grant.fetch,
                GitOperation::DiscoverPush | GitOperation::Push(_) => !grant.push_refs.is_empty(),
                large => panic!("no world has {large:?}"),
            };
            if grant.repository != git.repository || !may {
                continue;
            }
            able += 1;
            let mut refs = true;
            if let GitOperation::Push(updates) = &git.operation {
                for update in updates {
                    let named = grant
                        .push_refs
                        .iter()
                        .any(|p| self.ref_fits(p, &update.name));
                    refs &= named && (update.change != RefChange::Delete || grant.delete);
                }
            }
            if refs {
                fit.push(*grant);
            }
        }
        if able == 0 {
            return Err(Reason::GitNotGranted);
        }
        if fit.is_empty() {
            return Err(Reason::RefNotGranted);
        }
        if self.phase == Phase::Install && self.fault != Fault::PhaseIgnored {
            return Err(Reason::PhaseNotGranted);
        }
        let mut bindings = Vec::new();
        for binding in &self.world.bindings {
            let named = fit
                .iter()
                .any(|grant| grant.secret.as_ref() == Some(&binding.credential));
            if named && self.binding_fits(binding) {
                bindings.push(binding);
            }
        }
        Ok((Vec::new(), fit, bindings))
    }

    fn near_miss(&self) -> Reason {
        let grant = &self.world.grant;
        let other = |phase: Phase| phase != self.phase;
        let by_rule = grant.allow.iter().any(|r| {
            let here = self.misses(r) == Some(vec![]);
            other(r.phase) && here && self.says_too_much(r).is_none()
        });
        let by_secret = self
            .world
            .bindings
            .iter()
            .any(|b| self.usable(b, |s| other(s.phase)));
        if by_rule || by_secret {
            return Reason::PhaseNotGranted;
        }
        let mut methods = false;
        let mut here = false;
        for rule in grant.allow.iter().filter(|rule| self.in_phase(rule.phase)) {
            match self.misses(rule).as_deref() {
                Some([Reason::MethodNotGranted]) => return Reason::MethodNotGranted,
                Some([Reason::PathNotGranted]) => methods = true,
                Some(_) => here = true,
                None => {}
            }
        }
        if methods {
            return Reason::PathNotGranted;
        }
        if here {
            return Reason::MethodNotGranted;
        }
        let endpoint = &self.facts.endpoint;
        let secret = |b: &&Binding| grant.secrets.iter().any(|s| s.credential == b.credential);
        let bound: Vec<_> = self.world.bindings.iter().filter(secret).collect();
        if bound.iter().any(|b| b.endpoint == *endpoint) {
            return Reason::BindingNotGranted;
        }
        if grant.git.iter().any(|git| git.endpoint == *endpoint) {
            return Reason::GitNotGranted;
        }
        let named = grant.allow.iter().any(|rule| self.host_fits(&rule.host))
            || grant
                .git
                .iter()
                .any(|git| git.endpoint.host == endpoint.host)
            || bound.iter().any(|b| b.endpoint.host == endpoint.host);
        if named {
            Reason::PortNotGranted
        } else {
            Reason::HostNotGranted
        }
    }

    fn injected(
        &self,
        bindings: &[&'a Binding],
        plain: bool,
    ) -> Result<Option<&'a Binding>, Reason> {
        let mut presented = Vec::new();
        for one in &self.facts.presented {
            let issued = self
                .world
                .placeholders
                .iter()
                .find(|issued| issued.digest == one.digest);
            match issued {
                Some(issued) if !slot::is_body(one) => presented.push((one, issued)),
                None if self.fault != Fault::ForeignPlaceholderPasses => {
                    return Err(Reason::PlaceholderUnknown);
                }
                Some(_) | None => {}
            }
        }
        let live = self.live(bindings);
        if live.len() > 1 && self.fault != Fault::FirstBindingWins {
            return Err(Reason::BindingAmbiguous);
        }
        let Some(binding) = live.first().copied() else {
            return match presented.first() {
                Some((_, issued)) => Err(self.misplaced(bindings, issued.credential.as_str())),
                None if bindings
                    .iter()
                    .any(|b| b.mode != Mode::Placeholder || !plain) =>
                {
                    Err(Reason::BindingExpired)
                }
                None => Ok(None),
            };
        };
        if binding.endpoint.scheme == Scheme::Http && !binding.plaintext {
            return Err(Reason::CredentialEndpointMismatch);
        }
        let seen = slot::seen(binding, self.facts);
        let inside: Vec<_> = presented
            .iter()
            .filter(|(one, _)| slot::is_inside(binding, seen, one))
            .collect();
        let bodiless = slot::is_bodiless(binding, self.facts);
        let always = binding.mode != Mode::Placeholder || slot::is_said_later(binding);
        let used = !inside.is_empty() || (always && !bodiless);
        let twice = seen == Some(Seen::Twice) && self.fault != Fault::SecondParameterPasses;
        if inside.len() > 1 || (twice && used) {
            return Err(Reason::PlaceholderRepeated);
        }
        let strays = inside.len() < presented.len() && self.fault != Fault::StrayPlaceholderPasses;
        if strays
            || inside
                .iter()
                .any(|(_, issued)| issued.credential != binding.credential)
        {
            return Err(Reason::CredentialEndpointMismatch);
        }
        if !bodiless
            && slot::is_unread(binding, self.facts)
            && self.fault != Fault::UnreadBodyPasses
        {
            return Err(Reason::ContentUnread);
        }
        if used && slot::denies(binding, self.facts) && self.fault != Fault::DeniedIgnored {
            return Err(Reason::BindingDenies);
        }
        if used && seen == Some(Seen::Nowhere) && self.fault != Fault::FilledNowhere {
            return Err(Reason::PlaceholderMissing);
        }
        if used {
            return Ok(Some(binding));
        }
        if plain {
            Ok(None)
        } else {
            Err(Reason::PlaceholderMissing)
        }
    }

    fn live(&self, bindings: &[&'a Binding]) -> Vec<&'a Binding> {
        let mut live = Vec::new();
        for binding in bindings {
            let over = match binding.expires_at {
                Some(end) if self.fault == Fault::ExpiryOffByOne => end <= self.world.now,
                Some(end) => end < self.world.now,
                None => false,
            };
            if !over {
                live.push(*binding);
            }
        }
        live
    }

    /// The binding whose kept cookies go along.
    fn brokered(&self, bindings: &[&'a Binding]) -> Option<&'a Binding> {
        let live = self.live(bindings);
        let binding = live.first().copied().filter(|_| live.len() == 1)?;
        let denied = slot::denies(binding, self.facts) && self.fault != Fault::CookiesWhereDenied;
        (binding.answers.cookies == Cookies::Broker && !denied).then_some(binding)
    }

    fn misplaced(&self, bindings: &[&Binding], credential: &str) -> Reason {
        let all: Vec<_> = self
            .world
            .bindings
            .iter()
            .filter(|b| b.credential.as_str() == credential)
            .collect();
        let here: Vec<_> = all
            .iter()
            .filter(|b| b.endpoint == self.facts.endpoint)
            .collect();
        if all.is_empty() {
            Reason::CredentialRevoked
        } else if bindings.iter().any(|b| b.credential.as_str() == credential) {
            Reason::BindingExpired
        } else if here
            .iter()
            .any(|b| self.usable(b, |s| s.phase != self.phase))
        {
            Reason::PhaseNotGranted
        } else if here.is_empty() {
            Reason::CredentialEndpointMismatch
        } else {
            Reason::BindingNotGranted
        }
    }

    fn own_credentials_fit(
        &self,
        rules: &[&AllowRule],
        (injected, brokered): (Option<&Binding>, Option<&Binding>),
    ) -> bool {
        let grant = &self.world.grant;
        let mut bound = false;
        let mut in_slot = false;
        for binding in &self.world.bindings {
            let secret = grant
                .secrets
                .iter()
                .any(|s| s.credential == binding.credential);
            let git = grant
                .git
                .iter()
                .any(|g| g.secret.as_ref() == Some(&binding.credential));
            let here = (secret || git) && binding.endpoint == self.facts.endpoint;
            bound |= here;
            let replaced =
                injected.is_some_and(|b| b.mode == Mode::Inject && b.slot == binding.slot);
            let own = matches!(
                slot::seen(binding, self.facts),
                Some(Seen::Own | Seen::Twice)
            );
            in_slot |= here && own && !replaced;
        }
        if in_slot && self.fault != Fault::OwnSegmentPasses {
            return false;
        }
        let allowed = rules
            .iter()
            .any(|r| r.own_credentials && matches!(r.host, HostPattern::Exact(_)));
        let passes = allowed && (!bound || self.fault == Fault::OwnCredentialAtBoundHost);
        self.facts.own_credentials.iter().all(|name| {
            let replaced = injected
                .is_some_and(|b| b.mode == Mode::Inject && slot::header(b) == Some(name.as_str()));
            passes || replaced || (brokered.is_some() && name == "cookie")
        })
    }

    /// What a rule for this very endpoint misses; nothing when it is for another one.
    fn misses(&self, rule: &AllowRule) -> Option<Vec<Reason>> {
        let endpoint = &self.facts.endpoint;
        let here = rule.scheme == endpoint.scheme
            && rule.port.number() == endpoint.port.number()
            && self.host_fits(&rule.host);
        let mut misses = Vec::new();
        if !rule
            .methods
            .iter()
            .any(|m| m.as_str() == self.facts.method.as_str())
        {
            misses.push(Reason::MethodNotGranted);
        }
        if !self.has_path(rule) {
            misses.push(Reason::PathNotGranted);
        }
        here.then_some(misses)
    }

    fn usable(&self, binding: &Binding, phases: impl Fn(&SecretGrant) -> bool) -> bool {
        let selected = self.world.grant.secrets.iter().any(|secret| {
            let methods = secret
                .methods
                .as_ref()
                .is_none_or(|m| m.contains(&self.facts.method));
            let path = self.judged(binding);
            let paths = secret.paths.as_ref();
            let paths = paths.is_none_or(|p| p.iter().any(|p| text_fits(&p.to_string(), &path)));
            let narrow = (methods && paths) || self.fault == Fault::NarrowIgnored;
            secret.credential == binding.credential && phases(secret) && narrow
        });
        selected && self.binding_fits(binding)
    }

    fn binding_fits(&self, binding: &Binding) -> bool {
        binding.endpoint.to_string() == self.facts.endpoint.to_string()
            && (self.facts.websocket || !slot::is_said_later(binding))
            && binding.methods.contains(&self.facts.method)
            && binding
                .paths
                .iter()
                .any(|p| text_fits(&p.to_string(), &self.judged(binding)))
    }

    /// The path as the patterns of a binding see it.
    fn judged(&self, binding: &Binding) -> String {
        match self.fault {
            Fault::QueryTakesPart => self.facts.path.to_string(),
            _ => slot::judged(binding, self.facts),
        }
    }

    fn in_phase(&self, phase: Phase) -> bool {
        phase == self.phase || self.fault == Fault::PhaseIgnored
    }

    fn host_fits(&self, pattern: &HostPattern) -> bool {
        let host = self.facts.endpoint.host.to_string();
        match pattern {
            HostPattern::Exact(exact) => exact.to_string() == host,
            HostPattern::OneLabel(suffix) => match host.strip_suffix(&format!(".{suffix}")) {
                Some(label) => !label.contains('.'),
                None => self.fault == Fault::WildcardSpansLabels && host == suffix.to_string(),
            },
        }
    }

    fn path_fits(&self, pattern: &str) -> bool {
        let path = match self.fault {
            Fault::QueryTakesPart => self.facts.path.to_string(),
            _ => self.facts.path.path().to_owned(),
        };
        text_fits(pattern, &path)
    }

    fn ref_fits(&self, pattern: &str, name: &str) -> bool {
        let wide = pattern.replace("/*", "/**").replace("***", "**");
        let pattern = if self.fault == Fault::RefStarSpansSegments {
            &wide
        } else {
            pattern
        };
        let (pattern, name): (Vec<_>, Vec<_>) =
            (pattern.split('/').collect(), name.split('/').collect());
        // Unlike a path, a reference needs something below a last `**`.
        let below = pattern.last() != Some(&"**") || name.len() >= pattern.len();
        below && segments_fit(&pattern, &name)
    }

    fn git_facts_lie(&self) -> bool {
        let Some(git) = &self.facts.git else {
            return false;
        };
        let written = |ending: &str| {
            let (method, rest) = match &git.operation {
                GitOperation::DiscoverFetch => ("GET", "/info/refs?service=git-upload-pack"),
                GitOperation::DiscoverPush => ("GET", "/info/refs?service=git-receive-pack"),
                GitOperation::Fetch => ("POST", "/git-upload-pack"),
                GitOperation::Push(_) => ("POST", "/git-receive-pack"),
                large => panic!("no world has {large:?}"),
            };
            format!("{method} {}{ending}{rest}", git.repository)
        };
        let asked = format!("{} {}", self.facts.method, self.facts.path);
        asked != written("") && asked != written(".git")
    }
}

type Covered<'a> = (Vec<&'a AllowRule>, Vec<&'a GitGrant>, Vec<&'a Binding>);

fn text_fits(pattern: &str, path: &str) -> bool {
    let path: Vec<&str> = path.split('/').collect();
    let pattern: Vec<&str> = pattern.split('/').collect();
    segments_fit(&pattern, &path)
}

fn segments_fit(pattern: &[&str], path: &[&str]) -> bool {
    match (pattern, path) {
        (["**"], rest) => rest.iter().all(|segment| !segment.contains("%2F")),
        ([], []) => true,
        ([wanted, pattern @ ..], [segment, path @ ..]) => {
            let wanted: Vec<&str> = wanted.split("%2F").collect();
            let parts: Vec<&str> = segment.split("%2F").collect();
            parts_fit(&wanted, &parts) && segments_fit(pattern, path)
        }
        _ => false,
    }
}

/// A star stands for one part that is not empty, and never for an encoded slash.
fn parts_fit(wanted: &[&str], parts: &[&str]) -> bool {
    match (wanted, parts) {
        ([], []) => true,
        (["*", wanted @ ..], [part, parts @ ..]) => !part.is_empty() && parts_fit(wanted, parts),
        ([exact, wanted @ ..], [part, parts @ ..]) => exact == part && parts_fit(wanted, parts),
        _ => false,
    }
}
