// SPDX-License-Identifier: Apache-2.0
//! Phase 8: unlocks by receipt, and writes the head that goes out, or the body. The one place where
//! a credential is exposed. What it is in lives in one zeroizing buffer of its exact size, so that
//! no reallocation leaves a copy behind, and is dropped once it is written.

mod body;
mod cookie;
mod head;
mod hmac;
mod jwt;
mod message;
mod password;
mod refresh;
mod sign;
mod signing;
mod slot;

pub(crate) use cookie::unix_seconds;
pub(crate) use head::push_field;
pub(crate) use message::MessageSlot;
pub(crate) use password::{Password, unlock_password};

use crate::connect::{Upstream, receipt};
use crate::forward::Upload;
use crate::head::Framing;
use crate::normalize::Request;
use crate::ports::{Granted, Ports, Unlocked};
use crate::refuse::Fault;
use crate::scrub::Released;
use bytes::Bytes;
use head::plain_part;
use signing::{Signing, is_private_key};
use torno_notary_protocol::gate::{Allowed, Injection, Keeping};
use torno_notary_protocol::transit::CredentialInTransit;
use torno_policy::binding::{Slot, is_segment_safe};
use torno_policy::names::RuleName;
use torno_policy::placeholder::Placeholder;
use torno_policy::{Layer, Reason, Refusal};
use zeroize::Zeroizing;

/// A head that may hold a credential.
pub(crate) struct OutgoingHead(Zeroizing<Vec<u8>>);

impl OutgoingHead {
    /// The same buffer, to be shared in parts and wiped with the last of them.
    pub(crate) fn into_bytes(self) -> Bytes {
        Bytes::from_owner(self.0)
    }

    #[cfg(test)]
    pub(crate) fn of(head: &[u8]) -> Self {
        Self(Zeroizing::new(head.to_vec()))
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

/// What goes out first, and what may go out later.
pub(crate) struct Injected {
    pub(crate) head: OutgoingHead,
    /// The credential that waits for its message.
    pub(crate) message: Option<MessageSlot>,
    /// What is kept of the answer.
    pub(crate) keeping: Option<Keeping>,
}

/// Unlocks what the answer names, renders the head and fills the body. `verified` is the evidence
/// that the far end is the one that was allowed.
pub(crate) async fn inject(
    ports: &Ports,
    granted: Granted,
    (request, upload): (&Request, &mut Upload),
    verified: &mut Upstream,
    released: &Released,
) -> Result<Injected, Refusal> {
    let Granted {
        allowed,
        credential,
    } = granted;
    let signing = match &allowed.injection {
        Some(injection) => Signing::of(injection, request, ports.clock.now())?,
        None => None,
    };
    let unlocked = if allowed.unlock && credential.is_none() {
        ports.ask.unlock(receipt(&allowed)?).await?
    } else {
        Unlocked {
            watched: Vec::new(),
            injected: credential,
            watch: 0,
        }
    };
    // INVARIANT: only gRPC is sent in HTTP/2, and no slot is in a body of its kind or signs it.
    if allowed
        .injection
        .as_ref()
        .is_some_and(|i| i.slot.reads_body())
        && verified.heads.is_some()
    {
        return Err(unusable("send this with HTTP/1.1"));
    }
    let now = unix_seconds(ports.clock.now());
    let cookies = cookie::field(&allowed, (request, now), released)?;
    let body = (request, upload, signing);
    let injected = render(&allowed, unlocked, (body, &cookies), released)?;
    Ok(Injected {
        keeping: allowed.keeping,
        ..injected
    })
}

/// What goes out, but for the credential.
#[derive(Clone, Copy)]
struct Sending<'a> {
    allowed: &'a Allowed,
    request: &'a Request,
    /// As the body goes out.
    framing: Framing,
    /// What comes back is searched.
    is_scrubbed: bool,
}

/// LIMIT: the smallest value that can be scrubbed, and the largest that fits a header anywhere.
const VALUE_BYTES: std::ops::RangeInclusive<usize> = 12..=8192;

/// A request with its body, and what it is signed with.
type Body<'a> = (&'a Request, &'a mut Upload, Option<Signing<'a>>);

fn render(
    allowed: &Allowed,
    unlocked: Unlocked,
    ((request, upload, signing), cookies): (Body<'_>, &[u8]),
    released: &Released,
) -> Result<Injected, Refusal> {
    take_up(&unlocked.watched, released)?;
    let path = &request.facts.path;
    let (mut message, read) = (None, upload.ahead.len());
    let minted = allowed.injection.as_ref().filter(|_| allowed.minted);
    let minted = minted.and_then(|i| released.minted(&i.placeholder, &allowed.endpoint));
    let injected = minted.as_deref().or(unlocked.injected.as_ref());
    let filled = match (&allowed.injection, injected) {
        (Some(injection), Some(credential)) => {
            let is_key = is_private_key(&injection.slot);
            let form = if is_key { Form::Key } else { Form::Line };
            let value = exposed(credential, form)?;
            let is_path = matches!(injection.slot, Slot::Path { .. });
            if is_path && !is_segment_safe(value) {
                return Err(unusable(
                    "the stored value can't stand in a path: bind it elsewhere",
                ));
            }
            if !is_key {
                released.remember(injection, &allowed.endpoint, value)?;
            }
            message = awaited(injection, value);
            fill_body(injection, (request, upload), value)?;
            let sending = Sending {
                allowed,
                request,
                framing: upload.framing,
                is_scrubbed: !released.is_empty(),
            };
            match signing {
                Some(signing) => {
                    let beside = (injection, released);
                    let fields = signing.fields((sending, &upload.ahead), value, beside)?;
                    slot::beside(path, fields)
                }
                None => slot::fill(&injection.slot, path, value),
            }
        }
        (Some(_), None) => return Err(missing()),
        (None, _) => slot::unfilled(path),
    };
    let filled = filled.ok_or_else(|| unusable(ONE_PLACE))?;
    refresh::fill(allowed, (request, upload), (released, read))?;
    released.take_up(unlocked.watch);
    drop(unlocked);
    let sending = Sending {
        allowed,
        request,
        framing: upload.framing,
        is_scrubbed: !released.is_empty(),
    };
    let method = request.facts.method.as_str().as_bytes();
    let rest = plain_part(sending);
    let field = &filled.field;
    let parts = [method, b" ", &filled.target, &rest, field, cookies, b"\r\n"];
    let size = parts.iter().map(|part| part.len()).sum();
    let mut head = Zeroizing::new(Vec::with_capacity(size));
    parts.iter().for_each(|part| head.extend_from_slice(part));
    Ok(Injected {
        head: OutgoingHead(head),
        message,
        keeping: None,
    })
}

const ONE_PLACE: &str = "send the placeholder in its one place, once";

/// Puts the value into the body, where the slot is in it.
fn fill_body(
    injection: &Injection,
    (request, upload): (&Request, &mut Upload),
    value: &[u8],
) -> Result<(), Refusal> {
    if !injection.slot.is_in_body() {
        return Ok(());
    }
    let spot = request.spot.as_ref();
    let spot = spot.filter(|spot| spot.slot == injection.slot);
    let filled = spot.and_then(|spot| body::fill(spot, &upload.ahead, value));
    upload.replace(filled.ok_or_else(|| unusable(ONE_PLACE))?);
    Ok(())
}

/// The credential of a slot whose message comes later.
fn awaited(injection: &Injection, value: &[u8]) -> Option<MessageSlot> {
    let Slot::WebsocketJson { pointer, binary } = &injection.slot else {
        return None;
    };
    Some(MessageSlot {
        pointer: pointer.clone(),
        passes_binary: *binary,
        mode: injection.mode,
        placeholder: Placeholder::parse(&injection.placeholder).map(|one| one.digest()),
        value: Some(Zeroizing::new(value.to_vec())),
    })
}

/// From now on answers are searched for these.
fn take_up(watched: &[(String, CredentialInTransit)], released: &Released) -> Result<(), Refusal> {
    for (placeholder, credential) in watched {
        // What can't stand in a header was never sent from here, so no far end can send it back.
        if let Ok(value) = usable(credential) {
            released.watch_for(placeholder, value)?;
        }
    }
    Ok(())
}

/// What a stored value may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// What can stand in a header.
    Line,
    /// A private key, which has lines and stands nowhere.
    Key,
}

/// The value, when it can stand in a header.
fn usable(credential: &CredentialInTransit) -> Result<&[u8], Refusal> {
    exposed(credential, Form::Line)
}

fn exposed(credential: &CredentialInTransit, form: Form) -> Result<&[u8], Refusal> {
    let value = match form {
        Form::Line => plain(credential),
        Form::Key => Some(bytes(credential)),
    };
    if let Some(value) = value.filter(|value| VALUE_BYTES.contains(&value.len())) {
        return Ok(value);
    }
    Err(unusable(
        "the stored value can't stand in a header: store 12 to 8192 visible characters",
    ))
}

/// The bytes, when none of them ends a field.
fn plain(credential: &CredentialInTransit) -> Option<&[u8]> {
    let value = bytes(credential);
    value
        .iter()
        .all(|b| (b' '..0x7f).contains(b))
        .then_some(value)
}

fn bytes(credential: &CredentialInTransit) -> &[u8] {
    // INVARIANT: the only call of `expose` in this crate.
    credential.expose()
}

/// An answer that promised a credential came without it.
fn missing() -> Refusal {
    unusable("the credential did not come: try again")
}

fn unusable(hint: &str) -> Refusal {
    Refusal {
        reason: Reason::Undecidable,
        layer: Layer::Vault,
        rule: RuleName::new("egress.inject"),
        hint: hint.to_owned(),
    }
}

/// Answers a revocation that came between the answer and the use of its credential.
pub(crate) fn revoked() -> Refusal {
    Refusal {
        reason: Reason::CredentialRevoked,
        layer: Layer::Vault,
        rule: RuleName::new("egress.revoke"),
        hint: "the credential or the session was revoked: ask its owner".to_owned(),
    }
}

/// Answers what the gate itself could not do.
pub(crate) fn undecidable() -> Fault {
    Fault::new(
        Reason::Undecidable,
        "the request could not be handled and was not sent: change it, or report it",
    )
}
