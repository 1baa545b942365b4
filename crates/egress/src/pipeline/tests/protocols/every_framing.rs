// SPDX-License-Identifier: Apache-2.0
//! Framing and upgrades, classes C to E, on each entry: what is odd in HTTP/1.1 is refused on all
//! five ways in, and what says the same in fields of HTTP/2 is reset on both.

use super::every_entry::{WAYS, Way, fields_sent, reason};
use super::http2_frames::raw::Raw;
use super::stage::*;

/// Number in docs/attacks.md, and the bytes of the request; `{url}` is absolute where that is the
/// entry, `@` the usual first lines, `~` the one field that ends the connection.
const ODD: &[(&str, &str)] = &[
    (
        "038",
        "POST http://other.test/a HTTP/1.1\r\nHost: {host}\r\n~\r\n",
    ),
    (
        "038",
        "POST http://{host}:1/a HTTP/1.1\r\nHost: {host}\r\n~\r\n",
    ),
    ("038", "POST http:/a HTTP/1.1\r\nHost: {host}\r\n~\r\n"),
    ("043", "\r\n@~\r\n"),
    ("043", " @~\r\n"),
    (
        "047",
        "@~Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    ),
    (
        "047",
        "@~Transfer-Encoding: chunked\r\nContent-Length: 0\r\n\r\n0\r\n\r\n",
    ),
    (
        "047",
        "@~Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
    ),
    ("047", "@~Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n"),
    (
        "049",
        "@~Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
    ),
    (
        "049",
        "@~Content-Length: 0\r\nContent-Length: 5\r\n\r\nhello",
    ),
    ("049", "@~Content-Length: 5, 5\r\n\r\nhello"),
    ("049", "@~Content-Length: +5\r\n\r\nhello"),
    ("049", "@~Content-Length: 5 5\r\n\r\nhello"),
    ("049", "@~Content-Length:\r\n\r\n"),
    ("051", "@~X-A: b\nX-B: c\r\n\r\n"),
    ("053", "@~X-A: b\r\n c\r\n\r\n"),
    ("053", "@~X-A: b\rc\r\n\r\n"),
    ("053", "@~X-A: b\0c\r\n\r\n"),
    ("053", "@~X-A : b\r\n\r\n"),
    ("053", "@~: b\r\n\r\n"),
    ("053", "@~X-A\r\n\r\n"),
    (
        "055",
        "POST {url} HTTP/1.0\r\nHost: {host}\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    ),
    ("055", "POST {url} HTTP/1.2\r\nHost: {host}\r\n~\r\n"),
    ("055", "POST {url} HTTP/2.0\r\nHost: {host}\r\n~\r\n"),
    ("055", "POST {url} http/1.1\r\nHost: {host}\r\n~\r\n"),
    ("055", "POST {url}\r\nHost: {host}\r\n~\r\n"),
    ("059", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
    ("070", "SSH-2.0-x\r\n\r\n"),
    ("070", "\x05\x01\0\r\n\r\n"),
];

/// By reason, or by the end of what was no request at all.
const REFUSED: &[&str] = &[
    "malformed_request",
    "unknown_protocol",
    "names_disagree",
    "bad_host",
    "bad_path",
    "",
];

/// The same in HTTP/2: fields beside the usual ones.
const FIELDS: &[(&str, &[(&str, &str)])] = &[
    ("047", &[("transfer-encoding", "chunked")]),
    ("049", &[("content-length", "0"), ("content-length", "5")]),
    ("049", &[("content-length", "0, 0")]),
    ("049", &[("content-length", "+0")]),
    ("049", &[("content-length", "5")]),
    ("051", &[("x-a", "b\nx-b: c")]),
    ("053", &[("x-a", "b\r\n c")]),
    ("053", &[("x-a", "b\rc")]),
    ("053", &[("x-a", "b\0c")]),
    ("053", &[("x-a ", "b")]),
    ("053", &[("", "b")]),
    ("053", &[("x-a: b\r\nx-b", "c")]),
    ("059", &[("upgrade", "h2c")]),
    ("059", &[("connection", "upgrade")]),
    ("062", &[("upgrade", "websocket")]),
];

async fn said(stage: &Stage, way: Way, text: &str) -> String {
    let stream = way.arrive(stage).await;
    let host = way.host();
    let url = if way == Way::Absolute {
        format!("http://{host}/a")
    } else {
        "/a".to_owned()
    };
    let request = text
        .replace('@', "POST {url} HTTP/1.1\r\nHost: {host}\r\n")
        .replace('~', "Connection: close\r\n")
        .replace("{url}", &url)
        .replace("{host}", host);
    let answer = if way.is_tls() {
        talk(&mut stage.tls(stream, host).await, request.as_bytes()).await
    } else {
        let mut stream = stream;
        talk(&mut stream, request.as_bytes()).await
    };
    reason(answer.as_bytes())
}

// ATTACK: 038, 043, 047, 049, 051, 053, 055, 059, 062, 070
#[tokio::test]
async fn odd_framing_ends_alike_on_every_entry_and_in_both_versions() {
    let stage = stage(Notary::yes(), fixed(OK)).await;
    let mut wrong = Vec::new();
    for way in WAYS {
        if way.is_http2() {
            for (attack, more) in FIELDS {
                let stream = way.arrive(&stage).await;
                let tls = stage.tls_speaking(stream, "allow.test", &[b"h2"]).await;
                let mut fields = vec![
                    (":method", "POST"),
                    (":scheme", "https"),
                    (":authority", "allow.test"),
                    (":path", "/a"),
                ];
                fields.extend_from_slice(more);
                let came = fields_sent(Raw(tls.unwrap()), &fields).await;
                if came != "reset" {
                    wrong.push(format!("{attack} {way:?} {more:?}: {came}"));
                }
            }
            continue;
        }
        for (attack, text) in ODD {
            let came = said(&stage, way, text).await;
            if !REFUSED.contains(&came.as_str()) {
                wrong.push(format!("{attack} {way:?} {text:?}: {came}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(stage.notary.asked.lock().unwrap().is_empty());
    assert_eq!(stage.origin.count(), 0);
    // In HTTP/1.1 an offer to upgrade is dropped, and the request goes on without it.
    for way in WAYS.into_iter().filter(|way| !way.is_http2()) {
        let offer = "@~Upgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\nContent-Length: 0\r\n\r\n";
        assert_eq!(said(&stage, way, offer).await, "passed", "{way:?}");
    }
    for request in stage.origin.requests.lock().unwrap().iter() {
        let request = String::from_utf8_lossy(request).to_ascii_lowercase();
        assert!(
            !request.contains("upgrade") && !request.contains("http2-"),
            "{request}"
        );
    }
}
