// SPDX-License-Identifier: Apache-2.0
//! Phase 4: bytes → facts. The only place where authority, path and framing of a request are read;
//! whatever could be read in two ways is refused. Protocols on top of HTTP (git) add facts here
//! and nothing else.

mod aws;
mod content;
mod fields;
mod form;
mod git;
mod graphql;
mod json;
mod multipart;
mod reading;
mod refresh;
mod signature;
mod slot;
mod stamp;
mod target;
mod tripwires;
mod upgrade;

pub(crate) use aws::form as aws_form;
#[cfg(test)]
pub(crate) use content::CONTENT_BYTES_MAX;
pub(crate) use content::{graphql_body, graphql_query, jsonrpc, lfs_batch};
pub(crate) use fields::{Disposition, is_hop_by_hop, is_websocket_field, judge_trailers};
pub(crate) use git::{CommandReader, Commands};
pub(crate) use json::{Spot as JsonSpot, Value as JsonValue, find as json_spot, read as read_json};
pub(crate) use reading::Reading;
pub(crate) use refresh::placeholder_at;
pub(crate) use signature::{Payload, Signed};
pub(crate) use slot::{Found, Place, Spot, find as body_slot, in_json, presented};
pub(crate) use stamp::Stamp;
pub(crate) use target::{connect_target, percent_decoded};
pub(crate) use tripwires::{BodySearch, Tripwires};
pub(crate) use upgrade::Offer;

use crate::head::{Framing, Head, Repeated, framing, list_members};
use crate::identify::{Arrival, Asked};
use crate::refuse::Fault;
use torno_policy::Reason;
use torno_policy::facts::{Location, Presented, RequestFacts};
use torno_policy::names::{Endpoint, Host, Method, RequestPath};
use torno_policy::placeholder::Placeholder;

/// A head as it came, and how.
pub(crate) struct RawRequest<'a> {
    pub(crate) arrival: &'a Arrival,
    pub(crate) head: Head,
}

/// A request that is understood: what is judged, and what will be written.
pub(crate) struct Request {
    pub(crate) facts: RequestFacts,
    pub(crate) head: Head,
    /// What becomes of each field of the head, in its order.
    pub(crate) dispositions: Vec<Disposition>,
    pub(crate) framing: Framing,
    /// The WebSocket that it asks to become.
    pub(crate) websocket: Option<Offer>,
    /// The client waits for `100 Continue` before it sends the body.
    pub(crate) expects_continue: bool,
    /// Another request may follow on the connection.
    pub(crate) keep_alive: bool,
    /// The client reads no chunks.
    pub(crate) is_http10: bool,
    /// What the far end must speak.
    pub(crate) protocol: Protocol,
    /// The slot of its body, when it was read.
    pub(crate) spot: Option<Spot>,
    /// The placeholder of a refresh token in its body, when it was read for one.
    pub(crate) refresh: Option<Spot>,
    /// What the client signed with a placeholder as its key.
    pub(crate) signed: Option<Signed>,
}

impl Request {
    /// A request without effect by its method (RFC 9110 §9.2.1).
    pub(crate) fn is_safe(&self) -> bool {
        matches!(self.facts.method.as_str(), "GET" | "HEAD" | "OPTIONS")
    }

    /// A request without effect and without body.
    pub(crate) fn is_repeatable(&self) -> bool {
        self.framing == Framing::Empty && self.is_safe()
    }

    /// No body follows the head of an answer to HEAD.
    pub(crate) fn is_head(&self) -> bool {
        self.facts.method.as_str() == "HEAD"
    }
}

/// Reads one request.
pub(crate) fn normalize(raw: RawRequest<'_>) -> Result<Request, Fault> {
    let RawRequest { arrival, head } = raw;
    let line = request_line(head.first())?;
    if let Some(disagreement) = &arrival.disagreement {
        return Err(disagreement.clone());
    }
    if let Asked::Address(_) = arrival.asked {
        return Err(raw_address());
    }
    let method = Method::parse(line.method).ok_or_else(bad_method)?;
    let host = host_header(&head, arrival)?;
    let (authority, path) = target::read(line.target, arrival, &host)?;
    if !matches!(authority.host, Host::Name(_)) {
        return Err(raw_address());
    }
    let framing = framing(&head).map_err(Fault::malformed)?;
    if line.is_http10 && framing == Some(Framing::Chunked) {
        // ATTACK: 055
        return Err(Fault::malformed("send chunks with HTTP/1.1 only"));
    }
    refuse_method_in_query(&path)?;
    let websocket = upgrade::offer(&head, &method, (framing, line.is_http10))?;
    let mut judged = fields::judge(&head)?;
    let signed = signature::read(&head, &judged.dispositions, framing)?;
    if signed.is_some() {
        signature::replace(&head, &mut judged.dispositions, &mut judged.own_credentials);
    }
    let mut presented = judged.presented;
    let path = target::name_placeholders(&path, &mut presented);
    if presented.len() > PRESENTED_MAX {
        return Err(Fault::new(
            Reason::TooLarge,
            "carry fewer placeholders in one request",
        ));
    }
    let git = git::facts(&method, &path)?;
    let expects_continue = expects_continue(&head)?;
    let close = list_members(head.values("connection")).any(|member| member == "close");
    let facts = RequestFacts {
        entry: arrival.entry,
        endpoint: Endpoint {
            scheme: arrival.scheme,
            host: authority.host,
            port: authority.port,
        },
        method,
        path,
        websocket: websocket.is_some(),
        presented,
        own_credentials: judged.own_credentials,
        git,
        content: None,
        body: None,
    };
    Ok(Request {
        facts,
        dispositions: judged.dispositions,
        framing: framing.unwrap_or(Framing::Empty),
        websocket,
        expects_continue: expects_continue && !line.is_http10,
        keep_alive: !close && !line.is_http10,
        is_http10: line.is_http10,
        protocol: protocol(&head),
        spot: None,
        refresh: None,
        signed,
        head,
    })
}

/// What was asked for, as far as it can be read, for the record: no query, no header value.
pub(crate) fn readable_target(head: &Head, arrival: &Arrival) -> String {
    let first = String::from_utf8_lossy(head.first());
    let target = first.split(' ').nth(1).unwrap_or_default();
    let path = target.split(['?', '#']).next().unwrap_or_default();
    // ATTACK: 110
    format!("{} {}", arrival.asked, RequestPath::shown(path))
}

pub(crate) struct RequestLine<'a> {
    pub(crate) method: &'a str,
    pub(crate) target: &'a str,
    pub(crate) is_http10: bool,
}

/// `METHOD SP target SP HTTP/1.1`, with exactly these two spaces.
pub(crate) fn request_line(line: &[u8]) -> Result<RequestLine<'_>, Fault> {
    let form = Fault::malformed("write the request line as `METHOD target HTTP/1.1`");
    if !line.iter().all(|b| b.is_ascii_graphic() || *b == b' ') {
        return Err(form);
    }
    let line = std::str::from_utf8(line).map_err(|_| form.clone())?;
    let mut parts = line.split(' ');
    let (Some(method), Some(target), Some(version), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Err(form);
    };
    if method.is_empty() || target.is_empty() {
        return Err(form);
    }
    // ATTACK: 055, 059 – 0.9, 1.2, `HTTP/1.1x` and the HTTP/2 preface end here.
    let is_http10 = match version {
        "HTTP/1.1" => false,
        "HTTP/1.0" => true,
        _ => return Err(Fault::malformed("speak HTTP/1.1")),
    };
    Ok(RequestLine {
        method,
        target,
        is_http10,
    })
}

/// ATTACK: 045 – exactly one Host, which names one host.
fn host_header(head: &Head, arrival: &Arrival) -> Result<torno_policy::names::Authority, Fault> {
    let host = head
        .single("host")
        .map_err(|Repeated| Fault::malformed("send one Host header"))?
        .ok_or(Fault::malformed("send a Host header"))?;
    target::authority(host, arrival.scheme)
}

/// What is spoken to a far end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    Http1,
    Http2,
}

/// gRPC exists over HTTP/2 alone; all else is sent as HTTP/1.1. gRPC-Web is no gRPC.
fn protocol(head: &Head) -> Protocol {
    let is_grpc = head.values("content-type").any(is_grpc_kind);
    if is_grpc && list_members(head.values("te")).any(|te| te == "trailers") {
        Protocol::Http2
    } else {
        Protocol::Http1
    }
}

/// `application/grpc`, alone or with a suffix or parameters.
pub(crate) fn is_grpc_kind(content_type: &[u8]) -> bool {
    let kind = content_type.to_ascii_lowercase();
    let rest = kind.strip_prefix(b"application/grpc");
    rest.is_some_and(|rest| matches!(rest.first(), None | Some(b'+' | b';' | b' ')))
}

fn expects_continue(head: &Head) -> Result<bool, Fault> {
    let expect = head
        .single("expect")
        .map_err(|Repeated| Fault::malformed("send one Expect header"))?;
    match expect {
        None => Ok(false),
        Some(value) if value.eq_ignore_ascii_case(b"100-continue") => Ok(true),
        Some(_) => Err(Fault::malformed("expect `100-continue` or nothing")),
    }
}

/// ATTACK: 080 – frameworks let `_method` in the query replace the method that was judged.
fn refuse_method_in_query(path: &RequestPath) -> Result<(), Fault> {
    let Some(query) = path.query() else {
        return Ok(());
    };
    let names = query.split(['&', ';']).map(|pair| {
        let (name, _) = pair.split_once('=').unwrap_or((pair, ""));
        target::percent_decoded(name)
    });
    let overriding = |name: Vec<u8>| name.eq_ignore_ascii_case(b"_method");
    if names.into_iter().any(overriding) {
        Err(bad_method().at(Location::Query))
    } else {
        Ok(())
    }
}

/// Adds each placeholder of `text`, plain or hidden.
pub(crate) fn present(presented: &mut Vec<Presented>, text: impl AsRef<[u8]>, place: &Location) {
    let text = text.as_ref();
    if text.len() < PLACEHOLDER_BYTES_MIN {
        return;
    }
    presented.extend(Placeholder::find_hidden(text).iter().map(|p| Presented {
        location: place.clone(),
        digest: p.digest(),
    }));
}

/// LIMIT: placeholders in one head, and different ones in one body; a session has a handful.
pub(crate) const PRESENTED_MAX: usize = 16;

/// The mark and 32 characters: nothing shorter holds a placeholder in any encoding.
pub(crate) const PLACEHOLDER_BYTES_MIN: usize = 36;

fn bad_method() -> Fault {
    Fault::new(
        Reason::BadMethod,
        "use one method in upper case in the request line; CONNECT and TRACE are none here",
    )
    .at(Location::Method)
}

fn raw_address() -> Fault {
    Fault::new(
        Reason::RawAddress,
        "use the host's name: requests to a bare address are not let out",
    )
}

#[cfg(test)]
mod tests;
