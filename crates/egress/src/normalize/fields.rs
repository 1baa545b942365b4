// SPDX-License-Identifier: Apache-2.0
//! What becomes of each header field: dropped, passed, or judged as a credential.
//!
//! A field is credential-like when its name is one of the known ones, holds a telling word
//! (`token`, `secret`, `password`, `credential`, `apikey`, `authoriz`), or has `auth`, `key`,
//! `jwt`, `bearer`, `sid`, `cookie` or `signature` as a whole part between hyphens; a short list of
//! harmless names is taken out. A miss leaks nothing of the vault: it only lets a client use what
//! it already has.

use super::{PLACEHOLDER_BYTES_MIN, present};
use crate::cookies::is_markers;
use crate::head::{Field, Head, list_members};
use crate::refuse::Fault;
use torno_policy::Reason;
use torno_policy::facts::{Location, Presented};

/// What happens with one field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Disposition {
    /// Not forwarded: of this hop, rewritten by us, or able to steer a server.
    Drop,
    /// Forwarded as it came.
    Pass,
    /// The client's own credential: forwarded only where the grant says so.
    OwnCredential,
    /// Holds a placeholder. The slot is filled by `inject`; the text itself never leaves here.
    Placeholder,
}

pub(super) struct Judged {
    pub(super) dispositions: Vec<Disposition>,
    pub(super) presented: Vec<Presented>,
    pub(super) own_credentials: Vec<String>,
}

/// Judges every field, those that are dropped included: a placeholder is seen wherever it stands.
pub(super) fn judge(head: &Head) -> Result<Judged, Fault> {
    let mut judged = Judged {
        dispositions: Vec::with_capacity(16),
        presented: Vec::new(),
        own_credentials: Vec::new(),
    };
    let named = connection_named(head);
    // Dropped, they would not say to the far end what they said here.
    if named.iter().any(|name| name.starts_with("content-")) {
        return Err(Fault::malformed(
            "name no Content-* field in Connection: they are for the far end",
        ));
    }
    for field in head.fields() {
        let before = judged.presented.len();
        search(&mut judged.presented, field);
        let carries = judged.presented.len() > before;
        let dropped = is_dropped(field.name) || named.iter().any(|name| field.is(name));
        let is_marker = field.is("cookie") && is_markers(field.value);
        let disposition = if carries {
            Disposition::Placeholder
        } else if dropped || is_marker {
            Disposition::Drop
        } else if is_credential_like(field.name) {
            own(&mut judged.own_credentials, field.name);
            Disposition::OwnCredential
        } else {
            Disposition::Pass
        };
        judged.dispositions.push(disposition);
    }
    Ok(judged)
}

fn own(names: &mut Vec<String>, name: &str) {
    let name = name.to_ascii_lowercase();
    if !names.contains(&name) {
        names.push(name);
    }
}

fn search(presented: &mut Vec<Presented>, field: Field<'_>) {
    if field.value.len() < PLACEHOLDER_BYTES_MIN && field.name.len() < PLACEHOLDER_BYTES_MIN {
        return;
    }
    let place = Location::Header(field.name.to_ascii_lowercase());
    present(presented, field.value, &place);
    present(presented, field.name, &place);
}

/// Trailers are judged when they arrive: a placeholder in one ends the request. What is left is
/// what may be forwarded.
pub(crate) fn judge_trailers(trailers: &Head) -> Result<Vec<Field<'_>>, Fault> {
    let mut presented = Vec::new();
    for field in trailers.fields() {
        present(&mut presented, field.value, &Location::Trailer);
        present(&mut presented, field.name, &Location::Trailer);
    }
    if !presented.is_empty() {
        // ATTACK: 086
        return Err(Fault::new(
            Reason::CredentialEndpointMismatch,
            "send placeholders in the place they are bound to, never in a trailer",
        )
        .at(Location::Trailer));
    }
    let passes = |field: &Field<'_>| !is_dropped(field.name) && !is_credential_like(field.name);
    Ok(trailers.fields().filter(passes).collect())
}

/// The fields that `Connection` names belong to this hop (RFC 9110 §7.6.1).
fn connection_named(head: &Head) -> Vec<String> {
    list_members(head.values("connection"))
        .filter(|name| name != "close" && name != "keep-alive")
        .collect()
}

/// Fields that end at this hop, in both directions.
pub(crate) fn is_hop_by_hop(name: &str) -> bool {
    const HOP_BY_HOP: [&str; 11] = [
        "connection",
        "keep-alive",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "http2-settings",
        "content-length",
        "alt-svc",
        "alt-used",
        "proxy",
    ];
    HOP_BY_HOP.iter().any(|hop| name.eq_ignore_ascii_case(hop)) || starts(name, "proxy-")
}

/// ATTACK: 059, 062, 080, 095, 097, 124 – upgrades, overrides of method, path or host, claims of
/// identity, and the underscore twins that some servers read as the hyphenated name.
fn is_dropped(name: &str) -> bool {
    const STEERING: [&str; 20] = [
        "host",
        "expect",
        "forwarded",
        "via",
        "x-real-ip",
        "x-client-ip",
        "x-cluster-client-ip",
        "true-client-ip",
        "cf-connecting-ip",
        "x-http-method",
        "x-http-method-override",
        "x-method-override",
        "x-original-url",
        "x-original-uri",
        "x-rewrite-url",
        "x-original-host",
        "x-host",
        "x-accel-redirect",
        "x-sendfile",
        // Asks for answers that can't be searched.
        "accept-charset",
    ];
    is_hop_by_hop(name)
        || is_websocket_field(name)
        || name.contains('_')
        || starts(name, "x-forwarded")
        || STEERING
            .iter()
            .any(|known| name.eq_ignore_ascii_case(known))
}

/// Fields of a WebSocket's handshake: written by us alone, on either side.
pub(crate) fn is_websocket_field(name: &str) -> bool {
    starts(name, "sec-websocket-")
}

fn starts(name: &str, prefix: &str) -> bool {
    let front = name.as_bytes().get(..prefix.len());
    front.is_some_and(|front| front.eq_ignore_ascii_case(prefix.as_bytes()))
}

/// See the module's doc.
pub(super) fn is_credential_like(name: &str) -> bool {
    const HARMLESS: [&str; 10] = [
        "idempotency-key",
        "x-idempotency-key",
        "surrogate-key",
        "x-csrf-token",
        "csrf-token",
        "x-xsrf-token",
        "access-control-request-headers",
        "x-cache-key",
        // How npm would log in, `web` or `legacy`; it is in every request, of the anonymous too.
        "npm-auth-type",
        // The name of a key that a store encrypts with; it opens nothing.
        "x-amz-server-side-encryption-aws-kms-key-id",
    ];
    const TELLING: [&str; 8] = [
        "token",
        "secret",
        "password",
        "passwd",
        "credential",
        "apikey",
        "api-key",
        "authoriz",
    ];
    const PARTS: [&str; 8] = [
        "auth",
        "key",
        "jwt",
        "bearer",
        "sid",
        "cookie",
        "cookie2",
        "signature",
    ];
    let name = name.to_ascii_lowercase();
    if HARMLESS.contains(&name.as_str()) {
        return false;
    }
    TELLING.iter().any(|word| name.contains(word)) || name.split('-').any(|p| PARTS.contains(&p))
}
