// SPDX-License-Identifier: Apache-2.0
//! Signatures with a shared key (HMAC, RFC 2104), made over what goes out by the recipe of the
//! binding. The key lives for one call, in buffers that are wiped.

use super::head::{authority, passing, push_field};
use super::{Sending, unusable};
use aws_lc_rs::hmac::{Context, HMAC_SHA256, HMAC_SHA512, Key};
use data_encoding::{BASE64, Encoding, HEXLOWER, HEXLOWER_PERMISSIVE};
use sha2::{Digest, Sha256};
use std::borrow::Cow;
use std::time::Duration;
use torno_policy::Refusal;
use torno_policy::binding::{Hash, Hmac, KeyForm, Part};
use zeroize::Zeroizing;

/// What is signed, and when: the time is the gate's own.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tagging<'a> {
    hmac: &'a Hmac,
    now: Duration,
}

impl<'a> Tagging<'a> {
    /// `now` counts from the Unix epoch.
    pub(super) fn new(hmac: &'a Hmac, now: Duration) -> Self {
        Self { hmac, now }
    }

    /// The lines that go out. `body` is what is sent, whole.
    pub(super) fn fields(
        &self,
        sending: Sending<'_>,
        body: &[u8],
        value: &[u8],
    ) -> Result<Zeroizing<Vec<u8>>, Refusal> {
        let key = key(self.hmac.key, value)?;
        let algorithm = match self.hmac.hash {
            Hash::Sha256 => HMAC_SHA256,
            Hash::Sha512 => HMAC_SHA512,
        };
        let mut context = Context::with_key(&Key::new(algorithm, &key));
        for part in self.hmac.text.parts() {
            context.update(&self.covered(part, sending, body)?);
        }
        let tag = context.sign();
        let mut lines = Vec::new();
        for field in &self.hmac.fields {
            let mut said = Vec::new();
            for part in field.value.parts() {
                said.extend_from_slice(&self.told(part, tag.as_ref())?);
            }
            push_field(&mut lines, field.name.as_bytes(), &said);
        }
        Ok(Zeroizing::new(lines))
    }

    /// One part of what is signed.
    fn covered<'s>(
        &'s self,
        part: &'s Part,
        sending: Sending<'s>,
        body: &'s [u8],
    ) -> Result<Cow<'s, [u8]>, Refusal> {
        let facts = &sending.request.facts;
        let owned = |text: String| Cow::Owned(text.into_bytes());
        Ok(match part {
            Part::Method => Cow::Borrowed(facts.method.as_str().as_bytes()),
            Part::Host => owned(authority(&facts.endpoint)),
            Part::Path => Cow::Borrowed(facts.path.path().as_bytes()),
            Part::Query => Cow::Borrowed(facts.path.query().unwrap_or_default().as_bytes()),
            Part::Target => owned(facts.path.to_string()),
            Part::Header(name) => Cow::Borrowed(sent_once(sending, name)?),
            Part::Body => Cow::Borrowed(body),
            Part::BodySha256 => owned(HEXLOWER.encode(&Sha256::digest(body))),
            Part::Fixed(_) | Part::LineFeed | Part::Seconds | Part::Milliseconds => {
                self.told(part, &[])?
            }
            Part::Hex | Part::Base64 => return Err(unsignable()),
        })
    }

    /// One part of what stands beside the request.
    fn told<'s>(&'s self, part: &'s Part, tag: &[u8]) -> Result<Cow<'s, [u8]>, Refusal> {
        let owned = |text: String| Cow::Owned(text.into_bytes());
        Ok(match part {
            Part::Fixed(text) => Cow::Borrowed(text.as_bytes()),
            Part::LineFeed => Cow::Borrowed(b"\n"),
            Part::Seconds => owned(self.now.as_secs().to_string()),
            Part::Milliseconds => owned(self.now.as_millis().to_string()),
            Part::Hex => owned(HEXLOWER.encode(tag)),
            Part::Base64 => owned(BASE64.encode(tag)),
            Part::Method | Part::Host | Part::Path | Part::Query | Part::Target => {
                return Err(unsignable());
            }
            Part::Header(_) | Part::Body | Part::BodySha256 => return Err(unsignable()),
        })
    }
}

/// The value of a field that goes out as it came, and once.
fn sent_once<'a>(sending: Sending<'a>, name: &str) -> Result<&'a [u8], Refusal> {
    let mut fields = passing(sending).filter(|field| field.name.eq_ignore_ascii_case(name));
    match (fields.next(), fields.next()) {
        (Some(field), None) => Ok(field.value),
        _ => Err(unusable(&format!(
            "send `{name}` once: the signature of this binding covers it"
        ))),
    }
}

/// The vault takes no such binding.
fn unsignable() -> Refusal {
    unusable("the binding's recipe can't be followed: bind the credential again")
}

fn key(form: KeyForm, value: &[u8]) -> Result<Zeroizing<Vec<u8>>, Refusal> {
    let key = match form {
        KeyForm::Text => Some(Zeroizing::new(value.to_vec())),
        KeyForm::Base64 => decoded(&BASE64, value),
        KeyForm::Hex => decoded(&HEXLOWER_PERMISSIVE, value),
    };
    key.filter(|key| !key.is_empty()).ok_or_else(|| {
        unusable("the stored value is no key in the form of its binding: store or bind it again")
    })
}

/// Into a buffer of its exact size that is wiped.
pub(super) fn decoded(encoding: &Encoding, text: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
    let mut out = Zeroizing::new(vec![0; encoding.decode_len(text.len()).ok()?]);
    let size = encoding.decode_mut(text, &mut out).ok()?;
    out.truncate(size);
    Some(out)
}

#[cfg(test)]
mod tests;
