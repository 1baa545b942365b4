// SPDX-License-Identifier: Apache-2.0
//! A session begins: an accepted document, narrowed by the person's choice, admitted by the
//! organisation, with a placeholder for each of its credentials. The notary reads the document
//! itself: the desk's word is not enough.

use super::{Pace, Session};
use crate::minted::Minted;
use crate::notary::{Notary, Now};
use crate::receipts::Receipts;
use crate::refusals::{record_unavailable, refusal, undecidable};
use std::collections::{BTreeMap, BTreeSet};
use torno_audit::{Digest, Event, List};
use torno_notary_protocol::desk::{Begin, Begun, Choice};
use torno_policy::decide::IssuedPlaceholder;
use torno_policy::decision::{Layer, Reason, Refusal};
use torno_policy::document;
use torno_policy::facts::ToolFacts;
use torno_policy::grant::{
    Grant, Image, Isolation, SandboxGrant, ToolPattern, Verdict, WorkspaceMode,
};
use torno_policy::names::{CredentialName, ImageDigest, RecordSeq, TenantName, ToolName};
use torno_policy::placeholder::Placeholder;
use torno_policy::standing::{Phase, Standing, State};
use torno_policy::tool;
use torno_policy::tripwire::{Tripwire, Wire};

/// LIMIT: sessions that run at once; each costs about 10 KiB here and a gate elsewhere.
const RUNNING_MAX: usize = 10_000;

impl Notary {
    /// Begins a session, durably and recorded, or refuses it with nothing left behind.
    pub(crate) fn begin(&mut self, begin: Begin, now: Now) -> Result<Begun, Refusal> {
        let digest = self.check_accepted(&begin.document)?;
        let grant = self.admit(&begin)?;
        self.check_room()?;
        let placeholders = self.issue(&begin.tenant, &grant)?;
        let tripwires = self.lay_tripwires(&grant)?;
        let standing = Standing {
            session: begin.session.clone(),
            generation: self.generation,
            state: State::Running,
            phase: if grant.install.is_some() {
                Phase::Install
            } else {
                Phase::Locked
            },
        };
        let begun_at = self.write_down(&begin, &grant, digest, now)?;
        let begun = Begun {
            ticket: begin.ticket,
            generation: self.generation,
            phase: standing.phase,
            placeholders: variables(&grant, &placeholders),
            tools: allowed_tools(&grant),
            grant: grant.clone(),
            tripwires: tripwires.clone(),
        };
        let issued = placeholders
            .iter()
            .map(|(credential, p)| IssuedPlaceholder {
                digest: p.digest(),
                credential: credential.clone(),
            });
        let session = Session {
            standing,
            tenant: begin.tenant,
            pace: Pace::new(&grant.sandbox.limits, now),
            grant,
            issued: issued.collect(),
            tripwires: tripwires.iter().filter_map(Tripwire::issued).collect(),
            placeholders,
            minted: Minted::default(),
            begun_at,
            receipts: Receipts::default(),
            records: 1,
            frozen: false,
            open: BTreeMap::new(),
            cut: 0,
            credentialed_writes: 0,
            placeholders_dead: 0,
            kill_completed: false,
        };
        self.sessions.insert(session.id().clone(), session);
        Ok(begun)
    }

    /// The document's grant as the person narrowed it and the organisation admits it.
    fn admit(&self, begin: &Begin) -> Result<Grant, Refusal> {
        let grant = document::parse(&begin.document, &self.presets);
        let mut grant = grant.map_err(|error| {
            let hint = format!("the policy document can't be read: {error}");
            refusal(Reason::Undecidable, Layer::Session, "document", &hint)
        })?;
        narrow(&mut grant.sandbox, &begin.choice)?;
        pin(&mut grant.sandbox.image, begin.image.as_ref())?;
        check_level(grant.sandbox.isolation, begin.effective_isolation)?;
        check_emulation(&grant.sandbox, begin.emulated)?;
        self.organisation.admits_start(&grant)?;
        Ok(grant)
    }

    fn check_room(&self) -> Result<(), Refusal> {
        if self.sessions.values().filter(|s| s.is_live()).count() < RUNNING_MAX {
            return Ok(());
        }
        let hint = "too many sessions run; end some";
        Err(refusal(
            Reason::LimitReached,
            Layer::Session,
            "sessions",
            hint,
        ))
    }

    /// Stored and recorded, or neither in effect; gives what the record says of it.
    fn write_down(
        &mut self,
        begin: &Begin,
        grant: &Grant,
        document_digest: Digest,
        now: Now,
    ) -> Result<RecordSeq, Refusal> {
        // The store first: it refuses an id that was ever used.
        self.store
            .begin(&begin.session, &begin.tenant, self.generation)
            .map_err(|_| {
                let hint = "the session's id was used before, or the store failed; \
                            begin with another id";
                refusal(Reason::SessionFenced, Layer::Standing, "standing", hint)
            })?;
        let event = Event::SessionBegun {
            generation: self.generation,
            tenant: begin.tenant.clone(),
            document_digest,
            isolation: begin.effective_isolation,
            guarantees: List::new(begin.guarantees.iter().map(|g| g.as_str().into())),
        };
        let entry = |event| now.entry(Some(begin.session.clone()), event);
        let image = &grant.sandbox.image;
        let chosen = image.digest().map(|digest| Event::ImageChosen {
            image: image.spelling().into(),
            digest: digest.clone(),
        });
        let recorded = self.record(entry(event)).and_then(|begun_at| {
            chosen.map_or(Ok(()), |chosen| self.record(entry(chosen)).map(|_| ()))?;
            Ok(begun_at)
        });
        recorded.map_err(|_| {
            // The next life ends it if this fails too.
            let _ = self
                .store
                .stop(std::slice::from_ref(&begin.session), "ended");
            record_unavailable()
        })
    }

    fn check_accepted(&mut self, text: &str) -> Result<Digest, Refusal> {
        let digest = Digest::new(document::digest_with(text, &self.presets).0);
        match self.store.is_accepted(&digest.to_string()) {
            Ok(true) => Ok(digest),
            Ok(false) => {
                let hint = "nobody accepted this policy document, or a preset that it names changed since; \
                            read it and run `torno trust`";
                Err(refusal(
                    Reason::Undecidable,
                    Layer::Session,
                    "document",
                    hint,
                ))
            }
            Err(_) => Err(undecidable()),
        }
    }

    /// A placeholder for each credential of the grant; each must exist, unrevoked and bound.
    fn issue(
        &mut self,
        tenant: &TenantName,
        grant: &Grant,
    ) -> Result<BTreeMap<CredentialName, Placeholder>, Refusal> {
        let of_git = grant.git.iter().filter_map(|git| git.secret.as_ref());
        let of_secrets = grant.secrets.iter().map(|secret| &secret.credential);
        let wanted: BTreeSet<_> = of_secrets.chain(of_git).collect();
        if !wanted.is_empty() && self.vault.is_sealed() {
            let hint = "the vault is sealed and this session wants credentials; \
                        unseal it with `torno vault unseal`";
            return Err(refusal(Reason::VaultSealed, Layer::Vault, "sealed", hint));
        }
        let mut placeholders = BTreeMap::new();
        for name in wanted {
            let shape = self.check_credential(tenant, name)?;
            let mut random = [0; 16];
            self.entropy.fill(&mut random).map_err(|_| undecidable())?;
            placeholders.insert(name.clone(), Placeholder::new(&shape, random));
        }
        Ok(placeholders)
    }

    /// A tripwire for each place, where the grant wants them. They stand for no credential.
    fn lay_tripwires(&mut self, grant: &Grant) -> Result<Vec<Tripwire>, Refusal> {
        let mut tripwires = Vec::new();
        for wire in Wire::ALL.into_iter().filter(|_| grant.sandbox.tripwires) {
            let mut random = [0; 16];
            self.entropy.fill(&mut random).map_err(|_| undecidable())?;
            tripwires.push(Tripwire::new(wire, random));
        }
        Ok(tripwires)
    }

    /// The shape of a credential that may be used.
    fn check_credential(
        &self,
        tenant: &TenantName,
        name: &CredentialName,
    ) -> Result<String, Refusal> {
        let deny = |hint: String| {
            let rule = format!("secret.{name}");
            refusal(Reason::CredentialRevoked, Layer::Vault, &rule, &hint)
        };
        let row = self.vault.credential(tenant, name);
        let row = row.ok_or_else(|| {
            deny(format!(
                "there is no credential `{name}`; run `torno secret put {name}`"
            ))
        })?;
        if row.revoked {
            let hint = format!("`{name}` was revoked; remove it and put a new value");
            return Err(deny(hint));
        }
        let bound = self.vault.live_bindings(tenant).iter();
        if bound.filter(|binding| binding.credential == *name).count() == 0 {
            let hint = format!("`{name}` is bound to nothing; run `torno secret bind {name}`");
            return Err(deny(hint));
        }
        Ok(row.shape.clone())
    }
}

/// Applies the person's choice: it narrows, or names a level.
fn narrow(sandbox: &mut SandboxGrant, choice: &Choice) -> Result<(), Refusal> {
    let widens = |what: &str| {
        let hint = format!("{what} is wider than the policy document; change it and `torno trust`");
        Err(refusal(
            Reason::Undecidable,
            Layer::Session,
            "choice",
            &hint,
        ))
    };
    if choice.emulation {
        if sandbox.isolation != Isolation::Strongest && !sandbox.emulation {
            return widens("--emulation");
        }
        sandbox.emulation = true;
    }
    if let Some(level) = choice.isolation {
        if strength(level) < strength(sandbox.isolation) {
            return widens("--isolation");
        }
        sandbox.isolation = level;
    }
    if let Some(mode) = choice.workspace {
        if openness(mode) > openness(sandbox.workspace) {
            return widens("--workspace");
        }
        sandbox.workspace = mode;
    }
    if let Some(seconds) = choice.wall_seconds {
        if seconds == 0 || seconds > sandbox.limits.wall_seconds {
            return widens("--wall");
        }
        sandbox.limits.wall_seconds = seconds;
    }
    Ok(())
}

/// A name stands from here on for what it stood for when the session began.
fn pin(image: &mut Image, found: Option<&ImageDigest>) -> Result<(), Refusal> {
    match (image, found) {
        (Image::Host, None) => return Ok(()),
        (Image::Named { digest, .. }, Some(found)) => {
            *digest = Some(found.clone());
            return Ok(());
        }
        (Image::Exact(digest), Some(found)) if digest == found => return Ok(()),
        (Image::Host | Image::Named { .. } | Image::Exact(_), _) => {}
    }
    let hint = "the image that would be used is not the one that the policy document names";
    Err(refusal(Reason::Undecidable, Layer::Session, "image", hint))
}

/// A document that names no level leaves the choice to the person, down to `container` by name.
const fn strength(level: Isolation) -> u8 {
    match level {
        Isolation::Strongest => 0,
        Isolation::Container => 1,
        Isolation::Gvisor => 2,
        Isolation::Microvm => 3,
        Isolation::Vm => 4,
    }
}

const fn openness(mode: WorkspaceMode) -> u8 {
    match mode {
        WorkspaceMode::None => 0,
        WorkspaceMode::Copy => 1,
        WorkspaceMode::Bind => 2,
    }
}

/// The level that will be used is the one that was asked for (I11).
fn check_level(asked: Isolation, used: Isolation) -> Result<(), Refusal> {
    let fits = match (asked, used) {
        (_, Isolation::Strongest) | (Isolation::Strongest, Isolation::Container) => false,
        (Isolation::Strongest, Isolation::Gvisor | Isolation::Microvm | Isolation::Vm) => true,
        (asked, used) => asked == used,
    };
    if fits {
        return Ok(());
    }
    let hint = "the isolation level that would be used is not the one that was asked for; \
                name it with `--isolation`";
    Err(refusal(
        Reason::Undecidable,
        Layer::Session,
        "isolation",
        hint,
    ))
}

/// Emulation claims no boundary, so it is used only where the grant says so and names the level.
fn check_emulation(sandbox: &SandboxGrant, emulated: bool) -> Result<(), Refusal> {
    if !emulated || (sandbox.emulation && sandbox.isolation != Isolation::Strongest) {
        return Ok(());
    }
    let hint = "this machine can only emulate that level, which is no boundary; name it and say \
                `emulation = true`, or `--emulation`, if that will do";
    Err(refusal(
        Reason::Undecidable,
        Layer::Session,
        "emulation",
        hint,
    ))
}

/// Variables and what stands in them.
fn variables(
    grant: &Grant,
    placeholders: &BTreeMap<CredentialName, Placeholder>,
) -> Vec<(String, String)> {
    let named = grant.secrets.iter().filter_map(|secret| {
        let placeholder = placeholders.get(&secret.credential)?;
        Some((secret.env.clone()?, placeholder.as_str().to_owned()))
    });
    named.collect()
}

/// Tools that are allowed whatever their arguments.
fn allowed_tools(grant: &Grant) -> Vec<ToolName> {
    let shipped = tool::SHIPPED.iter();
    let shipped = shipped.filter_map(|(name, _)| ToolName::parse(name).ok());
    let named = grant.tools.iter().filter_map(|rule| match &rule.tool {
        ToolPattern::Exact(name) if rule.when.is_empty() => Some(name.clone()),
        ToolPattern::Exact(_) | ToolPattern::Server(_) => None,
    });
    let all: BTreeSet<ToolName> = shipped.chain(named).collect();
    let allowed = all.into_iter().filter(|name| {
        let facts = ToolFacts {
            tool: name.clone(),
            arguments: serde_json::Value::Null,
        };
        let (verdict, _) = tool::judge(&grant.tools, &facts);
        verdict == Verdict::Allow
    });
    allowed.collect()
}

#[cfg(test)]
mod tests;
