// SPDX-License-Identifier: Apache-2.0
//! Slots that are no place for a value: what is signed with it instead, and the header lines that
//! go out for that. What can be refused is refused before anything is unlocked.

use super::hmac::Tagging;
use super::jwt::Claiming;
use super::sign::{self, signing};
use super::{Sending, unusable};
use crate::normalize::Request;
use crate::scrub::Released;
use std::time::{SystemTime, UNIX_EPOCH};
use torno_notary_protocol::gate::Injection;
use torno_policy::Refusal;
use torno_policy::binding::Slot;
use zeroize::Zeroizing;

/// What is signed with the credential.
#[derive(Clone, Copy)]
pub(super) enum Signing<'a> {
    /// What a client of AWS signed with its placeholder.
    Aws(sign::Signing<'a>),
    /// What the binding's recipe covers.
    Hmac(Tagging<'a>),
    /// What the binding claims.
    Jwt(Claiming<'a>),
}

impl<'a> Signing<'a> {
    /// What is to be signed for a slot; nothing when the value itself goes in.
    pub(super) fn of(
        injection: &'a Injection,
        request: &'a Request,
        now: SystemTime,
    ) -> Result<Option<Self>, Refusal> {
        let at = |now: SystemTime| now.duration_since(UNIX_EPOCH).map_err(|_| no_time());
        match &injection.slot {
            slot @ Slot::Hmac(hmac) => {
                let read = request.facts.body.as_ref();
                let is_read = read.is_some_and(|read| read.slot == *slot);
                // INVARIANT: what is signed of a body was read whole, and leaves as it was read.
                if hmac.text.reads_body() && !is_read {
                    return Err(unusable("the body was not read: try again"));
                }
                Ok(Some(Self::Hmac(Tagging::new(hmac, at(now)?))))
            }
            Slot::Jwt(jwt) => Ok(Some(Self::Jwt(Claiming::new(jwt, at(now)?)))),
            slot => Ok(signing(slot, request.signed.as_ref(), now)?.map(Self::Aws)),
        }
    }

    /// The lines that go out. `body` is whole where it is signed.
    pub(super) fn fields(
        &self,
        (sending, body): (Sending<'_>, &[u8]),
        value: &[u8],
        (injection, released): (&Injection, &Released),
    ) -> Result<Zeroizing<Vec<u8>>, Refusal> {
        match self {
            Self::Aws(signing) => signing.fields(sending, value),
            Self::Hmac(tagging) => tagging.fields(sending, body, value),
            Self::Jwt(claiming) => {
                claiming.fields(value, (injection, &sending.allowed.endpoint, released))
            }
        }
    }
}

/// Whether the credential is a private key: no far end has it, and none gets it.
pub(super) fn is_private_key(slot: &Slot) -> bool {
    matches!(slot, Slot::Jwt(jwt) if jwt.algorithm.has_private_key())
}

fn no_time() -> Refusal {
    unusable("the host's clock can't be written in a signature: set it")
}
