// SPDX-License-Identifier: Apache-2.0
//! A client of HTTP/2 whose frames are made by hand: no library lets one say what the tests say.

use super::super::stage::*;
use tokio::io::AsyncWriteExt;

pub(in crate::pipeline::tests) const DATA: u8 = 0;
pub(in crate::pipeline::tests) const HEADERS: u8 = 1;
pub(in crate::pipeline::tests) const PRIORITY: u8 = 2;
pub(in crate::pipeline::tests) const RST_STREAM: u8 = 3;
pub(in crate::pipeline::tests) const SETTINGS: u8 = 4;
pub(in crate::pipeline::tests) const PUSH_PROMISE: u8 = 5;
pub(in crate::pipeline::tests) const PING: u8 = 6;
pub(in crate::pipeline::tests) const GOAWAY: u8 = 7;
pub(in crate::pipeline::tests) const WINDOW_UPDATE: u8 = 8;
pub(in crate::pipeline::tests) const CONTINUATION: u8 = 9;

pub(in crate::pipeline::tests) const END_STREAM: u8 = 1;
pub(in crate::pipeline::tests) const END_HEADERS: u8 = 4;

pub(in crate::pipeline::tests) fn frame(
    kind: u8,
    flags: u8,
    stream: u32,
    payload: &[u8],
) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut frame = length[1..].to_vec();
    frame.extend_from_slice(&[kind, flags]);
    frame.extend_from_slice(&stream.to_be_bytes());
    frame.extend_from_slice(payload);
    frame
}

/// A field that is spelled out and enters no table.
pub(in crate::pipeline::tests) fn field(name: &str, value: &str) -> Vec<u8> {
    let mut block = vec![0];
    for text in [name, value] {
        assert!(text.len() < 127);
        block.push(u8::try_from(text.len()).unwrap());
        block.extend_from_slice(text.as_bytes());
    }
    block
}

pub(in crate::pipeline::tests) fn block(fields: &[(&str, &str)]) -> Vec<u8> {
    fields.iter().flat_map(|(n, v)| field(n, v)).collect()
}

pub(in crate::pipeline::tests) const GET: [(&str, &str); 4] = [
    (":method", "GET"),
    (":scheme", "https"),
    (":authority", "allow.test"),
    (":path", "/"),
];

/// The usual fields, with some of them others.
pub(in crate::pipeline::tests) fn get_with(changes: &[(&str, &str)]) -> Vec<u8> {
    let changed = |name: &str| changes.iter().find(|(n, _)| *n == name).map(|(_, v)| *v);
    let mut fields: Vec<_> = GET
        .iter()
        .map(|(n, v)| (*n, changed(n).unwrap_or(v)))
        .collect();
    fields.retain(|(_, value)| *value != "-");
    let is_new = |(name, _): &&(&str, &str)| !GET.iter().any(|(n, _)| n == name);
    fields.extend(changes.iter().filter(is_new));
    block(&fields)
}

/// A connection on which HTTP/2 was chosen, behind preface and settings.
pub(in crate::pipeline::tests) struct Raw(pub(in crate::pipeline::tests) TlsClient);

impl Raw {
    pub(in crate::pipeline::tests) async fn to(stage: &Stage) -> Self {
        let stream = stage.captured(asked("allow.test", 443)).await;
        let tls = stage.tls_speaking(stream, "allow.test", &[b"h2"]).await;
        let mut raw = Self(tls.unwrap());
        raw.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await;
        raw.send(&frame(SETTINGS, 0, 0, &[])).await;
        raw
    }

    pub(in crate::pipeline::tests) async fn send(&mut self, bytes: &[u8]) {
        // A gate that ended the connection is seen by what it said.
        let _ = self.0.write_all(bytes).await;
        let _ = self.0.flush().await;
    }
}
