// SPDX-License-Identifier: Apache-2.0
//! What a client signed in the manner of AWS (Signature Version 4) with a placeholder as its key
//! id: for which day, region and service, over which fields and which body. Whether its signature
//! is right is not looked at: the key that it was made with is known to everybody in the sandbox,
//! so it proves nothing; who asks is known from the link.

use super::fields::Disposition;
use super::stamp::Stamp;
use crate::head::{Framing, Head, Repeated};
use crate::refuse::Fault;
use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};
use torno_policy::facts::Location;
use torno_policy::placeholder::Placeholder;

/// A signature that is made anew when the request goes out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Signed {
    /// When the client signed.
    pub(crate) at: Stamp,
    pub(crate) region: String,
    pub(crate) service: String,
    /// The fields it signed, in lower case.
    pub(crate) fields: Vec<String>,
    /// What stands for the body in the signature.
    pub(crate) payload: Payload,
}

/// What stands for the body in a signature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Payload {
    /// What the client says of it: the far end holds it against the body.
    Declared(String),
    /// Nothing was said, and the body was not read yet.
    Unread,
    /// Its SHA-256 in hexadecimal digits, by our own reading.
    Hashed(String),
}

impl Payload {
    pub(crate) fn of(body: &[u8]) -> Self {
        Self::Hashed(HEXLOWER.encode(&Sha256::digest(body)))
    }
}

/// LIMIT: a head has at most 128 fields.
const SIGNED_MAX: usize = 128;
/// The one way of signing that can be done again here.
const ALGORITHM: &str = "AWS4-HMAC-SHA256";
/// Fields of the client's own signature. The first is written anew, the second is a second secret.
const REPLACED: [&str; 2] = ["x-amz-date", "x-amz-security-token"];

/// Reads the signature of a request whose `Authorization` holds a placeholder after a word of AWS.
/// Every other request has none.
pub(super) fn read(
    head: &Head,
    dispositions: &[Disposition],
    framing: Option<Framing>,
) -> Result<Option<Signed>, Fault> {
    let is_ours = head.fields().zip(dispositions).any(|(field, disposition)| {
        let word = field.value.get(..3).unwrap_or_default();
        *disposition == Disposition::Placeholder
            && field.is("authorization")
            && word.eq_ignore_ascii_case(b"aws")
    });
    if !is_ours {
        return Ok(None);
    }
    let value = once(head, "authorization", "send one Authorization field")?;
    let value = value.and_then(|value| std::str::from_utf8(value).ok());
    let (scope, fields) = parts(value.unwrap_or_default())?;
    let at = once(head, "x-amz-date", "send one X-Amz-Date field")?;
    let at = at.and_then(Stamp::parse).ok_or_else(|| {
        fault("send the time of the signature as X-Amz-Date, as in 20150830T123600Z")
    })?;
    if at.day() != scope.day {
        return Err(fault(
            "sign for the day of X-Amz-Date: the credential's scope names another",
        ));
    }
    Ok(Some(Signed {
        at,
        region: scope.region.to_owned(),
        service: scope.service.to_owned(),
        fields,
        payload: payload(head, framing)?,
    }))
}

/// The fields of the client's own signature do not go out, and its session token is no credential
/// of its own where its key id is a placeholder.
pub(super) fn replace(head: &Head, dispositions: &mut [Disposition], own: &mut Vec<String>) {
    for (field, disposition) in head.fields().zip(dispositions) {
        let is_replaced = REPLACED.iter().any(|name| field.is(name));
        if is_replaced && *disposition != Disposition::Placeholder {
            *disposition = Disposition::Drop;
        }
    }
    own.retain(|name| !REPLACED.contains(&name.as_str()));
}

struct Scope<'a> {
    day: &'a str,
    region: &'a str,
    service: &'a str,
}

/// `AWS4-HMAC-SHA256 Credential=ID/DAY/REGION/SERVICE/aws4_request, SignedHeaders=…, Signature=…`
fn parts(value: &str) -> Result<(Scope<'_>, Vec<String>), Fault> {
    let other = fault(
        "sign with Signature Version 4 (AWS4-HMAC-SHA256) in Authorization: no other signature of \
         AWS can be made anew here",
    );
    let form = fault(
        "write Authorization as `AWS4-HMAC-SHA256 Credential=ID/DAY/REGION/SERVICE/aws4_request, \
         SignedHeaders=…, Signature=…`",
    );
    let rest = value.strip_prefix(ALGORITHM).ok_or(other)?;
    let rest = rest.strip_prefix(' ').ok_or_else(|| form.clone())?;
    let (mut credential, mut fields, mut signature) = (None, None, None);
    for pair in rest.split(',') {
        let (name, value) = pair.trim().split_once('=').ok_or_else(|| form.clone())?;
        let place = match name {
            "Credential" => &mut credential,
            "SignedHeaders" => &mut fields,
            "Signature" => &mut signature,
            _ => return Err(form),
        };
        if place.replace(value).is_some() {
            return Err(form);
        }
    }
    let (Some(credential), Some(fields), Some(signature)) = (credential, fields, signature) else {
        return Err(form);
    };
    let parts: Vec<_> = credential.split('/').collect();
    let [id, day, region, service, "aws4_request"] = parts.as_slice() else {
        return Err(form);
    };
    let fields: Vec<_> = fields.split(';').map(str::to_owned).collect();
    let is_field = |name: &String| {
        let known = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-_.".contains(&b);
        !name.is_empty() && name.bytes().all(known)
    };
    let is_word = |text: &str| text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    let is_read = Placeholder::parse(id).is_some()
        && is_word(region)
        && is_word(service)
        && is_digest(signature)
        && fields.len() <= SIGNED_MAX
        && fields.iter().all(is_field);
    if !is_read {
        return Err(form);
    }
    let scope = Scope {
        day,
        region,
        service,
    };
    Ok((scope, fields))
}

/// What the client says of its body, in `X-Amz-Content-Sha256`.
fn payload(head: &Head, framing: Option<Framing>) -> Result<Payload, Fault> {
    let declared = once(
        head,
        "x-amz-content-sha256",
        "send one X-Amz-Content-Sha256 field",
    )?;
    let Some(declared) = declared else {
        return Ok(match framing {
            None | Some(Framing::Empty) => Payload::of(b""),
            Some(Framing::Length(_) | Framing::Chunked) => Payload::Unread,
        });
    };
    match std::str::from_utf8(declared).unwrap_or_default() {
        "UNSIGNED-PAYLOAD" | "STREAMING-UNSIGNED-PAYLOAD-TRAILER" => {}
        digest if is_digest(digest) => {}
        chunks if chunks.starts_with("STREAMING-AWS4-") => {
            return Err(fault(
                "sign no chunks: each would need a signature of the real key; declare the body's \
                 SHA-256 or UNSIGNED-PAYLOAD (Java: chunkedEncodingEnabled(false); \
                 aws: s3.payload_signing_enabled = false)",
            ));
        }
        _ => {
            return Err(fault(
                "declare the body as 64 hexadecimal digits of its SHA-256, UNSIGNED-PAYLOAD or \
                 STREAMING-UNSIGNED-PAYLOAD-TRAILER",
            ));
        }
    }
    Ok(Payload::Declared(
        String::from_utf8_lossy(declared).into_owned(),
    ))
}

fn is_digest(text: &str) -> bool {
    let digit = |b: u8| matches!(b, b'0'..=b'9' | b'a'..=b'f');
    text.len() == 64 && text.bytes().all(digit)
}

fn once<'a>(head: &'a Head, name: &'a str, hint: &'static str) -> Result<Option<&'a [u8]>, Fault> {
    head.single(name).map_err(|Repeated| fault(hint))
}

fn fault(hint: &'static str) -> Fault {
    Fault::malformed(hint).at(Location::Header("authorization".to_owned()))
}

#[cfg(test)]
mod tests;
