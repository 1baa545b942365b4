// SPDX-License-Identifier: Apache-2.0
//! The receipt: proof, for the dialer, that the notary decided and recorded. It is authenticated
//! with a key that only the notary and the dialer hold, so a gate can carry it but not make one.

use data_encoding::BASE64URL_NOPAD;
use hmac::{Hmac, KeyInit, Mac};
use serde::{Deserialize, Serialize};
use sha2::Sha256;
use torno_policy::names::{Endpoint, Generation, RecordSeq, SessionId};
use zeroize::ZeroizeOnDrop;

/// LIMIT: a receipt is for the connection that is made right now; two seconds cover a slow
/// resolver's first try and leave no room for hoarding.
pub const VALID_MS: u64 = 2_000;

/// What a receipt says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReceiptClaims {
    /// Whose request it is.
    pub session: SessionId,
    /// The session's generation.
    pub generation: Generation,
    /// The one endpoint that may be dialled.
    pub endpoint: Endpoint,
    /// The decision's record; with it the receipt is used once.
    pub record: RecordSeq,
    /// Boot-time clock in milliseconds at which it was made (the clock that counts in suspend).
    pub issued_ms: u64,
}

/// An opaque receipt, as a gate carries it: `base64url(claims).base64url(tag)`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Receipt(String);

/// Why a receipt does not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReceiptError {
    /// Not a receipt.
    #[error("not a receipt")]
    Form,
    /// Not made by the notary.
    #[error("the receipt's tag does not verify")]
    Tag,
    /// Too old, or from the future.
    #[error("the receipt is not valid at this time")]
    Time,
}

/// The key that notary and dialer share for one life of the daemon.
#[derive(ZeroizeOnDrop)]
#[expect(missing_debug_implementations, reason = "a secret has no Debug")]
pub struct ReceiptKey([u8; 32]);

impl ReceiptKey {
    /// A key from 32 random bytes.
    #[must_use]
    pub const fn new(random: [u8; 32]) -> Self {
        Self(random)
    }

    fn mac(&self, claims: &[u8]) -> Option<Hmac<Sha256>> {
        let mut mac = <Hmac<Sha256> as KeyInit>::new_from_slice(&self.0).ok()?;
        mac.update(b"torno receipt v1\0");
        mac.update(claims);
        Some(mac)
    }

    /// Makes a receipt.
    ///
    /// # Errors
    /// [`ReceiptError::Form`] if the claims can't be written, which no claims do.
    pub fn seal(&self, claims: &ReceiptClaims) -> Result<Receipt, ReceiptError> {
        let body = serde_json::to_vec(claims).map_err(|_| ReceiptError::Form)?;
        let tag = self
            .mac(&body)
            .ok_or(ReceiptError::Form)?
            .finalize()
            .into_bytes();
        Ok(Receipt(format!(
            "{}.{}",
            BASE64URL_NOPAD.encode(&body),
            BASE64URL_NOPAD.encode(&tag)
        )))
    }

    /// Reads a receipt that is valid at `now_ms`. The caller checks the session and that it is used
    /// once.
    ///
    /// # Errors
    /// See [`ReceiptError`].
    pub fn open(&self, receipt: &Receipt, now_ms: u64) -> Result<ReceiptClaims, ReceiptError> {
        let (body, tag) = receipt.0.split_once('.').ok_or(ReceiptError::Form)?;
        let body = BASE64URL_NOPAD
            .decode(body.as_bytes())
            .map_err(|_| ReceiptError::Form)?;
        let tag = BASE64URL_NOPAD
            .decode(tag.as_bytes())
            .map_err(|_| ReceiptError::Form)?;
        let mac = self.mac(&body).ok_or(ReceiptError::Form)?;
        mac.verify_slice(&tag).map_err(|_| ReceiptError::Tag)?;
        let claims: ReceiptClaims =
            serde_json::from_slice(&body).map_err(|_| ReceiptError::Form)?;
        let age = now_ms
            .checked_sub(claims.issued_ms)
            .ok_or(ReceiptError::Time)?;
        if age > VALID_MS {
            Err(ReceiptError::Time)
        } else {
            Ok(claims)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use torno_policy::names::{Host, Port, Scheme};

    fn claims() -> ReceiptClaims {
        ReceiptClaims {
            session: SessionId::parse("s1").unwrap(),
            generation: Generation(1),
            endpoint: Endpoint {
                scheme: Scheme::Https,
                host: Host::parse("allow.test").unwrap(),
                port: Port::HTTPS,
            },
            record: RecordSeq(7),
            issued_ms: 1_000,
        }
    }

    #[test]
    fn a_receipt_is_read_by_its_key_within_its_time_only() {
        let key = ReceiptKey::new([1; 32]);
        let receipt = key.seal(&claims()).unwrap();
        assert_eq!(key.open(&receipt, 1_000 + VALID_MS), Ok(claims()));
        assert_eq!(
            key.open(&receipt, 1_001 + VALID_MS),
            Err(ReceiptError::Time)
        );
        assert_eq!(key.open(&receipt, 999), Err(ReceiptError::Time));
        assert_eq!(
            ReceiptKey::new([2; 32]).open(&receipt, 1_000),
            Err(ReceiptError::Tag)
        );
    }

    #[test]
    fn no_changed_byte_passes() {
        let key = ReceiptKey::new([1; 32]);
        let Receipt(text) = key.seal(&claims()).unwrap();
        for at in 0..text.len() {
            let mut bytes = text.clone().into_bytes();
            bytes[at] = if bytes[at] == b'A' { b'B' } else { b'A' };
            let changed = Receipt(String::from_utf8(bytes).unwrap());
            assert!(key.open(&changed, 1_000).is_err(), "byte {at}");
        }
    }
}
