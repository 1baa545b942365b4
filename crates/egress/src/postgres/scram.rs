// SPDX-License-Identifier: Apache-2.0
//! SCRAM-SHA-256 (RFC 5802, RFC 7677): what both ends compute from a password, and the strict form
//! of their messages.

use super::frame::malformed;
use crate::refuse::Fault;
use data_encoding::BASE64;
use hmac::{Hmac, KeyInit, Mac};
use rustls::crypto::SecureRandom;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use torno_policy::Reason;
use zeroize::Zeroizing;

/// The mechanism's names.
pub(super) const PLAIN: &str = "SCRAM-SHA-256";
pub(super) const PLUS: &str = "SCRAM-SHA-256-PLUS";
/// LIMIT: a message is a nonce, a salt and a proof; PostgreSQL's own have fewer than 200 bytes.
const MESSAGE_BYTES_MAX: usize = 1024;
/// LIMIT: 144 random bits, as in PostgreSQL: never one twice.
const NONCE_BYTES: usize = 18;

/// A password after its salt and iterations. Both ends prove that they know it without saying it.
pub(crate) struct Salted(Zeroizing<[u8; 32]>);

impl Salted {
    /// `Hi` of RFC 5802 §2.2: PBKDF2 with one block.
    pub(crate) fn new(password: &[u8], salt: &[u8], iterations: u32) -> Self {
        let mut last = hmac(password, &[salt, &1_u32.to_be_bytes()]);
        let mut sum = last.clone();
        for _ in 1..iterations {
            last = hmac(password, &[last.as_ref()]);
            for (sum, byte) in sum.iter_mut().zip(last.iter()) {
                *sum ^= byte;
            }
        }
        Self(sum)
    }

    /// What a client proves itself with.
    pub(crate) fn proof(&self, auth_message: &[u8]) -> [u8; 32] {
        let client_key = self.client_key();
        let stored = Sha256::digest(client_key.as_ref());
        let signature = hmac(&stored, &[auth_message]);
        let mut proof = [0; 32];
        let both = client_key.iter().zip(signature.iter());
        for (place, (key, signed)) in proof.iter_mut().zip(both) {
            *place = key ^ signed;
        }
        proof
    }

    /// What a server proves itself with.
    pub(crate) fn server_signature(&self, auth_message: &[u8]) -> [u8; 32] {
        let key = hmac(self.0.as_ref(), &[b"Server Key"]);
        *hmac(key.as_ref(), &[auth_message])
    }

    /// Whether a client's proof is right, in a time that does not depend on where it is wrong.
    pub(super) fn accepts(&self, auth_message: &[u8], proof: &[u8]) -> bool {
        self.proof(auth_message).ct_eq(proof).into()
    }

    /// The same for a server's signature.
    pub(super) fn is_signed(&self, auth_message: &[u8], signature: &[u8]) -> bool {
        self.server_signature(auth_message).ct_eq(signature).into()
    }

    fn client_key(&self) -> Zeroizing<[u8; 32]> {
        hmac(self.0.as_ref(), &[b"Client Key"])
    }
}

fn hmac(key: &[u8], parts: &[&[u8]]) -> Zeroizing<[u8; 32]> {
    // INVARIANT: HMAC takes keys of any length, so the empty key is never used for another.
    let mac = <Hmac<Sha256> as KeyInit>::new_from_slice(key);
    let mut mac = mac.unwrap_or_else(|_| Hmac::<Sha256>::new(&Default::default()));
    parts.iter().for_each(|part| mac.update(part));
    Zeroizing::new(mac.finalize().into_bytes().into())
}

/// A nonce in base64, from the provider's random source.
pub(super) fn nonce(random: &dyn SecureRandom) -> Result<String, Fault> {
    let mut bytes = [0; NONCE_BYTES];
    let filled = random.fill(&mut bytes);
    filled.map_err(|_| Fault::new(Reason::RoleUnavailable, "no random source: try again"))?;
    Ok(BASE64.encode(&bytes))
}

/// A message's attributes, in exactly this order and nothing behind them.
pub(super) fn attributes<'a, const N: usize>(
    message: &'a [u8],
    names: [&str; N],
) -> Result<[&'a str; N], Fault> {
    let text = std::str::from_utf8(message).map_err(|_| malformed())?;
    if message.len() > MESSAGE_BYTES_MAX {
        return Err(malformed());
    }
    let mut parts = text.split(',');
    let mut values = [""; N];
    for (place, name) in values.iter_mut().zip(names) {
        let part = parts.next().and_then(|part| part.strip_prefix(name));
        *place = part
            .and_then(|part| part.strip_prefix('='))
            .ok_or_else(malformed)?;
    }
    match parts.next() {
        None => Ok(values),
        Some(_) => Err(malformed()),
    }
}

/// Bytes from base64, in its one spelling.
pub(super) fn decoded(text: &str) -> Result<Vec<u8>, Fault> {
    BASE64.decode(text.as_bytes()).map_err(|_| malformed())
}

/// Whether a nonce is visible ASCII without a comma, of a length that is not weak.
pub(super) fn is_nonce(nonce: &str) -> bool {
    (16..=256).contains(&nonce.len()) && nonce.bytes().all(|b| (b'!'..0x7f).contains(&b))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 7677 §3.
    #[test]
    fn the_example_of_the_rfc_comes_out() {
        let salt = decoded("W22ZaJ0SNY7soEsUEjb6gQ==").unwrap();
        let salted = Salted::new(b"pencil", &salt, 4096);
        let message =
            b"n=user,r=rOprNGfwEbeRWgbNEkqO,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hN\
            lF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096,c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAf\
            uxFIlj)hNlF$k0";
        let proof = salted.proof(message);
        let expected = "dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";
        assert_eq!(BASE64.encode(&proof), expected);
        assert!(salted.accepts(message, &proof));
        let signature = decoded("6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=").unwrap();
        assert!(salted.is_signed(message, &signature));
        for at in 0..32 {
            let mut wrong = proof;
            wrong[at] ^= 1;
            assert!(!salted.accepts(message, &wrong));
        }
        assert!(!salted.accepts(message, &proof[..31]) && !salted.accepts(message, b""));
    }

    #[test]
    fn attributes_stand_in_their_order_and_nothing_behind_them() {
        assert_eq!(
            attributes(b"r=a,s=b=,i=1", ["r", "s", "i"]).unwrap(),
            ["a", "b=", "1"]
        );
        for wrong in [
            &b"s=b,r=a,i=1"[..],
            b"r=a,s=b",
            b"r=a,s=b,i=1,x=1",
            b"m=x,r=a,s=b,i=1",
        ] {
            assert!(attributes(wrong, ["r", "s", "i"]).is_err());
        }
    }
}
