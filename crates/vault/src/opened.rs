// SPDX-License-Identifier: Apache-2.0
//! Data keys of credentials that are in use: opened once, then kept in locked memory beside the
//! tenant key that opens them, so that they tell nothing that was not in memory before. They live
//! in [`crate::keys::Keys`]: sealing drops them, and so does any change of the rows.

use crate::rows::Sealed;
use crate::secret::Secret;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use torno_policy::names::{CredentialName, TenantName};

/// LIMIT: a page of locked memory each, 256 KiB of the 8 MiB; beyond it all are forgotten and
/// opened anew as they are asked for.
const OPENED_MAX: usize = 64;

/// Opened data keys.
#[derive(Default)]
pub(crate) struct OpenedKeys(Mutex<BTreeMap<TenantName, BTreeMap<CredentialName, Opened>>>);

struct Opened {
    /// The ciphertext that it was opened from: it counts for no other.
    sealed: Sealed,
    key: Arc<Secret>,
}

impl OpenedKeys {
    /// The data key of a credential's row, opened by `open` when it was not before.
    pub(crate) fn of_row<E>(
        &self,
        (tenant, name): (&TenantName, &CredentialName),
        sealed: &Sealed,
        open: impl FnOnce() -> Result<Secret, E>,
    ) -> Result<Arc<Secret>, E> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = all.get(tenant).and_then(|own| own.get(name));
        if let Some(known) = known.filter(|known| known.sealed == *sealed) {
            return Ok(Arc::clone(&known.key));
        }
        let key = Arc::new(open()?);
        if all.values().map(BTreeMap::len).sum::<usize>() >= OPENED_MAX {
            all.clear();
        }
        let opened = Opened {
            sealed: sealed.clone(),
            key: Arc::clone(&key),
        };
        let own = all.entry(tenant.clone()).or_default();
        own.insert(name.clone(), opened);
        Ok(key)
    }

    /// How many there are.
    #[cfg(test)]
    pub(crate) fn count(&self) -> usize {
        self.0.lock().unwrap().values().map(BTreeMap::len).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open() -> Result<Secret, ()> {
        Ok(Secret::new(b"0123456789abcdef0123456789abcdef").unwrap())
    }

    #[test]
    fn a_key_counts_for_the_ciphertext_it_was_opened_from_and_few_are_kept() {
        let keys = OpenedKeys::default();
        let tenant = TenantName::parse("t1").unwrap();
        let name = |n: usize| CredentialName::parse(&format!("c{n}")).unwrap();
        let (old, new) = (Sealed(vec![1; 72]), Sealed(vec![2; 72]));
        let first = keys.of_row((&tenant, &name(0)), &old, open).unwrap();
        let never = || -> Result<Secret, ()> { panic!("it was opened before") };
        let again = keys.of_row((&tenant, &name(0)), &old, never).unwrap();
        assert!(Arc::ptr_eq(&first, &again));
        let other = keys.of_row((&tenant, &name(0)), &new, open).unwrap();
        assert!(!Arc::ptr_eq(&first, &other));
        assert!(keys.of_row((&tenant, &name(0)), &old, || Err(())).is_err());
        for n in 0..3 * OPENED_MAX {
            keys.of_row((&tenant, &name(n)), &old, open).unwrap();
            assert!(keys.count() <= OPENED_MAX);
        }
    }
}
