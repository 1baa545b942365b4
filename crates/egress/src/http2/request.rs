// SPDX-License-Identifier: Apache-2.0
//! A request's fields between the two versions: a stream's become one head of HTTP/1.1, and a head
//! that goes out becomes a stream's. What RFC 9113 §8 forbids and `h2` lets through ends here.

use crate::head::{Framing, Head, framing};
use crate::inject::{OutgoingHead, push_field};
use crate::refuse::Fault;
use bytes::Bytes;
use http::header::{CONTENT_LENGTH, COOKIE, HOST};
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Uri};
use torno_policy::Reason;
use torno_policy::facts::Location;

/// Fields of one connection have no place in a stream (RFC 9113 §8.2.2).
const OF_CONNECTION: [&str; 6] = [
    "connection",
    "keep-alive",
    "proxy-connection",
    "transfer-encoding",
    "upgrade",
    "http2-settings",
];

/// Writes the one head that a stream's fields stand for. `is_whole` says that no body follows.
pub(crate) fn render(parts: &http::request::Parts, is_whole: bool) -> Result<Vec<u8>, Fault> {
    if parts.method == Method::CONNECT || parts.extensions.get::<h2::ext::Protocol>().is_some() {
        return Err(no_tunnel());
    }
    let authority = authority(parts)?;
    let target = parts.uri.path_and_query().map(PathAndQuery::as_str);
    let target = target.unwrap_or_default();
    let is_plain = target.bytes().all(|b| b.is_ascii_graphic());
    if !target.starts_with('/') || !is_plain {
        return Err(Fault::new(
            Reason::BadPath,
            "start the path with `/`, and escape what is no plain byte",
        )
        .at(Location::Path));
    }
    let mut head = Vec::with_capacity(512);
    head.extend_from_slice(parts.method.as_str().as_bytes());
    head.push(b' ');
    head.extend_from_slice(target.as_bytes());
    head.extend_from_slice(b" HTTP/1.1\r\n");
    push_field(&mut head, b"host", authority.as_bytes());
    push_fields(&mut head, &parts.headers)?;
    if !is_whole && !parts.headers.contains_key(CONTENT_LENGTH) {
        push_field(&mut head, b"transfer-encoding", b"chunked");
    }
    head.extend_from_slice(b"\r\n");
    Ok(head)
}

/// ATTACK: 064, 066 – one authority, always in its pseudo-header; a Host field may only repeat it.
fn authority(parts: &http::request::Parts) -> Result<&str, Fault> {
    if parts.uri.scheme() != Some(&Scheme::HTTPS) {
        return Err(Fault::malformed(
            "send `:scheme` https and one `:authority`",
        ));
    }
    let authority = parts.uri.authority().map(Authority::as_str);
    let authority = authority.filter(|a| a.bytes().all(|b| b.is_ascii_graphic()));
    let authority = authority.ok_or(Fault::malformed("send one plain `:authority`"))?;
    let is_same = |host: &HeaderValue| host.as_bytes() == authority.as_bytes();
    let mut hosts = parts.headers.get_all(HOST).iter();
    match (hosts.next(), hosts.next()) {
        (None, _) => Ok(authority),
        (Some(host), None) if is_same(host) => Ok(authority),
        (Some(_), _) => Err(Fault::new(
            Reason::NamesDisagree,
            "use one host: `host` and `:authority` differ",
        )),
    }
}

fn push_fields(head: &mut Vec<u8>, fields: &HeaderMap) -> Result<(), Fault> {
    for (name, value) in fields {
        if OF_CONNECTION.contains(&name.as_str()) {
            return Err(Fault::malformed("send no fields of a connection in HTTP/2"));
        }
        if name == HOST || name == COOKIE {
            continue;
        }
        let value = plain(value)?;
        if name == "te" && value != b"trailers" {
            return Err(Fault::malformed("send `te: trailers` or no `te`"));
        }
        push_field(head, name.as_str().as_bytes(), value);
    }
    // Clients cut cookies into crumbs, one field each (RFC 9113 §8.2.3).
    let crumbs = fields.get_all(COOKIE).iter().map(plain);
    let crumbs = crumbs.collect::<Result<Vec<_>, _>>()?;
    if !crumbs.is_empty() {
        push_field(head, b"cookie", &crumbs.join(&b"; "[..]));
    }
    Ok(())
}

/// A value without control bytes and without space around it (RFC 9113 §8.2.1).
fn plain(value: &HeaderValue) -> Result<&[u8], Fault> {
    let bytes = value.as_bytes();
    let is_plain = bytes.iter().all(|b| crate::head::is_value_byte(*b));
    if is_plain && bytes.trim_ascii().len() == bytes.len() {
        Ok(bytes)
    } else {
        Err(Fault::malformed(
            "send no control bytes in header values, and no space around them",
        ))
    }
}

fn no_tunnel() -> Fault {
    Fault::new(
        Reason::BadMethod,
        "ask for the host itself: CONNECT is no request inside TLS",
    )
    .at(Location::Method)
}

/// How long the body behind a rendered head is, as the gate's own parser reads it. Behind a head
/// that it will refuse nothing is sent.
pub(crate) fn framing_of(head: &[u8]) -> Framing {
    let said = Head::parse(head).ok().and_then(|head| framing(&head).ok());
    said.flatten().unwrap_or(Framing::Empty)
}

/// A stream's request from a head that goes out, with the framing of its body. No byte of the head
/// is copied: its values are parts of the one buffer that is wiped when the last of them is gone.
/// None of them enters the far end's table of HPACK.
pub(crate) fn outgoing(head: OutgoingHead) -> Option<(Request<()>, Framing)> {
    let bytes = head.into_bytes();
    let mut rest = bytes.clone();
    let line = take_line(&mut rest)?;
    let mut words = line.split(|b| *b == b' ').map(|word| bytes.slice_ref(word));
    let (method, target) = (words.next()?, words.next()?);
    let mut fields = HeaderMap::new();
    let mut host = None;
    let mut framing = Framing::Empty;
    loop {
        let line = take_line(&mut rest)?;
        if line.is_empty() {
            break;
        }
        let colon = memchr::memchr(b':', &line)?;
        let name = line.get(..colon)?;
        let value = line.slice_ref(line.get(colon + 2..)?);
        if name == b"host" {
            host = Some(value);
        } else if name == b"transfer-encoding" {
            framing = Framing::Chunked;
        } else {
            let name = HeaderName::from_bytes(name).ok()?;
            if name == CONTENT_LENGTH {
                let length = std::str::from_utf8(&value).ok()?.parse().ok()?;
                framing = if length == 0 {
                    Framing::Empty
                } else {
                    Framing::Length(length)
                };
            }
            let mut value = HeaderValue::from_maybe_shared(value).ok()?;
            value.set_sensitive(true);
            fields.append(name, value);
        }
    }
    fields.insert("te", HeaderValue::from_static("trailers"));
    let uri = Uri::builder()
        .scheme(Scheme::HTTPS)
        .authority(Authority::from_maybe_shared(host?).ok()?)
        .path_and_query(PathAndQuery::from_maybe_shared(target).ok()?)
        .build()
        .ok()?;
    let mut request = Request::new(());
    *request.method_mut() = Method::from_bytes(&method).ok()?;
    *request.uri_mut() = uri;
    *request.version_mut() = http::Version::HTTP_2;
    *request.headers_mut() = fields;
    Some((request, framing))
}

/// Cuts the first line off, without its end.
fn take_line(rest: &mut Bytes) -> Option<Bytes> {
    let end = memchr::memmem::find(rest, b"\r\n")?;
    let mut line = rest.split_to(end + 2);
    line.truncate(end);
    Some(line)
}
