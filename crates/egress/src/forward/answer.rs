// SPDX-License-Identifier: Apache-2.0
//! The head of an answer: read strictly, searched, re-written for the client. What could make the
//! client see two answers where there is one, or go around the pipeline, ends here.

use super::body::Body;
use super::charset;
use crate::head::{Field, Framing, Head, HeadScan, framing, list_members};
use crate::normalize::{Request, is_hop_by_hop};
use crate::refuse::Fault;
use crate::scrub::{Scrubber, Unpack, scrub_whole};
use crate::wire::{Source, StreamError};
use std::sync::Arc;

/// An answer's head, understood.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: Head,
    /// What follows, as the far end frames it.
    pub(crate) body: Body,
    /// The coding of the body.
    pub(crate) coding: Coding,
    /// Another request may use the connection.
    pub(crate) keep_alive: bool,
}

/// How a body is encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Coding {
    /// Not at all.
    Identity,
    /// gzip, which is unpacked where it must be searched; so are the next two.
    Gzip,
    /// Something else, or in a character set that can't be searched.
    Other,
    /// brotli.
    Brotli,
    /// zstd.
    Zstd,
}

impl Coding {
    /// How it is undone; nothing where it can't be or needn't.
    pub(crate) fn unpack(self) -> Option<Unpack> {
        match self {
            Self::Gzip => Some(Unpack::gzip()),
            Self::Brotli => Some(Unpack::brotli()),
            Self::Zstd => Some(Unpack::zstd()),
            Self::Identity | Self::Other => None,
        }
    }
}

/// LIMIT: interim answers before the final one; servers send one or two.
pub(crate) const INTERIM_MAX: usize = 16;

/// What an answer is to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AnswerTo {
    /// HEAD: no body follows.
    Head,
    /// A request to become a WebSocket: it may switch protocols.
    Upgrade,
    /// Anything else.
    Other,
}

impl From<&Request> for AnswerTo {
    fn from(request: &Request) -> Self {
        if request.websocket.is_some() {
            Self::Upgrade
        } else if request.is_head() {
            Self::Head
        } else {
            Self::Other
        }
    }
}

/// Reads heads until the final one.
pub(crate) async fn read(source: &mut Source<'_>, to: AnswerTo) -> Result<Answer, StreamError> {
    for _ in 0..=INTERIM_MAX {
        let head = read_head(source).await?;
        let status = status(head.first())?;
        match status {
            101 if to == AnswerTo::Upgrade => return Ok(understand(head, status, to)?),
            // ATTACK: 057, 060 – nothing was upgraded, because no Upgrade was sent.
            101 => return Err(Fault::answer("the far end switched protocols unasked").into()),
            100..=199 => {}
            _ => return Ok(understand(head, status, to)?),
        }
    }
    Err(Fault::answer("the far end sent too many interim answers").into())
}

pub(crate) async fn read_head(source: &mut Source<'_>) -> Result<Head, StreamError> {
    let mut scan = HeadScan::default();
    loop {
        if let Some(end) = scan.end(source.buffer.unread()).map_err(of_answer)? {
            let bytes = source.buffer.unread().get(..end).unwrap_or_default();
            let head = Head::parse(bytes).map_err(of_answer)?;
            source.buffer.consume(end);
            return Ok(head);
        }
        source.more().await?;
    }
}

/// A fault of form in an answer is the far end's.
pub(crate) fn of_answer(_: Fault) -> Fault {
    Fault::answer("the far end's answer is not well-formed HTTP/1.1")
}

/// `HTTP/1.1 SP 3DIGIT SP reason`.
pub(crate) fn status(line: &[u8]) -> Result<u16, Fault> {
    let fault = of_answer(Fault::malformed(""));
    let is_known = line.starts_with(b"HTTP/1.1 ") || line.starts_with(b"HTTP/1.0 ");
    let digits = line.get(9..12).unwrap_or_default();
    let rest = line.get(12..).unwrap_or_default();
    let is_form = is_known
        && digits.iter().all(u8::is_ascii_digit)
        && (rest.is_empty() || rest.first() == Some(&b' '))
        && rest.iter().all(|b| crate::head::is_value_byte(*b));
    let text = std::str::from_utf8(digits).unwrap_or_default();
    match text.parse() {
        Ok(status @ 100..=599) if is_form => Ok(status),
        Ok(_) | Err(_) => Err(fault),
    }
}

/// ATTACK: 057 – both framings, or two lengths, are refused.
pub(crate) fn understand(head: Head, status: u16, to: AnswerTo) -> Result<Answer, Fault> {
    let is_http10 = head.first().starts_with(b"HTTP/1.0");
    let said = framing(&head).map_err(|_| of_answer(Fault::malformed("")))?;
    if is_http10 && said == Some(Framing::Chunked) {
        return Err(of_answer(Fault::malformed("")));
    }
    let body = if to == AnswerTo::Head || matches!(status, 101 | 204 | 304) {
        Body::Length(0)
    } else {
        said.map_or(Body::UntilClose, Body::from)
    };
    let close = list_members(head.values("connection")).any(|member| member == "close");
    Ok(Answer {
        status,
        coding: coding(&head),
        keep_alive: !close && !is_http10 && !matches!(body, Body::UntilClose),
        body,
        head,
    })
}

fn coding(head: &Head) -> Coding {
    let is_coded = |coding: &String| coding != "identity";
    // ATTACK: 106 – in such a set nothing is found, whatever packs it.
    if !charset::is_searchable(head) {
        return Coding::Other;
    }
    // Each message of gRPC is encoded on its own, which is not read here.
    if list_members(head.values("grpc-encoding")).any(|c| is_coded(&c)) {
        return Coding::Other;
    }
    let mut codings = list_members(head.values("content-encoding")).filter(is_coded);
    match (codings.next().as_deref(), codings.next()) {
        (None, _) => Coding::Identity,
        (Some("gzip" | "x-gzip"), None) => Coding::Gzip,
        (Some("br"), None) => Coding::Brotli,
        (Some("zstd"), None) => Coding::Zstd,
        (Some(_), _) => Coding::Other,
    }
}

/// How the body goes to the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outgoing {
    /// No body follows; a length may be told (HEAD, 304).
    Nothing,
    /// So many bytes.
    Length(u64),
    /// Chunks.
    Chunked,
    /// Until the connection is closed: for clients that read no chunks.
    UntilClose,
}

/// What the rewriting of a head needs to know.
pub(crate) struct Rewrite<'a> {
    pub(crate) scrubber: Option<&'a Arc<Scrubber>>,
    pub(crate) outgoing: Outgoing,
    /// The body is unpacked on its way.
    pub(crate) is_unpacked: bool,
    /// A credential was sent to this endpoint: its cookies stay out of the sandbox.
    pub(crate) is_bound: bool,
    /// What the sandbox gets for cookies that are kept: values of `Set-Cookie`.
    pub(crate) markers: &'a [Vec<u8>],
    /// The connection to the client ends behind this answer.
    pub(crate) close: bool,
}

/// Writes the head for the client. Gives the number of secrets that were found in it.
pub(crate) fn rewrite(answer: &Answer, how: &Rewrite<'_>, out: &mut Vec<u8>) -> u32 {
    let mut hits = 0;
    out.extend_from_slice(b"HTTP/1.1 ");
    let line = answer.head.first().get(9..).unwrap_or_default();
    hits += scrub_whole(how.scrubber, line, out);
    out.extend_from_slice(b"\r\n");
    let named: Vec<String> = list_members(answer.head.values("connection")).collect();
    for field in answer.head.fields() {
        let is_named = named.iter().any(|name| field.is(name));
        if !is_named && passes(field, how) {
            hits += push_scrubbed(field, how.scrubber, out);
        }
    }
    hits += push_markers(how, out);
    match how.outgoing {
        Outgoing::Nothing => {
            // The length that a body would have: HEAD and 304 tell it.
            let length = answer.head.single("content-length").ok().flatten();
            if let Some(length) = length.filter(|_| how.scrubber.is_none() && answer.status != 204)
            {
                crate::inject::push_field(out, b"content-length", length);
            }
        }
        Outgoing::Length(length) => {
            crate::inject::push_field(out, b"content-length", length.to_string().as_bytes());
        }
        Outgoing::Chunked => out.extend_from_slice(b"transfer-encoding: chunked\r\n"),
        Outgoing::UntilClose => {}
    }
    if how.close {
        out.extend_from_slice(b"connection: close\r\n");
    }
    out.extend_from_slice(b"\r\n");
    hits
}

/// Appends a field whose name and value were searched; a name that holds a find is left out.
pub(crate) fn push_scrubbed(
    field: Field<'_>,
    scrubber: Option<&Arc<Scrubber>>,
    out: &mut Vec<u8>,
) -> u32 {
    let start = out.len();
    let in_name = scrub_whole(scrubber, field.name.as_bytes(), out);
    if in_name > 0 {
        out.truncate(start);
        return in_name;
    }
    out.extend_from_slice(b": ");
    let hits = scrub_whole(scrubber, field.value, out);
    out.extend_from_slice(b"\r\n");
    hits
}

/// A name may hold what was kept, so markers are searched as well.
pub(super) fn push_markers(how: &Rewrite<'_>, out: &mut Vec<u8>) -> u32 {
    let fields = how.markers.iter().map(|value| Field {
        name: "set-cookie",
        value,
    });
    fields
        .map(|field| push_scrubbed(field, how.scrubber, out))
        .sum()
}

pub(super) fn passes(field: Field<'_>, how: &Rewrite<'_>) -> bool {
    // Signatures over bytes that may change on the way.
    const OVER_BYTES: [&str; 8] = [
        "etag",
        "digest",
        "content-digest",
        "repr-digest",
        "content-md5",
        "accept-ranges",
        "signature",
        "signature-input",
    ];
    const NEVER: [&str; 2] = ["authentication-info", "proxy-authenticate"];
    let is_any = |names: &[&str]| names.iter().any(|name| field.is(name));
    let is_changed = how.scrubber.is_some() && is_any(&OVER_BYTES);
    let is_coding = how.is_unpacked && field.is("content-encoding");
    let is_cookie = how.is_bound && (field.is("set-cookie") || field.is("set-cookie2"));
    !(is_hop_by_hop(field.name) || is_any(&NEVER) || is_changed || is_coding || is_cookie)
}
