// SPDX-License-Identifier: Apache-2.0
//! Where a credential may go is said here and nowhere else (I14).

use super::{ChangeError, Staged, Vault};
use crate::overlap::overlap;
use torno_policy::binding::Binding;
use torno_policy::names::{BindingId, TenantName};

/// LIMIT: decisions walk a tenant's bindings; see the limit of credentials too.
const BINDINGS_MAX: usize = 4096;

impl Vault {
    /// Stages a binding; one of the same name is replaced. Its revision is the change's counter, so
    /// none is ever used twice.
    ///
    /// Refused is a binding that shares requests with another of the same credential, or of another
    /// credential in the same header field: a session that holds both could not be decided.
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
        let rival = self.bindings(&tenant).find(|other| {
            let contested = other.credential == binding.credential
                || other.slot.header_name() == binding.slot.header_name();
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
