// SPDX-License-Identifier: Apache-2.0
//! The one `Cookie` field of a request whose binding keeps cookies: those of the jar, instead of
//! any that the client sent. One buffer of its exact size, which is wiped when it is dropped.

use super::{plain, unusable};
use crate::cookies::{FIELD, Place, line_size};
use crate::normalize::Request;
use crate::scrub::Released;
use std::time::{SystemTime, UNIX_EPOCH};
use torno_notary_protocol::gate::Allowed;
use torno_policy::Refusal;
use zeroize::Zeroizing;

/// The field line; nothing where no cookie is kept for this request.
pub(super) fn field(
    allowed: &Allowed,
    (request, now): (&Request, u64),
    released: &Released,
) -> Result<Zeroizing<Vec<u8>>, Refusal> {
    let keeping = allowed.keeping.as_ref().filter(|keeping| keeping.cookies);
    let Some(keeping) = keeping else {
        return Ok(Zeroizing::default());
    };
    let sent = released.cookies(Place {
        keeping,
        endpoint: &allowed.endpoint,
        path: request.facts.path.path(),
        now,
    });
    if sent.is_empty() {
        return Ok(Zeroizing::default());
    }
    let mut line = Zeroizing::new(Vec::with_capacity(line_size(&sent)));
    line.extend_from_slice(FIELD);
    for (at, one) in sent.iter().enumerate() {
        // INVARIANT: the jar takes in no other value.
        let value = plain(&one.value);
        let value = value.ok_or_else(|| unusable("the kept cookie can't be sent: log in again"))?;
        if at > 0 {
            line.extend_from_slice(b"; ");
        }
        line.extend_from_slice(one.name.as_bytes());
        line.push(b'=');
        line.extend_from_slice(value);
    }
    line.extend_from_slice(b"\r\n");
    Ok(line)
}

pub(crate) fn unix_seconds(now: SystemTime) -> u64 {
    now.duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}
