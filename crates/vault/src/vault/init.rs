// SPDX-License-Identifier: Apache-2.0
//! Making a vault, and new tenant keys.

use super::{ChangeError, Staged, Vault};
use crate::entropy::Entropy;
use crate::keys::{
    KEY_FILE_BYTES_MIN, KeyError, Keys, PASSPHRASE_BYTES_MIN, PassphraseCost, UnsealKind, UnsealRow,
};
use crate::rows::MetaRow;
use crate::seal;
use crate::unlock::{UnlockError, data_key_place};
use torno_policy::names::TenantName;

impl Vault {
    /// Stages a new, empty, unsealed vault.
    ///
    /// # Errors
    /// See [`ChangeError`].
    pub fn init(
        &self,
        kind: UnsealKind,
        secret: &[u8],
        cost: PassphraseCost,
        entropy: &mut dyn Entropy,
    ) -> Result<Staged, ChangeError> {
        if self.is_initialised() {
            return Err(ChangeError::Exists);
        }
        let least = match kind {
            UnsealKind::Passphrase => PASSPHRASE_BYTES_MIN,
            UnsealKind::KeyFile => KEY_FILE_BYTES_MIN,
        };
        if secret.len() < least {
            return Err(ChangeError::WeakUnseal);
        }
        let mut salt = [0; 16];
        entropy.fill(&mut salt)?;
        let unseal = match kind {
            UnsealKind::Passphrase => UnsealRow::Passphrase { salt, cost },
            UnsealKind::KeyFile => UnsealRow::KeyFile { salt },
        };
        let keys = Keys::generate(entropy)?;
        let root = keys.wrap_root(&unseal, secret, entropy)?;
        let mut next = self.rows.clone();
        next.meta = Some(MetaRow {
            unseal,
            root,
            counter: 0,
            mac: [0; 32],
        });
        let mut staged = self.stage(&keys, next, 1)?;
        staged.fresh = Some(keys);
        Ok(staged)
    }

    /// Stages a new key for a tenant: its data keys are wrapped anew, and the old key is gone.
    /// The second value is the new key's version.
    ///
    /// # Errors
    /// See [`ChangeError`].
    pub fn rotate_kek(
        &self,
        tenant: &TenantName,
        entropy: &mut dyn Entropy,
    ) -> Result<(Staged, u32), ChangeError> {
        let (keys, mut next, counter) = self.draft()?;
        let version = self.kek_version(tenant) + 1;
        let (kek, row) = keys.new_kek(tenant, version, entropy)?;
        next.keks.retain(|(owner, _), _| owner != tenant);
        next.keks.insert((tenant.clone(), version), row);
        for ((owner, name), row) in &mut next.credentials {
            if owner == tenant {
                let data_key = self
                    .open_data_key(tenant, name, row)
                    .map_err(ChangeError::Rows)?;
                let place = data_key_place(tenant, name, row.version, version);
                row.data_key = seal::seal(kek.expose(), &place, data_key.expose(), entropy)
                    .map_err(KeyError::from)?;
                row.kek_version = version;
            }
        }
        let mut staged = self.stage(keys, next, counter)?;
        staged.made = Some(((tenant.clone(), version), kek));
        Ok((staged, version))
    }
}

impl From<KeyError> for ChangeError {
    fn from(error: KeyError) -> Self {
        match error {
            KeyError::Entropy(error) => Self::Entropy(error),
            KeyError::Locked(error) => Self::Locked(error),
            KeyError::Open(error) => Self::Rows(UnlockError::from(error)),
            KeyError::Cost => Self::Cost,
            KeyError::Memory => Self::Memory,
            KeyError::Cipher => Self::Cipher,
        }
    }
}
