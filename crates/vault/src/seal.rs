// SPDX-License-Identifier: Apache-2.0
//! XChaCha20-Poly1305 with a random 192-bit nonce. The additional data name the row, the version,
//! the field and the key it lies under, so that no ciphertext opens in another place.

use crate::entropy::{Entropy, EntropyError};
use crate::rows::Sealed;
use crate::secret::{Secret, SecretError};
use chacha20poly1305::aead::AeadInOut;
use chacha20poly1305::{KeyInit, Tag, XChaCha20Poly1305, XNonce};
use thiserror::Error;
use zeroize::Zeroizing;

/// Raised when the meaning of a sealed byte changes.
pub(crate) const FORMAT: u8 = 1;
pub(crate) const KEY_BYTES: usize = 32;
const NONCE_BYTES: usize = 24;
const TAG_BYTES: usize = 16;

/// What a ciphertext is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Field {
    /// The root key, under the unseal key.
    Root,
    /// A tenant's key, under the root's wrapping key.
    Kek,
    /// A data key, under a tenant's key.
    DataKey,
    /// A value, under its data key; no tenant key is involved, so its number is 0.
    Value,
}

/// Where a ciphertext belongs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place<'a> {
    pub(crate) tenant: &'a str,
    pub(crate) name: &'a str,
    pub(crate) version: u32,
    pub(crate) field: Field,
    pub(crate) kek_version: u32,
}

impl Place<'_> {
    fn additional_data(&self) -> Vec<u8> {
        let field = match self.field {
            Field::Root => 1,
            Field::Kek => 2,
            Field::DataKey => 3,
            Field::Value => 4_u8,
        };
        let mut data = b"torno vault".to_vec();
        data.extend([FORMAT, field]);
        data.extend(self.version.to_le_bytes());
        data.extend(self.kek_version.to_le_bytes());
        // Both names are canonical: no NUL in them, so the separator is one.
        data.extend(self.tenant.as_bytes());
        data.push(0);
        data.extend(self.name.as_bytes());
        data
    }
}

/// Why something can't be sealed.
#[derive(Debug, Error)]
pub(crate) enum SealError {
    #[error(transparent)]
    Entropy(#[from] EntropyError),
    #[error("the cipher refuses this length")]
    Cipher,
}

/// Why something can't be opened.
#[derive(Debug, Error)]
pub(crate) enum OpenError {
    /// Another key, another place, or a changed byte: one answer for all.
    #[error("the ciphertext does not belong here or was changed")]
    Refused,
    #[error(transparent)]
    Memory(#[from] SecretError),
}

pub(crate) fn seal(
    key: &[u8],
    place: &Place<'_>,
    plaintext: &[u8],
    entropy: &mut dyn Entropy,
) -> Result<Sealed, SealError> {
    let cipher = XChaCha20Poly1305::new_from_slice(key).map_err(|_| SealError::Cipher)?;
    let mut nonce = [0; NONCE_BYTES];
    entropy.fill(&mut nonce)?;
    // INVARIANT: the capacity is exact, so no reallocation leaves plaintext behind; the plaintext
    // in it is overwritten by its own ciphertext.
    let length = NONCE_BYTES + plaintext.len() + TAG_BYTES;
    let mut sealed = Zeroizing::new(Vec::with_capacity(length));
    sealed.extend_from_slice(&nonce);
    sealed.extend_from_slice(plaintext);
    let body = sealed.get_mut(NONCE_BYTES..).ok_or(SealError::Cipher)?;
    let tag = cipher
        .encrypt_inout_detached(&XNonce::from(nonce), &place.additional_data(), body.into())
        .map_err(|_| SealError::Cipher)?;
    sealed.extend_from_slice(&tag);
    Ok(Sealed(std::mem::take(&mut *sealed)))
}

/// Opens in locked memory.
pub(crate) fn open(key: &[u8], place: &Place<'_>, sealed: &Sealed) -> Result<Secret, OpenError> {
    let (nonce, body) = sealed
        .0
        .split_first_chunk::<NONCE_BYTES>()
        .ok_or(OpenError::Refused)?;
    let (body, tag) = body
        .split_last_chunk::<TAG_BYTES>()
        .ok_or(OpenError::Refused)?;
    let cipher = XChaCha20Poly1305::new_from_slice(key).map_err(|_| OpenError::Refused)?;
    let mut secret = Secret::new(body)?;
    let within = secret.bytes_mut();
    cipher
        .decrypt_inout_detached(
            &XNonce::from(*nonce),
            &place.additional_data(),
            within.into(),
            &Tag::from(*tag),
        )
        .map_err(|_| OpenError::Refused)?;
    Ok(secret)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SystemEntropy;

    const HERE: Place<'static> = Place {
        tenant: "t1",
        name: "token",
        version: 1,
        field: Field::Value,
        kek_version: 1,
    };

    #[test]
    fn a_ciphertext_opens_in_its_own_place_only_whatever_the_key() {
        let key = [3; KEY_BYTES];
        let sealed = seal(&key, &HERE, b"canary", &mut SystemEntropy).unwrap();
        assert_eq!(open(&key, &HERE, &sealed).unwrap().expose(), b"canary");
        let elsewhere = [
            Place {
                tenant: "t2",
                ..HERE
            },
            Place {
                name: "other",
                ..HERE
            },
            Place { version: 2, ..HERE },
            Place {
                field: Field::DataKey,
                ..HERE
            },
            Place {
                kek_version: 2,
                ..HERE
            },
            // The border between the names is part of what is authenticated.
            Place {
                tenant: "t1t",
                name: "oken",
                ..HERE
            },
        ];
        for place in elsewhere {
            assert!(open(&key, &place, &sealed).is_err(), "{place:?}");
        }
        assert!(open(&[4; KEY_BYTES], &HERE, &sealed).is_err());
    }

    #[test]
    fn no_nonce_comes_twice() {
        let seal = || seal(&[3; KEY_BYTES], &HERE, b"canary", &mut SystemEntropy).unwrap();
        assert_ne!(seal(), seal());
    }
}
