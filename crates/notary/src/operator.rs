// SPDX-License-Identifier: Apache-2.0
//! What the owner asks, on the notary's own socket: vault, accepted documents, record.
//!
//! A change of the vault is staged, stored together with the record it owes, recorded, and only
//! then in effect; when it can't be recorded it is taken back (see `history.rs`).

use crate::history::is_vault_change;
use crate::notary::{Effect, Notary, Now, Reaction};
use crate::sessions::Session;
use torno_audit::record::BindingSet;
use torno_audit::{Digest, Durability, Event, Recorded};
use torno_notary_protocol::operator::{
    CredentialRow, OperatorReply, OperatorRequest, UnsealKind, VaultStatus,
};
use torno_notary_protocol::transit::CredentialInTransit;
use torno_policy::binding::Binding;
use torno_policy::names::{BindingId, CredentialName, TenantName};
use torno_vault::{NewCredential, PassphraseCost, Staged};

mod failure;
mod presets;

use failure::{Failure, failed, stale};

type Outcome = Result<(OperatorReply, Vec<Effect>), Failure>;

impl Notary {
    /// Does what the owner asks. `attachments` are the frame's.
    pub fn operator(
        &mut self,
        request: OperatorRequest,
        attachments: &[CredentialInTransit],
        now: Now,
    ) -> Reaction<OperatorReply> {
        match self.operate(request, attachments, now) {
            Ok((reply, effects)) => Reaction {
                reply: Some(reply),
                effects,
            },
            Err(failure) => Reaction::reply(failure.reply()),
        }
    }

    fn operate(
        &mut self,
        request: OperatorRequest,
        attachments: &[CredentialInTransit],
        now: Now,
    ) -> Outcome {
        let tenant = self.tenant.clone();
        match request {
            OperatorRequest::Init { unseal } => self.init(unseal, attached(attachments)?, now),
            OperatorRequest::Unseal => self.unseal(attached(attachments)?, now),
            OperatorRequest::Seal => self.seal(now),
            OperatorRequest::Status => Ok((self.status(), Vec::new())),
            OperatorRequest::Put { name, shape } => {
                let value = attached(attachments)?;
                self.put(&name, &shape, value, now)
            }
            OperatorRequest::Rotate { name } => {
                let value = attached(attachments)?;
                self.rotate(&name, value, now)
            }
            OperatorRequest::Revoke { name } => {
                let staged = self.vault.revoke(&tenant, &name).map_err(failed)?;
                let cut = self.holders(&name);
                self.change(staged, Event::CredentialRevoked { name }, cut, now)
            }
            OperatorRequest::Remove { name } => {
                let staged = self.vault.remove(&tenant, &name).map_err(failed)?;
                let cut = self.holders(&name);
                self.change(staged, Event::CredentialRemoved { name }, cut, now)
            }
            OperatorRequest::Bind(binding) => self.bind(*binding, now),
            OperatorRequest::Unbind { id } => self.unbind(&tenant, id, now),
            OperatorRequest::List => Ok((self.list(), Vec::new())),
            OperatorRequest::RotateKek => {
                let made = self.vault.rotate_kek(&tenant, &mut *self.entropy);
                let (staged, version) = made.map_err(failed)?;
                self.change(staged, Event::KekRotated { version }, Vec::new(), now)
            }
            OperatorRequest::Accept { digest } => self.accept(&digest, now),
            OperatorRequest::Accepted { digest } => {
                let digest = parse_digest(&digest)?;
                let accepted = self.store.is_accepted(&digest.to_string());
                Ok((
                    OperatorReply::Accepted(accepted.map_err(failed)?),
                    Vec::new(),
                ))
            }
            OperatorRequest::Presets => Ok((self.preset_rows(), Vec::new())),
            OperatorRequest::SetPreset { name, text } => self.set_preset(name, &text, now),
            OperatorRequest::RemovePreset { name } => self.remove_preset(&name, now),
            OperatorRequest::RecordHead => Ok((self.record_head(), Vec::new())),
            OperatorRequest::Prune { keep_segments } => self.prune(keep_segments, now),
        }
    }

    fn init(&mut self, kind: UnsealKind, secret: &[u8], now: Now) -> Outcome {
        self.check_history()?;
        let kind = match kind {
            UnsealKind::Passphrase => torno_vault::UnsealKind::Passphrase,
            UnsealKind::KeyFile => torno_vault::UnsealKind::KeyFile,
        };
        let cost = PassphraseCost::DEFAULT;
        let staged = self.vault.init(kind, secret, cost, &mut *self.entropy);
        self.change(
            staged.map_err(failed)?,
            Event::VaultInitialised,
            Vec::new(),
            now,
        )
    }

    fn unseal(&mut self, secret: &[u8], now: Now) -> Outcome {
        self.check_history()?;
        match self.vault.unseal(secret) {
            Ok(unsealed) => {
                let recorded = self.record_value(Event::VaultUnsealed, unsealed, now)?;
                self.vault.admit(recorded);
                Ok((OperatorReply::Done, Vec::new()))
            }
            Err(error) => {
                // A failed try is written down whether or not anybody reads the reply.
                self.note(vec![(now.entry(None, Event::UnsealFailed), ())]);
                Err(failed(error))
            }
        }
    }

    /// Keys go first, whatever the record says.
    fn seal(&mut self, now: Now) -> Outcome {
        self.vault.seal();
        let running = self.sessions.values().filter(|s| s.is_live());
        let effects = running.flat_map(Session::cut_credentials).collect();
        let batch = vec![(now.entry(None, Event::VaultSealed), ())];
        let reply = match self.recorder.append_final(batch) {
            Ok(_recorded) => OperatorReply::Done,
            Err(error) => failed(error).reply(),
        };
        Ok((reply, effects))
    }

    fn put(&mut self, name: &CredentialName, shape: &str, value: &[u8], now: Now) -> Outcome {
        let tenant = self.tenant.clone();
        let new = NewCredential {
            tenant: &tenant,
            name,
            shape,
            value,
        };
        let staged = self.vault.put(new, now.unix_seconds(), &mut *self.entropy);
        let event = Event::CredentialPut {
            name: name.clone(),
            version: 1,
        };
        let cut = self.unsearched(name);
        self.change(staged.map_err(failed)?, event, cut, now)
    }

    /// The next question gets the new value.
    fn rotate(&mut self, name: &CredentialName, value: &[u8], now: Now) -> Outcome {
        let tenant = self.tenant.clone();
        let seconds = now.unix_seconds();
        let entropy = &mut *self.entropy;
        let made = self.vault.rotate((&tenant, name), value, seconds, entropy);
        let (staged, version) = made.map_err(failed)?;
        let event = Event::CredentialRotated {
            name: name.clone(),
            version,
        };
        let cut = self.unsearched(name);
        self.change(staged, event, cut, now)
    }

    fn bind(&mut self, binding: Binding, now: Now) -> Outcome {
        if binding.tenant != self.tenant {
            return Err(Failure {
                code: "tenant",
                message: format!("bindings here belong to tenant `{}`", self.tenant),
            });
        }
        let id = binding.id.clone();
        // A binding that is replaced no longer covers what it covered.
        let former = self.vault.binding(&self.tenant, &id);
        let cut = former.map(|former| former.credential.clone());
        let cut = cut.map_or_else(Vec::new, |credential| self.holders(&credential));
        let staged = self
            .vault
            .bind(binding, now.unix_seconds())
            .map_err(failed)?;
        let row = staged.binding(&self.tenant, &id).ok_or_else(stale)?;
        let event = Event::BindingSet(Box::new(BindingSet::of(row)));
        self.change(staged, event, cut, now)
    }

    fn unbind(&mut self, tenant: &TenantName, id: BindingId, now: Now) -> Outcome {
        let former = self.vault.binding(tenant, &id);
        let cut = former.map(|former| former.credential.clone());
        let cut = cut.map_or_else(Vec::new, |credential| self.holders(&credential));
        let staged = self.vault.unbind(tenant, &id).map_err(failed)?;
        self.change(staged, Event::BindingRemoved { binding: id }, cut, now)
    }

    /// Stores, records, applies. What can't be recorded is taken back.
    fn change(&mut self, staged: Staged, event: Event, cut: Vec<Effect>, now: Now) -> Outcome {
        self.check_history()?;
        // INVARIANT: `history.rs` must know every event that stands for a change.
        if !is_vault_change(&event) {
            return Err(stale());
        }
        let undo = staged.undo().to_vec();
        let valued = match &event {
            Event::CredentialPut { name, .. } | Event::CredentialRotated { name, .. } => {
                Some(name.clone())
            }
            _ => None,
        };
        let stored = self.store.commit(staged.changes(), Some(&event));
        stored.map_err(failed)?;
        match self.record_value(event, staged, now) {
            Ok(recorded) => {
                if let Err(error) = self.vault.apply(recorded) {
                    // It is on disk and in the record: whatever it ends is cut.
                    return Ok((failed(error).reply(), cut));
                }
                if let Some(name) = valued {
                    self.watch += 1;
                    self.valued.insert(name, self.watch);
                }
                // Should this fail, the next start finds the record and settles.
                let _ = self.remember_seen();
                Ok((OperatorReply::Done, cut))
            }
            Err(failure) => {
                // Should this fail too, the next start records what is stored before using it.
                let _ = self.store.commit(&undo, None);
                Err(failure)
            }
        }
    }

    fn accept(&mut self, digest: &str, now: Now) -> Outcome {
        let digest = parse_digest(digest)?;
        let text = digest.to_string();
        let known = self.store.is_accepted(&text).map_err(failed)?;
        self.store
            .accept(&text, now.unix_seconds())
            .map_err(failed)?;
        match self.record_value(Event::DocumentAccepted { digest }, (), now) {
            Ok(_recorded) => Ok((OperatorReply::Done, Vec::new())),
            Err(failure) => {
                if !known {
                    let _ = self.store.unaccept(&text);
                }
                Err(failure)
            }
        }
    }

    fn prune(&mut self, keep: u32, now: Now) -> Outcome {
        self.check_history()?;
        self.remember_seen().map_err(failed)?;
        let keep = usize::try_from(keep).unwrap_or(usize::MAX);
        let pruned = self.recorder.prune(keep, now.unix_ms).map_err(failed)?;
        let reply = OperatorReply::Pruned {
            segments: pruned.segments,
        };
        Ok((reply, Vec::new()))
    }

    fn status(&self) -> OperatorReply {
        let kind = self.vault.unseal_kind().map(|kind| match kind {
            torno_vault::UnsealKind::Passphrase => UnsealKind::Passphrase,
            torno_vault::UnsealKind::KeyFile => UnsealKind::KeyFile,
        });
        let credentials = self.vault.credentials(&self.tenant).count();
        OperatorReply::Status(VaultStatus {
            initialised: self.vault.is_initialised(),
            sealed: self.vault.is_sealed(),
            unseal: kind,
            credentials: u32::try_from(credentials).unwrap_or(u32::MAX),
            kek_version: self.vault.kek_version(&self.tenant),
        })
    }

    fn list(&self) -> OperatorReply {
        let rows = self.vault.credentials(&self.tenant);
        let credentials = rows.map(|(name, row)| CredentialRow {
            name: name.clone(),
            shape: row.shape.clone(),
            version: row.version,
            revoked: row.revoked,
            changed_at: row.changed_at,
        });
        OperatorReply::Listed {
            credentials: credentials.collect(),
            bindings: self.vault.bindings(&self.tenant).cloned().collect(),
        }
    }

    fn record_head(&self) -> OperatorReply {
        let head = self.recorder.head();
        OperatorReply::RecordHead {
            directory: self.record_directory.display().to_string(),
            public_key: self.recorder.public_key().to_string(),
            size: head.size,
            root: head.root.to_string(),
        }
    }

    /// Running sessions whose live streams a credential no longer covers.
    fn holders(&self, credential: &CredentialName) -> Vec<Effect> {
        let running = self.sessions.values().filter(|s| s.is_live());
        let holding = running.filter(|s| s.tenant == self.tenant && s.holds(credential));
        let cut = holding.map(|session| Effect::Revoke {
            session: session.id().clone(),
            credential: Some(credential.clone()),
        });
        cut.collect()
    }

    /// Running sessions that hold a credential which gets a new value: none of their streams is
    /// searched for it, whatever far end it comes from, so all are cut.
    fn unsearched(&self, credential: &CredentialName) -> Vec<Effect> {
        let whole = |effect| match effect {
            Effect::Revoke { session, .. } => Effect::Revoke {
                session,
                credential: None,
            },
        };
        self.holders(credential).into_iter().map(whole).collect()
    }

    fn check_history(&self) -> Result<(), Failure> {
        if self.rolled_back {
            let message = "the store is older than the record: a change of the vault that was \
                           recorded is missing; restore the newest store, or move store and \
                           record away together to begin anew";
            return Err(Failure {
                code: "rolled_back",
                message: message.to_owned(),
            });
        }
        Ok(())
    }

    fn record_value<T>(
        &mut self,
        event: Event,
        value: T,
        now: Now,
    ) -> Result<Recorded<T>, Failure> {
        let batch = vec![(now.entry(None, event), value)];
        let recorded = self.recorder.append(batch, Durability::Synced);
        recorded.map_err(failed)?.pop().ok_or_else(stale)
    }
}

impl Session {
    /// One cut for each credential it holds.
    fn cut_credentials(&self) -> Vec<Effect> {
        let cut = |credential: &CredentialName| Effect::Revoke {
            session: self.id().clone(),
            credential: Some(credential.clone()),
        };
        self.credentials().map(cut).collect()
    }
}

fn attached(attachments: &[CredentialInTransit]) -> Result<&[u8], Failure> {
    match attachments {
        [one] => Ok(one.expose()),
        _ => Err(Failure {
            code: "attachment",
            message: "exactly one secret comes with this request; send it again".to_owned(),
        }),
    }
}

fn parse_digest(text: &str) -> Result<Digest, Failure> {
    Digest::parse(text).map_err(failed)
}
