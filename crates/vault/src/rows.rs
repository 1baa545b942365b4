// SPDX-License-Identifier: Apache-2.0
//! What the store keeps, as plain data: nothing in it is plaintext of a credential. The vault works
//! on the whole set in memory; what a change did is the difference of two sets.

use crate::keys::UnsealRow;
use std::collections::BTreeMap;
use torno_policy::binding::Binding;
use torno_policy::names::{BindingId, CredentialName, TenantName};

/// A nonce, a ciphertext and its tag.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Sealed(pub Vec<u8>);

/// Every row.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Rows {
    /// There is one once a vault was made.
    pub meta: Option<MetaRow>,
    /// The tenants' key rings.
    pub keks: BTreeMap<(TenantName, u32), KekRow>,
    /// Credentials.
    pub credentials: BTreeMap<(TenantName, CredentialName), CredentialRow>,
    /// Bindings.
    pub bindings: BTreeMap<(TenantName, BindingId), Binding>,
}

/// The vault's own row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetaRow {
    /// How it is unsealed.
    pub unseal: UnsealRow,
    /// The root key, under the unseal key.
    pub root: Sealed,
    /// Raised by one with every change.
    pub counter: u64,
    /// Keyed MAC over the counter and every other row.
    pub mac: [u8; 32],
}

/// One version of a tenant's key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KekRow {
    /// Under the root key.
    pub key: Sealed,
}

/// A credential in its one version: an older value is gone once a newer one is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CredentialRow {
    /// The placeholder's shape.
    pub shape: String,
    /// From 1, raised by each new value.
    pub version: u32,
    /// It may not be used.
    pub revoked: bool,
    /// Unix seconds of this version.
    pub changed_at: u64,
    /// The tenant key that wraps its data key.
    pub kek_version: u32,
    /// The data key, under the tenant's key.
    pub data_key: Sealed,
    /// The value, under the data key.
    pub value: Sealed,
}

/// One row that changed. A set of them is written whole or not at all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// The vault's own row is now this, or none.
    Meta(Option<MetaRow>),
    /// A tenant's key is now this, or none.
    Kek((TenantName, u32), Option<KekRow>),
    /// A credential is now this, or none.
    Credential((TenantName, CredentialName), Option<CredentialRow>),
    /// A binding is now this, or none.
    Binding((TenantName, BindingId), Option<Box<Binding>>),
}

/// What leads from one set of rows to another. The other way round it undoes that.
#[must_use]
pub fn changes(from: &Rows, to: &Rows) -> Vec<Change> {
    let mut changes = Vec::new();
    if from.meta != to.meta {
        changes.push(Change::Meta(to.meta.clone()));
    }
    difference(&from.keks, &to.keks, Change::Kek, &mut changes);
    difference(
        &from.credentials,
        &to.credentials,
        Change::Credential,
        &mut changes,
    );
    let binding = |key, row: Option<Binding>| Change::Binding(key, row.map(Box::new));
    difference(&from.bindings, &to.bindings, binding, &mut changes);
    changes
}

fn difference<K: Ord + Clone, V: PartialEq + Clone>(
    from: &BTreeMap<K, V>,
    to: &BTreeMap<K, V>,
    change: fn(K, Option<V>) -> Change,
    changes: &mut Vec<Change>,
) {
    for key in from.keys().filter(|key| !to.contains_key(*key)) {
        changes.push(change(key.clone(), None));
    }
    for (key, row) in to {
        if from.get(key) != Some(row) {
            changes.push(change(key.clone(), Some(row.clone())));
        }
    }
}
