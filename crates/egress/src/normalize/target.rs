// SPDX-License-Identifier: Apache-2.0
//! Where a request goes: origin-form, absolute-form and CONNECT targets, and the agreement of
//! target, Host header and asked destination on one host and port.

use super::{present, request_line};
use crate::head::{Head, Repeated, framing};
use crate::identify::{Arrival, Asked};
use crate::refuse::Fault;
use torno_policy::Reason;
use torno_policy::facts::{Location, Presented};
use torno_policy::names::{Authority, AuthorityError, Named, PathError, RequestPath, Scheme};

/// Reads an authority; userinfo, brackets around names and escapes are no part of one.
pub(super) fn authority(bytes: &[u8], scheme: Scheme) -> Result<Authority, Fault> {
    let text = std::str::from_utf8(bytes).map_err(|_| bad_host())?;
    Authority::parse(text, scheme).map_err(|error| authority_fault(&error))
}

/// Reads the target and holds it against the Host header and the asked destination.
pub(super) fn read(
    target: &str,
    arrival: &Arrival,
    host: &Authority,
) -> Result<(Authority, RequestPath), Fault> {
    let origin = if target.starts_with('/') {
        match arrival.asked {
            Asked::Proxy => return Err(not_for_a_proxy()),
            Asked::Name(_) | Asked::Address(_) => target.to_owned(),
        }
    } else {
        let (named, origin) = absolute(target, arrival)?;
        // ATTACK: 038
        if named != *host {
            return Err(disagree("use one host: target and Host header differ"));
        }
        origin
    };
    if let Asked::Name(asked) = &arrival.asked
        && asked != host
    {
        // ATTACK: 037, 040, 042
        return Err(disagree(
            "use one host and port: the Host header differs from what was dialled",
        ));
    }
    let path = RequestPath::parse(&origin).map_err(|error| path_fault(&error))?;
    Ok((host.clone(), path))
}

/// The target as it is judged: `{credential}` where a placeholder stands. Each that stands there
/// is presented, and so is each that hides in what is left.
pub(super) fn name_placeholders(path: &RequestPath, presented: &mut Vec<Presented>) -> RequestPath {
    let Named {
        path,
        in_path,
        in_query,
    } = path.name_placeholders();
    let query = path.query().unwrap_or_default();
    for (location, plain, rest) in [
        (Location::Path, in_path, path.path()),
        (Location::Query, in_query, query),
    ] {
        presented.extend(plain.iter().map(|placeholder| Presented {
            location: location.clone(),
            digest: placeholder.digest(),
        }));
        present(presented, rest, &location);
    }
    path
}

/// `http://host[:port][/path][?query]`; gives the authority and the origin-form.
fn absolute(target: &str, arrival: &Arrival) -> Result<(Authority, String), Fault> {
    let rest = target.strip_prefix(arrival.scheme.word());
    let Some(rest) = rest.and_then(|rest| rest.strip_prefix("://")) else {
        return Err(if arrival.asked == Asked::Proxy {
            not_for_a_proxy()
        } else {
            Fault::new(Reason::BadPath, "start the path with `/`").at(Location::Path)
        });
    };
    let cut = rest.find(['/', '?', '#', '\\']).unwrap_or(rest.len());
    let (named, origin) = rest.split_at_checked(cut).unwrap_or((rest, ""));
    let named = authority(named.as_bytes(), arrival.scheme)?;
    let origin = if origin.starts_with('/') {
        origin.to_owned()
    } else {
        format!("/{origin}")
    };
    Ok((named, origin))
}

/// Reads a CONNECT, if this is one. Nothing of its head goes anywhere: it only names the asked
/// host.
pub(crate) fn connect_target(head: &Head) -> Result<Option<Authority>, Fault> {
    let line = request_line(head.first())?;
    if line.method != "CONNECT" {
        return Ok(None);
    }
    let named = Authority::parse_with_port(line.target).map_err(|error| authority_fault(&error))?;
    let host = head
        .single("host")
        .map_err(|Repeated| Fault::malformed("send one Host header"))?;
    match host {
        // Clients of HTTP/1.0 (Python's http.client among them) send none.
        None if line.is_http10 => {}
        None => return Err(Fault::malformed("send a Host header")),
        Some(host) => {
            if authority(host, Scheme::Https)?.host != named.host {
                return Err(disagree(
                    "use one host: CONNECT target and Host header differ",
                ));
            }
        }
    }
    if framing(head).map_err(Fault::malformed)?.is_some() {
        return Err(Fault::malformed("send no body with CONNECT"));
    }
    // ATTACK: 088 – a credential or placeholder is never resolved for CONNECT itself.
    for field in head.fields() {
        let mut presented = Vec::new();
        let place = Location::Header(field.name.to_ascii_lowercase());
        present(&mut presented, field.value, &place);
        present(&mut presented, field.name, &place);
        if !presented.is_empty() {
            return Err(Fault::new(
                Reason::CredentialEndpointMismatch,
                "send placeholders inside the tunnel, in the place they are bound to",
            )
            .at(place));
        }
    }
    Ok(Some(named))
}

/// Every `%XX` decoded once; for looking, never for forwarding.
pub(crate) fn percent_decoded(text: &str) -> Vec<u8> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        let mut ahead = bytes.clone();
        let digits = (ahead.next(), ahead.next());
        match (byte, digits.0.and_then(hex), digits.1.and_then(hex)) {
            (b'%', Some(high), Some(low)) => {
                decoded.push(high * 16 + low);
                bytes = ahead;
            }
            _ => decoded.push(byte),
        }
    }
    decoded
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit)
        .to_digit(16)
        .and_then(|value| u8::try_from(value).ok())
}

fn authority_fault(error: &AuthorityError) -> Fault {
    match error {
        AuthorityError::Port => Fault::new(
            Reason::BadPort,
            "write the port as a decimal number from 1 to 65535",
        ),
        _ => bad_host(),
    }
}

fn bad_host() -> Fault {
    Fault::new(
        Reason::BadHost,
        "name one host: letters, digits, `-` and `.`, without user, escapes or brackets",
    )
}

fn path_fault(error: &PathError) -> Fault {
    let hint = match error {
        PathError::Form => "start the path with `/` and keep the target within 8192 bytes",
        PathError::Character => "escape spaces, `;`, `#`, backslashes and bytes outside ASCII",
        PathError::Escape => "escape no separators in the path, and nothing twice",
        PathError::Segment => "resolve `.`, `..` and empty segments before sending",
        _ => "send a plain path",
    };
    Fault::new(Reason::BadPath, hint).at(Location::Path)
}

fn disagree(hint: &'static str) -> Fault {
    Fault::new(Reason::NamesDisagree, hint)
}

fn not_for_a_proxy() -> Fault {
    Fault::malformed("ask the proxy for `http://host/path`, or by CONNECT for TLS hosts")
}
