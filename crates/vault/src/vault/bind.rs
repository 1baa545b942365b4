// SPDX-License-Identifier: Apache-2.0
//! Where a credential may go is said here and nowhere else (I14).

use super::{ChangeError, Staged, Vault};
use crate::overlap::overlap;
use torno_policy::binding::{Binding, Slot, is_segment_safe};
use torno_policy::names::{BindingId, CredentialName, TenantName};

/// LIMIT: decisions walk a tenant's bindings; see the limit of credentials too.
const BINDINGS_MAX: usize = 4096;

impl Vault {
    /// Stages a binding; one of the same name is replaced. Its revision is the change's counter, so
    /// none is ever used twice.
    ///
    /// Refused is a binding that shares requests with another of the same credential, or of another
    /// credential in the same slot: a session that holds both could not be decided.
    ///
    /// # Errors
    /// See [`ChangeError`].
    pub fn bind(&self, binding: Binding, now: u64) -> Result<Staged, ChangeError> {
        let (keys, mut next, counter) = self.draft()?;
        binding.check()?;
        if binding.expires_at.is_some_and(|end| end <= now) {
            return Err(ChangeError::Expired);
        }
        let tenant = binding.tenant.clone();
        match self.credential(&tenant, &binding.credential) {
            None => return Err(ChangeError::NoCredential(binding.credential)),
            Some(row) if row.revoked => return Err(ChangeError::Revoked(binding.credential)),
            Some(_) => {}
        }
        if let Slot::Path { .. } = &binding.slot {
            self.check_segment_safe((&tenant, &binding.credential))?;
        }
        let rival = self.bindings(&tenant).find(|other| {
            let contested =
                other.credential == binding.credential || other.slot.contests(&binding.slot);
            other.id != binding.id && contested && overlap(other, &binding)
        });
        if let Some(rival) = rival {
            return Err(ChangeError::Overlap(rival.id.clone()));
        }
        let key = (tenant, binding.id.clone());
        if next.bindings.len() >= BINDINGS_MAX && !next.bindings.contains_key(&key) {
            return Err(ChangeError::Full);
        }
        let row = Binding {
            revision: counter,
            ..binding
        };
        next.bindings.insert(key, row);
        self.stage(keys, next, counter)
    }

    /// A value that goes into a path is read there as it is, or not bound.
    fn check_segment_safe(
        &self,
        (tenant, name): (&TenantName, &CredentialName),
    ) -> Result<(), ChangeError> {
        let missing = || ChangeError::NoCredential(name.clone());
        let row = self.credential(tenant, name).ok_or_else(missing)?;
        let value = self.open_value(tenant, name, row);
        let value = value.map_err(ChangeError::Rows)?;
        if is_segment_safe(value.expose()) {
            Ok(())
        } else {
            Err(ChangeError::SegmentUnsafe(name.clone()))
        }
    }

    /// Whether a binding puts the credential into a path.
    pub(super) fn is_in_a_path(&self, tenant: &TenantName, name: &CredentialName) -> bool {
        self.bindings(tenant)
            .any(|row| row.credential == *name && matches!(row.slot, Slot::Path { .. }))
    }

    /// Stages the removal of a binding.
    ///
    /// # Errors
    /// See [`ChangeError`].
    pub fn unbind(&self, tenant: &TenantName, id: &BindingId) -> Result<Staged, ChangeError> {
        let (keys, mut next, counter) = self.draft()?;
        if next
            .bindings
            .remove(&(tenant.clone(), id.clone()))
            .is_none()
        {
            return Err(ChangeError::NoBinding(id.clone()));
        }
        self.stage(keys, next, counter)
    }
}
