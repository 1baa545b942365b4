// SPDX-License-Identifier: Apache-2.0
//! The vault: rows in memory, keys while it is unsealed. It does no I/O: a change is *staged* (the
//! rows that would be), written by the store, recorded, and only then applied.
//!
//! ```text
//!              init               admit(Recorded<Unsealed>)
//!  (no rows) ───────▶ unsealed ◀──────────────────────────── sealed (start)
//!                        └──────────── seal ───────────────────▲
//! ```

use crate::entropy::EntropyError;
use crate::integrity;
use crate::keys::{Keys, UnsealError, UnsealKind};
use crate::rows::{Change, CredentialRow, MetaRow, Rows, changes};
use crate::secret::{Secret, SecretError};
use crate::unlock::UnlockError;
use std::collections::BTreeMap;
use thiserror::Error;
use torno_audit::Recorded;
use torno_policy::binding::{Binding, BindingError};
use torno_policy::names::{BindingId, CredentialName, TenantName};

mod bind;
mod credentials;
mod init;

pub use credentials::NewCredential;

/// Sealed credentials, and the keys while it is unsealed.
#[expect(missing_debug_implementations, reason = "it holds keys")]
pub struct Vault {
    rows: Rows,
    keys: Option<Keys>,
    /// Bindings whose credential may be used, by tenant: what decisions see.
    live: BTreeMap<TenantName, Vec<Binding>>,
}

/// A change that is not in effect yet.
#[expect(missing_debug_implementations, reason = "it may hold a new key")]
pub struct Staged {
    next: Rows,
    changes: Vec<Change>,
    undo: Vec<Change>,
    /// The keys of a vault that was just made.
    fresh: Option<Keys>,
    /// A tenant key that was just made.
    made: Option<((TenantName, u32), Secret)>,
}

/// The keys of a vault that is about to be unsealed.
#[expect(missing_debug_implementations, reason = "it holds keys")]
pub struct Unsealed(Keys);

/// Why rows can't be changed. Nothing was.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ChangeError {
    /// A vault exists.
    #[error(
        "there is a vault already; `torno vault unseal` opens it, and to begin anew end tornod and move its `notary` directory away, the record with it"
    )]
    Exists,
    /// No vault.
    #[error("there is no vault yet; make one with `torno vault init`")]
    NotInitialised,
    /// The keys are not in memory.
    #[error("the vault is sealed; unseal it with `torno vault unseal`")]
    Sealed,
    /// A weak unseal secret.
    #[error("a passphrase has at least 12 bytes, a key file at least 32; choose a longer one")]
    WeakUnseal,
    /// The name is taken.
    #[error("`{0}` exists; give it a new value with `torno secret rotate {0}`")]
    Taken(CredentialName),
    /// No such credential.
    #[error("there is no credential `{0}`; `torno secret list` shows those there are")]
    NoCredential(CredentialName),
    /// No such binding.
    #[error("there is no binding `{0}`; `torno secret list` shows those there are")]
    NoBinding(BindingId),
    /// It was revoked.
    #[error("`{0}` was revoked; remove it, and put the new value as a new credential")]
    Revoked(CredentialName),
    /// A value that can't be sent or found again.
    #[error(
        "a value has 12 bytes to 64 KiB, no control characters (but the line ends of a private key in PEM), no space at its ends, and at least 5 different characters"
    )]
    Value,
    /// A value that no path can hold.
    #[error(
        "the value of `{0}` can't stand in a path: only letters, digits and `-._~:` are read there in one way; bind it to a header or a query"
    )]
    SegmentUnsafe(CredentialName),
    /// A shape that placeholders don't have.
    #[error("a shape has at most 24 characters of `A-Z a-z 0-9 _ -`, as in `ghp_`")]
    Shape,
    /// What the binding is.
    #[error(transparent)]
    Binding(#[from] BindingError),
    /// It ends before it begins.
    #[error("the binding's time is over already; give a later time")]
    Expired,
    /// One request would match two.
    #[error("`{0}` covers some of these requests too; narrow one of the two or remove it")]
    Overlap(BindingId),
    /// Full.
    #[error("the vault is full: at most 4096 credentials and 4096 bindings; remove some")]
    Full,
    /// Another change came between.
    #[error("the vault changed in between; try again")]
    Stale,
    /// Rows that don't open.
    #[error("the vault's rows can't be opened")]
    Rows(#[source] UnlockError),
    /// Randomness.
    #[error(transparent)]
    Entropy(#[from] EntropyError),
    /// Locked memory.
    #[error(transparent)]
    Locked(#[from] SecretError),
    /// Not enough memory for the passphrase.
    #[error("there is not enough memory to derive the key; free some and try again")]
    Memory,
    /// Costs outside the range.
    #[error("the costs of a passphrase are at least 64 MiB and at most 4 GiB of memory")]
    Cost,
    /// The cipher.
    #[error("the cipher refuses this length")]
    Cipher,
}

impl Vault {
    /// A vault as the store has it, sealed.
    #[must_use]
    pub fn new(rows: Rows) -> Self {
        let mut vault = Self {
            rows,
            keys: None,
            live: BTreeMap::new(),
        };
        vault.collect_live();
        vault
    }

    /// A vault was made.
    #[must_use]
    pub const fn is_initialised(&self) -> bool {
        self.rows.meta.is_some()
    }

    /// Its keys are not in memory.
    #[must_use]
    pub const fn is_sealed(&self) -> bool {
        self.keys.is_none()
    }

    /// How it is unsealed.
    #[must_use]
    pub fn unseal_kind(&self) -> Option<UnsealKind> {
        self.rows.meta.as_ref().map(|meta| meta.unseal.kind())
    }

    /// The number of changes so far.
    #[must_use]
    pub fn counter(&self) -> u64 {
        self.rows.meta.as_ref().map_or(0, |meta| meta.counter)
    }

    /// The newest version of a tenant's key; 0 when it has none.
    #[must_use]
    pub fn kek_version(&self, tenant: &TenantName) -> u32 {
        let of_tenant = self.rows.keks.keys().filter(|(owner, _)| owner == tenant);
        of_tenant.map(|(_, version)| *version).max().unwrap_or(0)
    }

    /// A tenant's credentials, by name.
    pub fn credentials<'a>(
        &'a self,
        tenant: &'a TenantName,
    ) -> impl Iterator<Item = (&'a CredentialName, &'a CredentialRow)> {
        let all = self.rows.credentials.iter();
        all.filter(move |((owner, _), _)| owner == tenant)
            .map(|((_, name), row)| (name, row))
    }

    /// One credential.
    #[must_use]
    pub fn credential(&self, tenant: &TenantName, name: &CredentialName) -> Option<&CredentialRow> {
        let key = (tenant.clone(), name.clone());
        self.rows.credentials.get(&key)
    }

    /// A tenant's bindings whose credential may be used: what decisions see.
    #[must_use]
    pub fn live_bindings(&self, tenant: &TenantName) -> &[Binding] {
        self.live.get(tenant).map_or(&[], Vec::as_slice)
    }

    /// A tenant's bindings, all of them.
    pub fn bindings<'a>(&'a self, tenant: &'a TenantName) -> impl Iterator<Item = &'a Binding> {
        let all = self.rows.bindings.iter();
        all.filter(move |((owner, _), _)| owner == tenant)
            .map(|(_, binding)| binding)
    }

    /// One binding.
    #[must_use]
    pub fn binding(&self, tenant: &TenantName, id: &BindingId) -> Option<&Binding> {
        self.rows.bindings.get(&(tenant.clone(), id.clone()))
    }

    /// Opens the key hierarchy and checks that the rows are whole. Nothing is in effect yet.
    ///
    /// # Errors
    /// See [`UnsealError`].
    pub fn unseal(&self, secret: &[u8]) -> Result<Unsealed, UnsealError> {
        if !self.is_sealed() {
            return Err(UnsealError::AlreadyUnsealed);
        }
        let meta = self.rows.meta.as_ref().ok_or(UnsealError::NotInitialised)?;
        let keys = Keys::unwrap(&meta.unseal, &meta.root, secret, &self.rows)?;
        if integrity::is_whole(&keys, meta, &self.rows) {
            Ok(Unsealed(keys))
        } else {
            Err(UnsealError::Integrity)
        }
    }

    /// The vault is unsealed, which stands in the record.
    pub fn admit(&mut self, unsealed: Recorded<Unsealed>) {
        let Unsealed(keys) = unsealed.into_value();
        self.keys = Some(keys);
    }

    /// Drops every key.
    pub fn seal(&mut self) {
        self.keys = None;
    }

    /// A change is in effect: it is stored, and stands in the record.
    ///
    /// # Errors
    /// [`ChangeError::Stale`] when another change was applied after this one was staged.
    pub fn apply(&mut self, staged: Recorded<Staged>) -> Result<(), ChangeError> {
        let staged = staged.into_value();
        let next = staged.next.meta.as_ref().map_or(0, |meta| meta.counter);
        if next != self.counter() + 1 {
            return Err(ChangeError::Stale);
        }
        self.rows = staged.next;
        if let Some(fresh) = staged.fresh {
            self.keys = Some(fresh);
        }
        if let Some(keys) = &mut self.keys {
            keys.follow(&self.rows, staged.made);
        }
        self.collect_live();
        Ok(())
    }

    pub(crate) const fn keys(&self) -> Option<&Keys> {
        self.keys.as_ref()
    }

    fn collect_live(&mut self) {
        let mut live: BTreeMap<TenantName, Vec<Binding>> = BTreeMap::new();
        for ((tenant, _), binding) in &self.rows.bindings {
            let credential = self.credential(tenant, &binding.credential);
            if credential.is_some_and(|row| !row.revoked) {
                live.entry(tenant.clone())
                    .or_default()
                    .push(binding.clone());
            }
        }
        self.live = live;
    }

    /// Rows to change, with the next counter, when the vault is unsealed.
    fn draft(&self) -> Result<(&Keys, Rows, u64), ChangeError> {
        if self.rows.meta.is_none() {
            return Err(ChangeError::NotInitialised);
        }
        let keys = self.keys.as_ref().ok_or(ChangeError::Sealed)?;
        Ok((keys, self.rows.clone(), self.counter() + 1))
    }

    fn stage(&self, keys: &Keys, mut next: Rows, counter: u64) -> Result<Staged, ChangeError> {
        let mac = integrity::mac(keys, &next, counter).ok_or(ChangeError::Cipher)?;
        let meta = next.meta.take().ok_or(ChangeError::Sealed)?;
        next.meta = Some(MetaRow {
            counter,
            mac,
            ..meta
        });
        Ok(Staged {
            changes: changes(&self.rows, &next),
            undo: changes(&next, &self.rows),
            next,
            fresh: None,
            made: None,
        })
    }
}

impl Staged {
    /// What the store must write, whole or not at all.
    #[must_use]
    pub fn changes(&self) -> &[Change] {
        &self.changes
    }

    /// What takes it back, when it could not be recorded.
    #[must_use]
    pub fn undo(&self) -> &[Change] {
        &self.undo
    }

    /// A credential as it will be.
    #[must_use]
    pub fn credential(&self, tenant: &TenantName, name: &CredentialName) -> Option<&CredentialRow> {
        let key = (tenant.clone(), name.clone());
        self.next.credentials.get(&key)
    }

    /// A binding as it will be.
    #[must_use]
    pub fn binding(&self, tenant: &TenantName, id: &BindingId) -> Option<&Binding> {
        self.next.bindings.get(&(tenant.clone(), id.clone()))
    }
}

#[cfg(test)]
mod tests;
