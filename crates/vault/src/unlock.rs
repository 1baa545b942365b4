// SPDX-License-Identifier: Apache-2.0
//! The only way to a plaintext: a decision that stands in the record, whose binding still holds.
//!
//! No unlock without a record:
//! ```compile_fail,E0308
//! fn early(
//!     vault: &torno_vault::Vault,
//!     tenant: &torno_policy::names::TenantName,
//!     permit: &torno_policy::decision::Permit,
//! ) {
//!     let _ = vault.unlock(tenant, permit);
//! }
//! ```

use crate::fingerprint::{Fingerprint, ROLLING_WINDOW, Rolling, base_of};
use crate::rows::CredentialRow;
use crate::seal::{self, Field, OpenError, Place};
use crate::secret::{Secret, SecretError};
use crate::vault::Vault;
use crate::{Entropy, EntropyError};
use sha2::{Digest, Sha256};
use thiserror::Error;
use torno_audit::Recorded;
use torno_policy::decision::{Permit, PermittedInjection};
use torno_policy::names::{CredentialName, Endpoint, TenantName};

/// Why nothing was unlocked.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum UnlockError {
    /// The keys are not in memory.
    #[error("the vault is sealed; unseal it with `torno vault unseal`")]
    Sealed,
    /// The permit covers no credential.
    #[error("the decision covers no credential")]
    NoCredential,
    /// The binding was removed or changed since.
    #[error("the binding was changed after the decision; ask again")]
    Binding,
    /// The credential was revoked or removed since.
    #[error("the credential was revoked or removed; put a new one with `torno secret put`")]
    Revoked,
    /// The row does not open.
    #[error("the credential's row was changed; restore the newest backup")]
    Row,
    /// Locked memory.
    #[error(transparent)]
    Locked(#[from] SecretError),
    /// Randomness, for fingerprints.
    #[error(transparent)]
    Entropy(#[from] EntropyError),
}

impl Vault {
    /// Unlocks the one credential that a recorded decision covers, and says which version it is.
    ///
    /// # Errors
    /// See [`UnlockError`].
    pub fn unlock(
        &self,
        tenant: &TenantName,
        permit: &Recorded<Permit>,
    ) -> Result<(Secret, u32), UnlockError> {
        let permit = permit.value();
        let (injection, endpoint) = match (permit.injection(), permit.endpoint()) {
            (Some(injection), Some(endpoint)) => (injection, endpoint),
            (None, _) | (_, None) => return Err(UnlockError::NoCredential),
        };
        let row = self.releasable(tenant, injection, endpoint)?;
        let value = self.open_value(tenant, &injection.credential, row)?;
        Ok((value, row.version))
    }

    /// The version that [`Self::unlock`] would hand out right now, for the record that precedes it.
    ///
    /// # Errors
    /// As [`Self::unlock`], but for what only decryption can show.
    pub fn version_for(&self, tenant: &TenantName, permit: &Permit) -> Result<u32, UnlockError> {
        match (permit.injection(), permit.endpoint()) {
            (Some(injection), Some(endpoint)) => self
                .releasable(tenant, injection, endpoint)
                .map(|row| row.version),
            (None, _) | (_, None) => Err(UnlockError::NoCredential),
        }
    }

    /// The version of a watched credential that [`Self::unlock_watched`] would hand out right now;
    /// nothing when it was revoked or removed.
    ///
    /// # Errors
    /// [`UnlockError::Sealed`].
    pub fn version_of(
        &self,
        tenant: &TenantName,
        name: &CredentialName,
    ) -> Result<Option<u32>, UnlockError> {
        if self.is_sealed() {
            return Err(UnlockError::Sealed);
        }
        let row = self.credential(tenant, name).filter(|row| !row.revoked);
        Ok(row.map(|row| row.version))
    }

    /// Unlocks a credential that a recorded decision watches: one that the session holds, wanted so
    /// that the answer can be searched for it.
    ///
    /// # Errors
    /// See [`UnlockError`].
    pub fn unlock_watched(
        &self,
        tenant: &TenantName,
        permit: &Recorded<Permit>,
        name: &CredentialName,
    ) -> Result<Secret, UnlockError> {
        if self.is_sealed() {
            return Err(UnlockError::Sealed);
        }
        if !permit.value().watched().contains(name) {
            return Err(UnlockError::NoCredential);
        }
        let row = self.credential(tenant, name).filter(|row| !row.revoked);
        self.open_value(tenant, name, row.ok_or(UnlockError::Revoked)?)
    }

    /// Fingerprints of every value of a tenant, revoked ones included.
    ///
    /// # Errors
    /// See [`UnlockError`].
    pub fn fingerprints(
        &self,
        tenant: &TenantName,
        entropy: &mut dyn Entropy,
    ) -> Result<Vec<Fingerprint>, UnlockError> {
        if self.is_sealed() {
            return Err(UnlockError::Sealed);
        }
        let mut random = [0; 8];
        entropy.fill(&mut random)?;
        let base = base_of(random);
        let mut fingerprints = Vec::new();
        for (name, row) in self.credentials(tenant) {
            // Once a session for every credential there is: their keys are not kept.
            let data_key = self.open_data_key(tenant, name, row)?;
            let value = open_with(&data_key, (tenant, name), row)?;
            let value = value.expose();
            let window = value
                .first_chunk::<ROLLING_WINDOW>()
                .ok_or(UnlockError::Row)?;
            let mut salt = [0; 16];
            entropy.fill(&mut salt)?;
            fingerprints.push(Fingerprint {
                credential: name.clone(),
                length: value.len(),
                rolling: Rolling::of(base, window),
                base,
                salt,
                digest: Sha256::new()
                    .chain_update(salt)
                    .chain_update(value)
                    .finalize()
                    .into(),
            });
        }
        Ok(fingerprints)
    }

    /// The credential's row, when binding and credential still are what the decision saw.
    fn releasable(
        &self,
        tenant: &TenantName,
        injection: &PermittedInjection,
        endpoint: &Endpoint,
    ) -> Result<&CredentialRow, UnlockError> {
        if self.is_sealed() {
            return Err(UnlockError::Sealed);
        }
        let credential = self.credential(tenant, &injection.credential);
        let credential = credential.filter(|row| !row.revoked);
        let credential = credential.ok_or(UnlockError::Revoked)?;
        let same = self
            .binding(tenant, &injection.binding)
            .is_some_and(|binding| {
                binding.revision == injection.revision
                    && binding.credential == injection.credential
                    && binding.endpoint == *endpoint
            });
        if same {
            Ok(credential)
        } else {
            Err(UnlockError::Binding)
        }
    }

    pub(crate) fn open_value(
        &self,
        tenant: &TenantName,
        name: &CredentialName,
        row: &CredentialRow,
    ) -> Result<Secret, UnlockError> {
        let keys = self.keys().ok_or(UnlockError::Sealed)?;
        let open = || self.open_data_key(tenant, name, row);
        let data_key = keys.opened.of_row((tenant, name), &row.data_key, open)?;
        open_with(&data_key, (tenant, name), row)
    }

    pub(crate) fn open_data_key(
        &self,
        tenant: &TenantName,
        name: &CredentialName,
        row: &CredentialRow,
    ) -> Result<Secret, UnlockError> {
        let keys = self.keys().ok_or(UnlockError::Sealed)?;
        let kek = keys.kek(tenant, row.kek_version).ok_or(UnlockError::Row)?;
        let place = data_key_place(tenant, name, row.version, row.kek_version);
        Ok(seal::open(kek.expose(), &place, &row.data_key)?)
    }
}

fn open_with(
    data_key: &Secret,
    (tenant, name): (&TenantName, &CredentialName),
    row: &CredentialRow,
) -> Result<Secret, UnlockError> {
    let place = value_place(tenant, name, row.version);
    Ok(seal::open(data_key.expose(), &place, &row.value)?)
}

impl From<OpenError> for UnlockError {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::Refused => Self::Row,
            OpenError::Memory(error) => Self::Locked(error),
        }
    }
}

pub(crate) fn data_key_place<'a>(
    tenant: &'a TenantName,
    name: &'a CredentialName,
    version: u32,
    kek_version: u32,
) -> Place<'a> {
    Place {
        tenant: tenant.as_str(),
        name: name.as_str(),
        version,
        field: Field::DataKey,
        kek_version,
    }
}

pub(crate) fn value_place<'a>(
    tenant: &'a TenantName,
    name: &'a CredentialName,
    version: u32,
) -> Place<'a> {
    Place {
        tenant: tenant.as_str(),
        name: name.as_str(),
        version,
        field: Field::Value,
        kek_version: 0,
    }
}
