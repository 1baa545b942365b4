// SPDX-License-Identifier: Apache-2.0
//! The hierarchy: unseal secret → unseal key → root key → (wrapping key, MAC key) and the tenants'
//! key rings. A new unseal secret would wrap the root key anew and nothing else.
//!
//! ```text
//! passphrase ─Argon2id─┐
//! key file ────HKDF────┴▶ unseal key ─opens─▶ root key ─HKDF─┬▶ wrapping key ─opens─▶ tenant keys
//!                                                           └▶ MAC key (integrity.rs)
//! tenant key (newest version) ─opens─▶ data key of one credential version ─opens─▶ its value
//! ```

use crate::entropy::{Entropy, EntropyError};
use crate::opened::OpenedKeys;
use crate::rows::{KekRow, Rows, Sealed};
use crate::seal::{self, Field, KEY_BYTES, OpenError, Place, SealError};
use crate::secret::{Secret, SecretError};
use argon2::{Algorithm, Argon2, Params, Version};
use hkdf::Hkdf;
use sha2::Sha256;
use std::collections::BTreeMap;
use thiserror::Error;
use torno_policy::names::TenantName;
use zeroize::Zeroizing;

/// How a vault is unsealed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnsealKind {
    /// A passphrase, through Argon2id.
    Passphrase,
    /// A key file, through HKDF.
    KeyFile,
}

/// What is stored about the way to the unseal key. Not secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UnsealRow {
    /// Argon2id with these costs.
    Passphrase {
        /// Random.
        salt: [u8; 16],
        /// The costs that were used, so that they can be raised later.
        cost: PassphraseCost,
    },
    /// HKDF-SHA-256.
    KeyFile {
        /// Random.
        salt: [u8; 16],
    },
}

impl UnsealRow {
    /// Which secret is asked for.
    #[must_use]
    pub const fn kind(&self) -> UnsealKind {
        match self {
            Self::Passphrase { .. } => UnsealKind::Passphrase,
            Self::KeyFile { .. } => UnsealKind::KeyFile,
        }
    }
}

/// Costs of Argon2id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PassphraseCost {
    /// Memory in KiB.
    pub memory_kib: u32,
    /// Passes over it.
    pub passes: u32,
    /// Lanes.
    pub lanes: u32,
}

impl PassphraseCost {
    /// 256 MiB, 3 passes, 4 lanes: the second recommendation of RFC 9106 §4, with more memory.
    pub const DEFAULT: Self = Self {
        memory_kib: 256 * 1024,
        passes: 3,
        lanes: 4,
    };
    /// LIMIT: 64 MiB, RFC 9106's choice for small machines. A row that asks for less was not
    /// written by this product.
    pub const FLOOR: Self = Self {
        memory_kib: 64 * 1024,
        passes: 1,
        lanes: 1,
    };
    /// LIMIT: 4 GiB, 64 passes, 64 lanes. A row that asks for more would stop the notary.
    pub const CEILING: Self = Self {
        memory_kib: 4 * 1024 * 1024,
        passes: 64,
        lanes: 64,
    };

    fn is_sane(&self) -> bool {
        (Self::FLOOR.memory_kib..=Self::CEILING.memory_kib).contains(&self.memory_kib)
            && (Self::FLOOR.passes..=Self::CEILING.passes).contains(&self.passes)
            && (Self::FLOOR.lanes..=Self::CEILING.lanes).contains(&self.lanes)
    }
}

/// LIMIT: twelve bytes is the least that Argon2id makes costly to guess.
pub(crate) const PASSPHRASE_BYTES_MIN: usize = 12;
/// LIMIT: 256 bits; HKDF adds no strength of its own.
pub(crate) const KEY_FILE_BYTES_MIN: usize = 32;

/// Why a vault stays sealed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum UnsealError {
    /// There is no vault.
    #[error("there is no vault yet; make one with `torno vault init`")]
    NotInitialised,
    /// It is unsealed.
    #[error("the vault is unsealed already")]
    AlreadyUnsealed,
    /// A wrong secret or a changed root key: deliberately one answer.
    #[error("this secret does not open the vault; check it, and restore the store if it is right")]
    Secret,
    /// The stored costs are outside what this product writes.
    #[error("the stored costs of the passphrase are out of range; restore the store")]
    Cost,
    /// The rows are not the ones that were written last.
    #[error("the vault's rows were changed or rolled back; restore the newest backup")]
    Integrity,
    /// No memory.
    #[error("there is not enough memory to derive the key; free some and try again")]
    Memory,
    /// Locked memory.
    #[error(transparent)]
    Locked(#[from] SecretError),
}

/// The keys of an unsealed vault.
pub(crate) struct Keys {
    root: Secret,
    wrapping: Secret,
    pub(crate) mac: Secret,
    ring: BTreeMap<(TenantName, u32), Secret>,
    pub(crate) opened: OpenedKeys,
}

impl Keys {
    /// A fresh root key.
    pub(crate) fn generate(entropy: &mut dyn Entropy) -> Result<Self, KeyError> {
        Self::of_root(random_key(entropy)?)
    }

    fn of_root(root: Secret) -> Result<Self, KeyError> {
        let wrapping = derive(root.expose(), b"", b"torno vault v1 wrapping")?;
        let mac = derive(root.expose(), b"", b"torno vault v1 mac")?;
        Ok(Self {
            root,
            wrapping,
            mac,
            ring: BTreeMap::new(),
            opened: OpenedKeys::default(),
        })
    }

    /// Seals the root key under an unseal secret.
    pub(crate) fn wrap_root(
        &self,
        row: &UnsealRow,
        secret: &[u8],
        entropy: &mut dyn Entropy,
    ) -> Result<Sealed, KeyError> {
        let key = unseal_key(row, secret)?;
        Ok(seal::seal(
            key.expose(),
            &ROOT,
            self.root.expose(),
            entropy,
        )?)
    }

    /// The way back, with every tenant's ring.
    pub(crate) fn unwrap(
        row: &UnsealRow,
        root: &Sealed,
        secret: &[u8],
        rows: &Rows,
    ) -> Result<Self, UnsealError> {
        let key = unseal_key(row, secret).map_err(UnsealError::of)?;
        let root = seal::open(key.expose(), &ROOT, root)
            .map_err(|error| UnsealError::of(KeyError::Open(error)))?;
        let mut keys = Self::of_root(root).map_err(UnsealError::of)?;
        for ((tenant, version), row) in &rows.keks {
            let key = seal::open(
                keys.wrapping.expose(),
                &kek_place(tenant, *version),
                &row.key,
            )
            .map_err(|_| UnsealError::Integrity)?;
            keys.ring.insert((tenant.clone(), *version), key);
        }
        Ok(keys)
    }

    /// A new tenant key: the key itself, to be added when its row counts, and the row.
    pub(crate) fn new_kek(
        &self,
        tenant: &TenantName,
        version: u32,
        entropy: &mut dyn Entropy,
    ) -> Result<(Secret, KekRow), KeyError> {
        let key = random_key(entropy)?;
        let place = kek_place(tenant, version);
        let sealed = seal::seal(self.wrapping.expose(), &place, key.expose(), entropy)?;
        Ok((key, KekRow { key: sealed }))
    }

    pub(crate) fn kek(&self, tenant: &TenantName, version: u32) -> Option<&Secret> {
        self.ring.get(&(tenant.clone(), version))
    }

    /// Follows the rows: adds a key that was made, drops those that have no row any more, and every
    /// data key that was opened under the rows before.
    pub(crate) fn follow(&mut self, rows: &Rows, made: Option<((TenantName, u32), Secret)>) {
        self.opened = OpenedKeys::default();
        self.ring.extend(made);
        self.ring
            .retain(|version, _| rows.keks.contains_key(version));
    }
}

/// Why a key can't be had.
#[derive(Debug, Error)]
pub(crate) enum KeyError {
    #[error(transparent)]
    Entropy(#[from] EntropyError),
    #[error(transparent)]
    Locked(#[from] SecretError),
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error("the stored costs of the passphrase are out of range")]
    Cost,
    #[error("there is not enough memory to derive the key")]
    Memory,
    #[error("the cipher refuses this length")]
    Cipher,
}

impl From<SealError> for KeyError {
    fn from(error: SealError) -> Self {
        match error {
            SealError::Entropy(error) => Self::Entropy(error),
            SealError::Cipher => Self::Cipher,
        }
    }
}

impl UnsealError {
    fn of(error: KeyError) -> Self {
        match error {
            KeyError::Locked(error) | KeyError::Open(OpenError::Memory(error)) => {
                Self::Locked(error)
            }
            KeyError::Memory => Self::Memory,
            KeyError::Cost => Self::Cost,
            KeyError::Open(OpenError::Refused) | KeyError::Entropy(_) | KeyError::Cipher => {
                Self::Secret
            }
        }
    }
}

const ROOT: Place<'static> = Place {
    tenant: "",
    name: "root",
    version: 1,
    field: Field::Root,
    kek_version: 0,
};

fn kek_place(tenant: &TenantName, version: u32) -> Place<'_> {
    Place {
        tenant: tenant.as_str(),
        name: "",
        version,
        field: Field::Kek,
        kek_version: version,
    }
}

/// A random key in locked memory.
pub(crate) fn random_key(entropy: &mut dyn Entropy) -> Result<Secret, KeyError> {
    let mut bytes = Zeroizing::new([0; KEY_BYTES]);
    entropy.fill(&mut *bytes)?;
    Ok(Secret::new(&*bytes)?)
}

fn unseal_key(row: &UnsealRow, secret: &[u8]) -> Result<Secret, KeyError> {
    match row {
        UnsealRow::KeyFile { salt } => derive(secret, salt, b"torno vault v1 key file"),
        UnsealRow::Passphrase { salt, cost } => {
            if !cost.is_sane() {
                return Err(KeyError::Cost);
            }
            let params = Params::new(cost.memory_kib, cost.passes, cost.lanes, Some(KEY_BYTES))
                .map_err(|_| KeyError::Cost)?;
            let mut key = Zeroizing::new([0; KEY_BYTES]);
            Argon2::new(Algorithm::Argon2id, Version::V0x13, params)
                .hash_password_into(secret, salt, &mut *key)
                .map_err(|_| KeyError::Memory)?;
            Ok(Secret::new(&*key)?)
        }
    }
}

fn derive(material: &[u8], salt: &[u8], purpose: &[u8]) -> Result<Secret, KeyError> {
    let mut key = Zeroizing::new([0; KEY_BYTES]);
    Hkdf::<Sha256>::new(Some(salt), material)
        .expand(purpose, &mut *key)
        .map_err(|_| KeyError::Cipher)?;
    Ok(Secret::new(&*key)?)
}
