// SPDX-License-Identifier: Apache-2.0
//! Claims that the gate signs (JWT, RFC 7519, in the compact form of RFC 7515), as a bearer token.
//! All of them are the binding's. A token is used again while it is young, so that few are there to
//! be searched for, and its key lives for one call.

mod key;

use super::{push_field, unusable};
use crate::scrub::{Released, Term};
use aws_lc_rs::hmac;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::RSA_PKCS1_SHA256;
use data_encoding::BASE64URL_NOPAD;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use std::time::Duration;
use torno_notary_protocol::gate::Injection;
use torno_policy::Refusal;
use torno_policy::binding::{Algorithm, Jwt};
use torno_policy::names::Endpoint;
use zeroize::Zeroizing;

/// What is claimed, and when: the time is the gate's own.
#[derive(Debug, Clone, Copy)]
pub(super) struct Claiming<'a> {
    jwt: &'a Jwt,
    now: u64,
}

/// A far end's clock may be so much behind: a token of its future would be refused.
const BEHIND_SECONDS: u64 = 30;
/// A far end's clock may be so much behind the end of a token, too.
const DEAD_AFTER_SECONDS: u64 = 60;
/// LIMIT: a shorter secret is weaker than its tag (RFC 7518 §3.2).
const SECRET_BYTES_MIN: usize = 32;

impl<'a> Claiming<'a> {
    /// `now` counts from the Unix epoch.
    pub(super) fn new(jwt: &'a Jwt, now: Duration) -> Self {
        let now = now.as_secs();
        Self { jwt, now }
    }

    /// The line that goes out. The signature in it is searched for until it is worth nothing: what
    /// stands before it is no secret, and begins like every other token.
    pub(super) fn fields(
        &self,
        value: &[u8],
        (injection, endpoint, released): (&Injection, &Endpoint, &Released),
    ) -> Result<Zeroizing<Vec<u8>>, Refusal> {
        let id = self.id(value, endpoint);
        let token = match released.signed(&id, self.now) {
            Some(token) => token,
            None => {
                let token = self.token(value)?;
                let issued = self.now.saturating_sub(BEHIND_SECONDS);
                let lifetime = u64::from(self.jwt.lifetime_seconds);
                let term = Term {
                    from: self.now,
                    young_until: issued + lifetime / 2,
                    dead_after: issued + lifetime + DEAD_AFTER_SECONDS,
                };
                released.keep_signed(id, (&injection.placeholder, endpoint), token, term)?
            }
        };
        let bearer = Zeroizing::new([b"Bearer ".as_slice(), &token].concat());
        let mut line = Zeroizing::new(Vec::with_capacity(bearer.len() + 32));
        push_field(&mut line, b"authorization", &bearer);
        Ok(line)
    }

    /// One token for the same claims, the same key and the same far end.
    fn id(&self, value: &[u8], endpoint: &Endpoint) -> [u8; 32] {
        let mut digest = Sha256::new();
        for part in [endpoint.to_string(), self.claims(0).to_string()] {
            digest.update(part.len().to_be_bytes());
            digest.update(part);
        }
        digest.update(self.header().to_string());
        digest.update(value);
        digest.finalize().into()
    }

    fn token(&self, value: &[u8]) -> Result<Zeroizing<Vec<u8>>, Refusal> {
        let issued = self.now.saturating_sub(BEHIND_SECONDS);
        let part = |part: Value| BASE64URL_NOPAD.encode(part.to_string().as_bytes());
        let claimed = format!("{}.{}", part(self.header()), part(self.claims(issued)));
        let signature = signature(self.jwt.algorithm, claimed.as_bytes(), value)?;
        let encoded = Zeroizing::new(BASE64URL_NOPAD.encode(&signature));
        let parts = [claimed.as_bytes(), b".", encoded.as_bytes()];
        let size = parts.iter().map(|part| part.len()).sum();
        let mut token = Zeroizing::new(Vec::with_capacity(size));
        parts.iter().for_each(|part| token.extend_from_slice(part));
        Ok(token)
    }

    fn header(&self) -> Value {
        let algorithm = Some(self.jwt.algorithm.name().to_owned());
        let kind = Some("JWT".to_owned());
        object([
            ("alg", algorithm),
            ("typ", kind),
            ("kid", self.jwt.key_id.clone()),
        ])
        .into()
    }

    fn claims(&self, issued: u64) -> Value {
        let Jwt {
            issuer,
            subject,
            audience,
            lifetime_seconds,
            ..
        } = self.jwt;
        let issuer = Some(issuer.clone());
        let texts = [
            ("iss", issuer),
            ("sub", subject.clone()),
            ("aud", audience.clone()),
        ];
        let mut claims = object(texts);
        claims.insert("iat".to_owned(), issued.into());
        let end = issued + u64::from(*lifetime_seconds);
        claims.insert("exp".to_owned(), end.into());
        claims.into()
    }
}

fn object<const N: usize>(texts: [(&str, Option<String>); N]) -> Map<String, Value> {
    let there = texts
        .into_iter()
        .filter_map(|(name, text)| Some((name, text?)));
    there
        .map(|(name, text)| (name.to_owned(), text.into()))
        .collect()
}

/// The signature over what is claimed.
fn signature(
    algorithm: Algorithm,
    claimed: &[u8],
    value: &[u8],
) -> Result<Zeroizing<Vec<u8>>, Refusal> {
    let failed = || unusable("the stored key did not sign: store it again");
    match algorithm {
        Algorithm::HS256 => {
            if value.len() < SECRET_BYTES_MIN {
                return Err(unusable(
                    "the stored secret is too short for HS256: 32 bytes or more",
                ));
            }
            let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, value), claimed);
            Ok(Zeroizing::new(tag.as_ref().to_vec()))
        }
        Algorithm::RS256 => {
            let key = key::rsa(value).ok_or_else(|| unreadable("RSA"))?;
            let mut signature = Zeroizing::new(vec![0; key.public_modulus_len()]);
            let random = SystemRandom::new();
            let signed = key.sign(&RSA_PKCS1_SHA256, &random, claimed, &mut signature);
            signed.map_err(|_| failed())?;
            Ok(signature)
        }
        Algorithm::ES256 => {
            let key = key::p256(value).ok_or_else(|| unreadable("P-256"))?;
            let signature = key
                .sign(&SystemRandom::new(), claimed)
                .map_err(|_| failed())?;
            Ok(Zeroizing::new(signature.as_ref().to_vec()))
        }
    }
}

fn unreadable(kind: &str) -> Refusal {
    unusable(&format!(
        "the stored value is no {kind} private key in PEM, unencrypted and alone: store it again"
    ))
}

#[cfg(test)]
mod tests;
