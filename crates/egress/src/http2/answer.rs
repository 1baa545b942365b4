// SPDX-License-Identifier: Apache-2.0
//! An answer's fields between the two versions, and trailers of either direction.

use crate::head::Head;
use crate::inject::push_field;
use http::header::CONTENT_LENGTH;
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};

/// A stream's answer from a head that the pipeline wrote.
pub(super) fn to_stream(status: u16, head: &Head) -> Option<Response<()>> {
    let mut response = Response::new(());
    *response.status_mut() = StatusCode::from_u16(status).ok()?;
    *response.headers_mut() = fields(head)?;
    Some(response)
}

/// The fields that may stand in a stream: what belongs to the connection stays behind.
pub(super) fn fields(head: &Head) -> Option<HeaderMap> {
    let mut fields = HeaderMap::new();
    for field in head.fields() {
        if ["connection", "transfer-encoding"]
            .iter()
            .any(|own| field.is(own))
        {
            continue;
        }
        let name = HeaderName::from_bytes(field.name.as_bytes()).ok()?;
        fields.append(name, HeaderValue::from_bytes(field.value).ok()?);
    }
    Some(fields)
}

/// The head of HTTP/1.1 for a far end's answer. Its length is told by our own framing.
pub(super) fn from_stream(parts: &http::response::Parts, is_whole: bool) -> Vec<u8> {
    let mut head = Vec::with_capacity(512);
    head.extend_from_slice(b"HTTP/1.1 ");
    head.extend_from_slice(parts.status.as_str().as_bytes());
    head.extend_from_slice(b" \r\n");
    for (name, value) in &parts.headers {
        if name != CONTENT_LENGTH && name != "connection" && name != "transfer-encoding" {
            push_field(&mut head, name.as_str().as_bytes(), value.as_bytes());
        }
    }
    if is_whole {
        push_field(&mut head, b"content-length", b"0");
    } else {
        push_field(&mut head, b"transfer-encoding", b"chunked");
    }
    head.extend_from_slice(b"\r\n");
    head
}

/// The end of a chunked body.
pub(super) fn last_chunk(trailers: Option<&HeaderMap>) -> Vec<u8> {
    let mut end = b"0\r\n".to_vec();
    for (name, value) in trailers.into_iter().flatten() {
        push_field(&mut end, name.as_str().as_bytes(), value.as_bytes());
    }
    end.extend_from_slice(b"\r\n");
    end
}
