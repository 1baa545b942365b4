// SPDX-License-Identifier: Apache-2.0
//! Signatures of AWS, made anew over what goes out (Signature Version 4, as its documentation
//! calls the steps): a canonical request, a text to sign, a key derived for one day, region and
//! service. The client's signature says only what is to be signed. The key lives for one call, in
//! buffers that are wiped.

use super::Sending;
use super::head::{authority, passing, push_field};
use crate::normalize::{Payload, Signed, Stamp};
use aws_lc_rs::hmac::{self, HMAC_SHA256};
use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::time::SystemTime;
use torno_policy::binding::{Sigv4, Slot};
use torno_policy::names::{RequestPath, RuleName};
use torno_policy::{Layer, Reason, Refusal};
use zeroize::Zeroizing;

/// LIMIT: 15 minutes, as AWS has it: a signature of another time is a wrong clock or an old one.
const APART_SECONDS_MAX: u64 = 15 * 60;

/// What a signature says beside the key: the time is the gate's own.
#[derive(Debug, Clone, Copy)]
pub(super) struct Signing<'a> {
    scope: &'a Sigv4,
    signed: &'a Signed,
    now: Stamp,
}

/// What is to be signed for a slot; nothing when the slot is no signature. Asked before anything
/// is unlocked.
pub(super) fn signing<'a>(
    slot: &'a Slot,
    signed: Option<&'a Signed>,
    now: SystemTime,
) -> Result<Option<Signing<'a>>, Refusal> {
    let Slot::Sigv4(scope) = slot else {
        return Ok(None);
    };
    let Some(signed) = signed else {
        return Err(refusal(
            Reason::CredentialEndpointMismatch,
            "let the client sign with Signature Version 4, the placeholder as its access key id",
        ));
    };
    let now = Stamp::of(now).ok_or_else(|| {
        refusal(
            Reason::Undecidable,
            "the host's clock can't be written in a signature",
        )
    })?;
    if signed.at.apart(now) > APART_SECONDS_MAX {
        return Err(refusal(
            Reason::MalformedRequest,
            "sign at the time of sending: X-Amz-Date is more than 15 minutes from now",
        ));
    }
    if signed.region != scope.region || signed.service != scope.service {
        let hint = format!(
            "the credential is bound to sign for region {} and service {}: set them in the client",
            scope.region, scope.service
        );
        return Err(refusal(Reason::CredentialEndpointMismatch, &hint));
    }
    Ok(Some(Signing { scope, signed, now }))
}

fn refusal(reason: Reason, hint: &str) -> Refusal {
    Refusal {
        reason,
        layer: Layer::Vault,
        rule: RuleName::new("egress.sign"),
        hint: hint.to_owned(),
    }
}

impl Signing<'_> {
    /// The lines that go out: the time and the signature.
    pub(super) fn fields(
        &self,
        sending: Sending<'_>,
        secret: &[u8],
    ) -> Result<Zeroizing<Vec<u8>>, Refusal> {
        let facts = &sending.request.facts;
        let payload = match &self.signed.payload {
            Payload::Declared(payload) | Payload::Hashed(payload) => payload,
            Payload::Unread => return Err(super::unusable("the body was not read: try again")),
        };
        // What the client signed goes out, or the request does not: a part of an object where the
        // whole comes would be taken for that part.
        let in_parts = |name: &String| matches!(name.as_str(), "range" | "if-range");
        if sending.is_scrubbed && self.signed.fields.iter().any(in_parts) {
            return Err(super::unusable(
                "answers are searched, so they come whole: download an object in one request \
                 (boto3: TransferConfig with a higher multipart_threshold)",
            ));
        }
        let time = self.now.to_string();
        let mut covered = self.covered(sending);
        covered.insert("host".to_owned(), authority(&facts.endpoint).into_bytes());
        covered.insert("x-amz-date".to_owned(), time.clone().into_bytes());
        let names = covered.keys().map(String::as_str).collect::<Vec<_>>();
        let names = names.join(";");
        let path = if self.scope.is_s3() {
            as_sent(facts.path.path())
        } else {
            encoded_again(facts.path.path())
        };
        let query = canonical_query(&facts.path);
        let mut canonical = format!("{}\n{path}\n{query}\n", facts.method).into_bytes();
        for (name, value) in &covered {
            canonical.extend_from_slice(name.as_bytes());
            canonical.push(b':');
            canonical.extend_from_slice(value);
            canonical.push(b'\n');
        }
        canonical.extend_from_slice(format!("\n{names}\n{payload}").as_bytes());

        let Sigv4 {
            key_id,
            region,
            service,
        } = self.scope;
        let day = self.now.day();
        let scope = format!("{day}/{region}/{service}/aws4_request");
        let digest = HEXLOWER.encode(&Sha256::digest(&canonical));
        let text = format!("AWS4-HMAC-SHA256\n{time}\n{scope}\n{digest}");
        let key = signing_key(secret, [&day, region, service]);
        let signature = HEXLOWER.encode(&*mac(&*key, text.as_bytes()));

        let mut lines = Vec::new();
        push_field(&mut lines, b"x-amz-date", time.as_bytes());
        let authorization = format!(
            "AWS4-HMAC-SHA256 Credential={key_id}/{scope}, SignedHeaders={names}, \
             Signature={signature}"
        );
        push_field(&mut lines, b"authorization", authorization.as_bytes());
        Ok(Zeroizing::new(lines))
    }

    /// The fields that are signed: what the client signed, as far as it goes out as it came, and
    /// whatever of AWS's own goes out.
    fn covered(&self, sending: Sending<'_>) -> BTreeMap<String, Vec<u8>> {
        let mut covered: BTreeMap<String, Vec<u8>> = BTreeMap::new();
        for field in passing(sending) {
            let name = field.name.to_ascii_lowercase();
            let is_of_aws = name.starts_with("x-amz-") || name == "content-type";
            if !is_of_aws && !self.signed.fields.contains(&name) {
                continue;
            }
            let value = single_spaced(field.value);
            match covered.get_mut(&name) {
                None => drop(covered.insert(name, value)),
                Some(earlier) => {
                    earlier.push(b',');
                    earlier.extend_from_slice(&value);
                }
            }
        }
        covered
    }
}

/// A value without white space around it, and with one space for each run of it.
fn single_spaced(value: &[u8]) -> Vec<u8> {
    let words = value.split(|b| matches!(b, b' ' | b'\t'));
    let words: Vec<_> = words.filter(|word| !word.is_empty()).collect();
    words.join(&b' ')
}

/// For S3: what is sent, with every reserved byte escaped. The canonical path has its escapes in
/// one spelling already.
fn as_sent(path: &str) -> String {
    encoded(path, |byte| byte == b'/' || byte == b'%')
}

/// For every other service: what is sent, encoded once more.
fn encoded_again(path: &str) -> String {
    encoded(path, |byte| byte == b'/')
}

fn canonical_query(path: &RequestPath) -> String {
    let query = path.query().unwrap_or_default();
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    let mut pairs: Vec<_> = pairs
        .map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (one_spelling(name), one_spelling(value))
        })
        .collect();
    pairs.sort();
    let pairs: Vec<_> = pairs.iter().map(|(n, v)| format!("{n}={v}")).collect();
    pairs.join("&")
}

/// A text of the query, decoded once and encoded in the one way of signatures.
fn one_spelling(text: &str) -> String {
    let decoded = crate::normalize::percent_decoded(text);
    let mut out = String::with_capacity(text.len());
    decoded
        .iter()
        .for_each(|byte| push_encoded(&mut out, *byte));
    out
}

fn encoded(text: &str, is_kept: impl Fn(u8) -> bool) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if is_kept(byte) {
            out.push(char::from(byte));
        } else {
            push_encoded(&mut out, byte);
        }
    }
    out
}

/// Unreserved characters (RFC 3986 §2.3) as they are, all else as `%XX` in upper case.
fn push_encoded(out: &mut String, byte: u8) {
    if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
        out.push(char::from(byte));
    } else {
        out.push('%');
        out.extend([byte >> 4, byte & 15].map(|nibble| char::from(super::slot::hex_digit(nibble))));
    }
}

/// The key of one day, region and service.
fn signing_key(secret: &[u8], [day, region, service]: [&str; 3]) -> Zeroizing<[u8; 32]> {
    let mut first = Zeroizing::new(Vec::with_capacity(4 + secret.len()));
    first.extend_from_slice(b"AWS4");
    first.extend_from_slice(secret);
    let key = mac(&first, day.as_bytes());
    let key = mac(&*key, region.as_bytes());
    let key = mac(&*key, service.as_bytes());
    mac(&*key, b"aws4_request")
}

fn mac(key: &[u8], text: &[u8]) -> Zeroizing<[u8; 32]> {
    let mut out = Zeroizing::new([0; 32]);
    let tag = hmac::sign(&hmac::Key::new(HMAC_SHA256, key), text);
    // INVARIANT: a tag of this algorithm has 32 bytes.
    for (to, from) in out.iter_mut().zip(tag.as_ref()) {
        *to = *from;
    }
    out
}

#[cfg(test)]
mod tests;
