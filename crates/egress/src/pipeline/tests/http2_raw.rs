// SPDX-License-Identifier: Apache-2.0
//! A client of HTTP/2 whose frames are made by hand: no library lets one say what the tests say.

use super::stage::*;
use tokio::io::AsyncWriteExt;

pub(super) const DATA: u8 = 0;
pub(super) const HEADERS: u8 = 1;
pub(super) const PRIORITY: u8 = 2;
pub(super) const RST_STREAM: u8 = 3;
pub(super) const SETTINGS: u8 = 4;
pub(super) const PUSH_PROMISE: u8 = 5;
pub(super) const PING: u8 = 6;
pub(super) const GOAWAY: u8 = 7;
pub(super) const WINDOW_UPDATE: u8 = 8;
pub(super) const CONTINUATION: u8 = 9;

pub(super) const END_STREAM: u8 = 1;
pub(super) const END_HEADERS: u8 = 4;

pub(super) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut frame = length[1..].to_vec();
    frame.extend_from_slice(&[kind, flags]);
    frame.extend_from_slice(&stream.to_be_bytes());
    frame.extend_from_slice(payload);
    frame
}

/// A field that is spelled out and enters no table.
pub(super) fn field(name: &str, value: &str) -> Vec<u8> {
    let mut block = vec![0];
    for text in [name, value] {
        assert!(text.len() < 127);
        block.push(u8::try_from(text.len()).unwrap());
        block.extend_from_slice(text.as_bytes());
    }
    block
}

pub(super) fn block(fields: &[(&str, &str)]) -> Vec<u8> {
    fields.iter().flat_map(|(n, v)| field(n, v)).collect()
}

pub(super) const GET: [(&str, &str); 4] = [
    (":method", "GET"),
    (":scheme", "https"),
    (":authority", "allow.test"),
    (":path", "/"),
];

/// The usual fields, with some of them others.
pub(super) fn get_with(changes: &[(&str, &str)]) -> Vec<u8> {
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
pub(super) struct Raw(pub(super) TlsClient);

impl Raw {
    pub(super) async fn to(stage: &Stage) -> Self {
        let stream = stage.captured(asked("allow.test", 443)).await;
        let tls = stage.tls_speaking(stream, "allow.test", &[b"h2"]).await;
        let mut raw = Self(tls.unwrap());
        raw.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await;
        raw.send(&frame(SETTINGS, 0, 0, &[])).await;
        raw
    }

    pub(super) async fn send(&mut self, bytes: &[u8]) {
        // A gate that ended the connection is seen by what it said.
        let _ = self.0.write_all(bytes).await;
        let _ = self.0.flush().await;
    }
}
