// SPDX-License-Identifier: Apache-2.0
//! Values go in here, and never come out but by `unlock`.

use super::{ChangeError, Staged, Vault};
use crate::entropy::Entropy;
use crate::fingerprint::ROLLING_WINDOW;
use crate::keys::{KeyError, random_key};
use crate::rows::{CredentialRow, Sealed};
use crate::seal;
use crate::secret::Secret;
use crate::unlock::{data_key_place, value_place};
use std::collections::BTreeSet;
use torno_policy::binding::is_segment_safe;
use torno_policy::names::{CredentialName, TenantName};
use torno_policy::placeholder::SHAPE_BYTES_MAX;

/// LIMIT: one role's message carries it whole; real tokens are under 8 KiB.
const VALUE_BYTES_MAX: usize = 64 * 1024;
/// LIMIT: a shorter value would be found in answers by chance, and could not be scrubbed.
const VALUE_BYTES_MIN: usize = ROLLING_WINDOW;
/// LIMIT: fewer different characters is a pattern, and scrubbing it would eat the answer.
const DIFFERENT_BYTES_MIN: usize = 5;
/// LIMIT: the whole set is in memory and under one MAC; a change stays under a millisecond.
const CREDENTIALS_MAX: usize = 4096;

/// A value and what it is.
#[derive(Clone, Copy)]
#[expect(missing_debug_implementations, reason = "it holds a value")]
pub struct NewCredential<'a> {
    /// Whose it is.
    pub tenant: &'a TenantName,
    /// Its name.
    pub name: &'a CredentialName,
    /// The placeholder's shape.
    pub shape: &'a str,
    /// The value.
    pub value: &'a [u8],
}

impl Vault {
    /// Stages a new credential. Its tenant gets a key when it has none.
    ///
    /// # Errors
    /// See [`ChangeError`].
    pub fn put(
        &self,
        new: NewCredential<'_>,
        now: u64,
        entropy: &mut dyn Entropy,
    ) -> Result<Staged, ChangeError> {
        let (keys, mut next, counter) = self.draft()?;
        let NewCredential {
            tenant,
            name,
            shape,
            value,
        } = new;
        if self.credential(tenant, name).is_some() {
            return Err(ChangeError::Taken(name.clone()));
        }
        if next.credentials.len() >= CREDENTIALS_MAX {
            return Err(ChangeError::Full);
        }
        check_shape(shape)?;
        check_value(value)?;
        let mut made = None;
        let mut kek_version = self.kek_version(tenant);
        if kek_version == 0 {
            kek_version = 1;
            let (key, row) = keys.new_kek(tenant, kek_version, entropy)?;
            next.keks.insert((tenant.clone(), kek_version), row);
            made = Some(((tenant.clone(), kek_version), key));
        }
        let kek = match &made {
            Some((_, key)) => key,
            None => keys.kek(tenant, kek_version).ok_or(ChangeError::Sealed)?,
        };
        let (data_key, value) = seal_value(kek, (kek_version, 1), new, entropy)?;
        let row = CredentialRow {
            shape: shape.to_owned(),
            version: 1,
            revoked: false,
            changed_at: now,
            kek_version,
            data_key,
            value,
        };
        next.credentials.insert((tenant.clone(), name.clone()), row);
        let mut staged = self.stage(keys, next, counter)?;
        staged.made = made;
        Ok(staged)
    }

    /// Stages a new value of a credential. The old value's row goes. The second value is the new
    /// version.
    ///
    /// # Errors
    /// See [`ChangeError`].
    pub fn rotate(
        &self,
        (tenant, name): (&TenantName, &CredentialName),
        value: &[u8],
        now: u64,
        entropy: &mut dyn Entropy,
    ) -> Result<(Staged, u32), ChangeError> {
        let (keys, mut next, counter) = self.draft()?;
        check_value(value)?;
        if self.is_in_a_path(tenant, name) && !is_segment_safe(value) {
            return Err(ChangeError::SegmentUnsafe(name.clone()));
        }
        let kek_version = self.kek_version(tenant);
        let missing = || ChangeError::NoCredential(name.clone());
        let kek = keys.kek(tenant, kek_version).ok_or_else(missing)?;
        let key = (tenant.clone(), name.clone());
        let row = next.credentials.get_mut(&key);
        let row = row.ok_or_else(missing)?;
        if row.revoked {
            return Err(ChangeError::Revoked(name.clone()));
        }
        let version = row.version.checked_add(1).ok_or(ChangeError::Full)?;
        let shape = row.shape.clone();
        let new = NewCredential {
            tenant,
            name,
            shape: &shape,
            value,
        };
        let (data_key, value) = seal_value(kek, (kek_version, version), new, entropy)?;
        *row = CredentialRow {
            shape: shape.clone(),
            version,
            revoked: false,
            changed_at: now,
            kek_version,
            data_key,
            value,
        };
        Ok((self.stage(keys, next, counter)?, version))
    }

    /// Stages the end of a credential's use. Its value stays, so that it is still found where it
    /// must not go.
    ///
    /// # Errors
    /// See [`ChangeError`].
    pub fn revoke(
        &self,
        tenant: &TenantName,
        name: &CredentialName,
    ) -> Result<Staged, ChangeError> {
        let (keys, mut next, counter) = self.draft()?;
        let row = next.credentials.get_mut(&(tenant.clone(), name.clone()));
        let row = row.ok_or_else(|| ChangeError::NoCredential(name.clone()))?;
        if row.revoked {
            return Err(ChangeError::Revoked(name.clone()));
        }
        row.revoked = true;
        self.stage(keys, next, counter)
    }

    /// Stages the removal of a credential and its bindings.
    ///
    /// # Errors
    /// See [`ChangeError`].
    pub fn remove(
        &self,
        tenant: &TenantName,
        name: &CredentialName,
    ) -> Result<Staged, ChangeError> {
        let (keys, mut next, counter) = self.draft()?;
        let removed = next.credentials.remove(&(tenant.clone(), name.clone()));
        if removed.is_none() {
            return Err(ChangeError::NoCredential(name.clone()));
        }
        next.bindings
            .retain(|(owner, _), binding| owner != tenant || binding.credential != *name);
        self.stage(keys, next, counter)
    }
}

/// Seals a value under a fresh data key, and that under the tenant's.
fn seal_value(
    kek: &Secret,
    (kek_version, version): (u32, u32),
    new: NewCredential<'_>,
    entropy: &mut dyn Entropy,
) -> Result<(Sealed, Sealed), KeyError> {
    let data_key = random_key(entropy)?;
    let place = value_place(new.tenant, new.name, version);
    let value = seal::seal(data_key.expose(), &place, new.value, entropy)?;
    let place = data_key_place(new.tenant, new.name, version, kek_version);
    let data_key = seal::seal(kek.expose(), &place, data_key.expose(), entropy)?;
    Ok((data_key, value))
}

/// A value must fit a header field as it is, and be long and varied enough to be found in answers.
fn check_value(value: &[u8]) -> Result<(), ChangeError> {
    let fits = (VALUE_BYTES_MIN..=VALUE_BYTES_MAX).contains(&value.len());
    let control = value.iter().any(u8::is_ascii_control) && !is_private_key(value);
    let spaced = value.trim_ascii().len() != value.len();
    let different = value.iter().collect::<BTreeSet<_>>().len();
    if fits && !control && !spaced && different >= DIFFERENT_BYTES_MIN {
        Ok(())
    } else {
        Err(ChangeError::Value)
    }
}

/// A private key in PEM has lines. It is signed with, and stands nowhere in a request.
fn is_private_key(value: &[u8]) -> bool {
    let is_other = |byte: &u8| byte.is_ascii_control() && !matches!(byte, b'\n' | b'\r');
    value.starts_with(b"-----BEGIN ")
        && value.ends_with(b"PRIVATE KEY-----")
        && !value.iter().any(is_other)
}

fn check_shape(shape: &str) -> Result<(), ChangeError> {
    let known = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-');
    if shape.len() <= SHAPE_BYTES_MAX && shape.bytes().all(known) {
        Ok(())
    } else {
        Err(ChangeError::Shape)
    }
}
