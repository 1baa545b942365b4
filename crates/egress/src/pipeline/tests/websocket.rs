// SPDX-License-Identifier: Apache-2.0
//! WebSockets through the whole pipeline: a raw client, and a raw far end over plain HTTP.

mod handshake;
mod searched;

use super::stage::*;
use crate::Limits;
use std::io::ErrorKind;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use torno_notary_protocol::gate::{End, Outcome};
use torno_policy::Reason;
use torno_policy::names::CredentialName;

/// RFC 6455 §1.3.
const ACCEPT: &str = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";
const MASK: [u8; 4] = [1, 2, 3, 4];
pub(super) const TEXT: u8 = 0x81;
pub(super) const BINARY: u8 = 0x82;
pub(super) const CLOSE: u8 = 0x88;
pub(super) const PING: u8 = 0x89;

fn handshake(more: &str) -> String {
    format!(
        "GET /socket HTTP/1.1\r\nHost: plain.test\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
         Sec-WebSocket-Extensions: permessage-deflate\r\n{more}\r\n"
    )
}

fn switched(more: &str) -> String {
    format!(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Accept: {ACCEPT}\r\n{more}\r\n"
    )
}

/// A frame of the far end.
pub(super) fn frame(first: u8, payload: impl AsRef<[u8]>) -> Vec<u8> {
    let payload = payload.as_ref();
    let mut out = vec![first];
    match u8::try_from(payload.len()) {
        Ok(short @ 0..126) => out.push(short),
        _ if payload.len() > 0xffff => {
            out.push(127);
            out.extend((payload.len() as u64).to_be_bytes());
        }
        _ => {
            out.push(126);
            out.extend(u16::try_from(payload.len()).unwrap().to_be_bytes());
        }
    }
    out.extend_from_slice(payload);
    out
}

/// A frame of the client.
pub(super) fn masked(first: u8, payload: impl AsRef<[u8]>) -> Vec<u8> {
    let payload = payload.as_ref();
    let mut out = frame(first, payload);
    out.truncate(out.len() - payload.len());
    out[1] |= 0x80;
    out.extend(MASK);
    out.extend(payload.iter().zip(MASK.iter().cycle()).map(|(b, m)| b ^ m));
    out
}

/// One frame: its first byte, whether it is masked, its payload.
pub(super) async fn heard<S: AsyncRead + Unpin>(
    stream: &mut S,
) -> std::io::Result<(u8, bool, Vec<u8>)> {
    let reading = async {
        let (first, second) = (stream.read_u8().await?, stream.read_u8().await?);
        let length = match second & 127 {
            126 => usize::from(stream.read_u16().await?),
            127 => usize::try_from(stream.read_u64().await?).unwrap(),
            short => usize::from(short),
        };
        let mut mask = [0; 4];
        if second & 128 != 0 {
            stream.read_exact(&mut mask).await?;
        }
        let mut payload = vec![0; length];
        stream.read_exact(&mut payload).await?;
        let key = mask.iter().cycle();
        payload
            .iter_mut()
            .zip(key)
            .for_each(|(byte, key)| *byte ^= key);
        Ok((first, second & 128 != 0, payload))
    };
    let reading = tokio::time::timeout(Duration::from_secs(5), reading);
    reading.await.expect("nothing is heard")
}

/// One whole message, its fragments together.
pub(super) async fn message<S: AsyncRead + Unpin>(stream: &mut S) -> (u8, Vec<u8>) {
    let (first, _, mut payload) = heard(stream).await.unwrap();
    let mut is_final = first & 0x80 != 0;
    while !is_final {
        let (next, _, more) = heard(stream).await.unwrap();
        assert_eq!(next & 15, 0);
        payload.extend(more);
        is_final = next & 0x80 != 0;
    }
    (first | 0x80, payload)
}

pub(super) async fn close_code<S: AsyncRead + Unpin>(stream: &mut S) -> u16 {
    let (first, _, payload) = heard(stream).await.unwrap();
    assert_eq!(first, CLOSE, "{payload:?}");
    u16::from_be_bytes([payload[0], payload[1]])
}

async fn head<S: AsyncRead + Unpin>(stream: &mut S) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let byte = tokio::time::timeout(Duration::from_secs(5), stream.read_u8());
        head.push(byte.await.unwrap().unwrap());
    }
    String::from_utf8(head).unwrap()
}

/// Both ends of a WebSocket, with a pipeline between.
pub(super) struct Socket {
    pub(super) stage: Stage,
    pub(super) client: TcpStream,
    pub(super) far: TcpStream,
    /// The head that the far end got, and the one that the client was told.
    pub(super) asked: String,
    pub(super) told: String,
}

/// Sends a handshake, and gives the far end's connection with the head that it got.
async fn asking(stage: &Stage, request: impl AsRef<[u8]>) -> (TcpStream, TcpStream, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let hosts = &stage.dialer.hosts;
    hosts
        .lock()
        .unwrap()
        .insert("plain.test".to_owned(), address);
    let mut client = stage.captured(asked("plain.test", 80)).await;
    client.write_all(request.as_ref()).await.unwrap();
    let (mut far, _) = listener.accept().await.unwrap();
    let asked = head(&mut far).await;
    (client, far, asked)
}

async fn socket_with(limits: Limits, request: &str, answer: &str) -> Socket {
    let stage = stage_with(Notary::bearer(), fixed(OK), limits).await;
    open(stage, request, answer).await
}

/// Opens one on a stage.
pub(super) async fn open(stage: Stage, request: &str, answer: &str) -> Socket {
    let (mut client, mut far, asked) = asking(&stage, &handshake(request)).await;
    far.write_all(switched(answer).as_bytes()).await.unwrap();
    let told = head(&mut client).await;
    assert!(told.starts_with("HTTP/1.1 101 "), "{told}");
    Socket {
        stage,
        client,
        far,
        asked,
        told,
    }
}

pub(super) async fn socket() -> Socket {
    socket_with(Limits::default(), "", "").await
}

impl Socket {
    pub(super) async fn outcome(&self) -> Outcome {
        for _ in 0..500 {
            if let Some(outcome) = self.stage.notary.outcomes.lock().unwrap().first() {
                return outcome.clone();
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("it did not end");
    }

    pub(super) async fn refused(&self) -> Reason {
        match self.outcome().await.end {
            End::Refused(refusal) => refusal.reason,
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn who_breaks_the_protocol_is_told_so_and_the_other_side_that_it_is_over() {
    // ATTACK: 063
    for (frames, code) in [
        (frame(TEXT, "not masked"), 1002),
        (masked(0xc1, "compressed"), 1002),
        (masked(0x83, "unknown"), 1002),
        (masked(0x80, "goes on with nothing"), 1002),
        (masked(TEXT, b"\xff"), 1007),
        (masked(CLOSE, b"\x03\xed"), 1002),
    ] {
        let mut socket = socket().await;
        let before = masked(TEXT, "good");
        let both = [before, frames].concat();
        socket.client.write_all(&both).await.unwrap();
        assert_eq!(close_code(&mut socket.client).await, code);
        assert_eq!(message(&mut socket.far).await.1, b"good");
        assert_eq!(close_code(&mut socket.far).await, 1001);
        assert_eq!(socket.refused().await, Reason::MalformedRequest);
    }
    for (frames, code) in [
        (masked(TEXT, "masked"), 1002),
        (frame(0xc1, "compressed"), 1002),
        (frame(TEXT, b"\xed\xa0\x80"), 1007),
    ] {
        let mut socket = socket().await;
        socket.far.write_all(&frames).await.unwrap();
        assert_eq!(close_code(&mut socket.far).await, code);
        assert_eq!(close_code(&mut socket.client).await, 1011);
        assert_eq!(socket.refused().await, Reason::UpstreamResponse);
    }
}

#[tokio::test]
async fn the_egress_budget_ends_a_websocket_with_1008() {
    let limits = Limits {
        egress_bytes_max: 1000,
        ..Limits::default()
    };
    let mut socket = socket_with(limits, "", "").await;
    let mut frames = Vec::new();
    for _ in 0..100 {
        frames.extend(masked(TEXT, "0123456789"));
    }
    socket.client.write_all(&frames).await.unwrap();
    assert_eq!(close_code(&mut socket.client).await, 1008);
    assert_eq!(socket.refused().await, Reason::LimitReached);
    let mut got = Vec::new();
    let reading = socket.far.read_to_end(&mut got);
    let _ended = tokio::time::timeout(Duration::from_secs(5), reading)
        .await
        .unwrap();
    assert!(socket.asked.len() + got.len() <= 1000 + 8, "{}", got.len());
}

#[tokio::test]
async fn the_ingress_budget_ends_a_websocket_with_1008() {
    let limits = Limits {
        ingress_bytes_max: 1000,
        ..Limits::default()
    };
    let mut socket = socket_with(limits, "", "").await;
    let mut frames = Vec::new();
    for _ in 0..100 {
        frames.extend(frame(TEXT, "0123456789"));
    }
    socket.far.write_all(&frames).await.unwrap();
    let mut came = socket.told.len();
    let code = loop {
        let (first, _, payload) = heard(&mut socket.client).await.unwrap();
        if first == CLOSE {
            break u16::from_be_bytes([payload[0], payload[1]]);
        }
        came += payload.len() + 2;
    };
    assert_eq!(code, 1008);
    assert!(came <= 1000, "{came}");
    assert_eq!(socket.refused().await, Reason::LimitReached);
}

#[tokio::test]
async fn a_revocation_cuts_an_open_websocket_at_once() {
    // ATTACK: 101
    for name in [Some(CredentialName::parse("c1").unwrap()), None] {
        let mut socket = socket().await;
        let other = CredentialName::parse("c2").unwrap();
        socket.stage.pipeline.revoke(Some(&other));
        socket.client.write_all(&masked(TEXT, "x")).await.unwrap();
        assert_eq!(message(&mut socket.far).await.1, b"x");
        let started = tokio::time::Instant::now();
        socket.stage.pipeline.revoke(name.as_ref());
        // Nothing that comes after it leaves.
        socket.client.write_all(&masked(TEXT, "late")).await.ok();
        assert_eq!(close_code(&mut socket.client).await, 1008);
        let end = socket.client.read_u8().await.unwrap_err();
        assert_eq!(end.kind(), ErrorKind::ConnectionReset);
        let end = socket.far.read_u8().await.unwrap_err();
        assert_eq!(end.kind(), ErrorKind::ConnectionReset);
        assert!(started.elapsed() < Duration::from_secs(1));
        assert_eq!(
            socket.outcome().await.end,
            End::Aborted { status: Some(101) }
        );
    }
}

#[tokio::test]
async fn silence_of_both_sides_ends_it_and_of_one_does_not() {
    let limits = Limits {
        body_wait: Duration::from_millis(300),
        ..Limits::default()
    };
    let mut socket = socket_with(limits, "", "").await;
    for _ in 0..8 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        socket.far.write_all(&frame(TEXT, "tick")).await.unwrap();
        assert_eq!(message(&mut socket.client).await.1, b"tick");
    }
    assert_eq!(close_code(&mut socket.client).await, 1001);
    assert_eq!(close_code(&mut socket.far).await, 1001);
    assert_eq!(
        socket.outcome().await.end,
        End::Aborted { status: Some(101) }
    );
}

#[tokio::test]
async fn large_messages_stream_both_ways() {
    let socket = socket().await;
    let text = "0123456789abcdef".repeat(1 << 16);
    let mut large = vec![TEXT, 127];
    large.extend((text.len() as u64).to_be_bytes());
    large.extend_from_slice(text.as_bytes());
    let mut sent = vec![BINARY, 0xff];
    sent.extend((text.len() as u64).to_be_bytes());
    sent.extend([0; 4]);
    sent.extend_from_slice(text.as_bytes());
    let (mut far_read, mut far_write) = socket.far.into_split();
    let (mut client_read, mut client_write) = socket.client.into_split();
    let ((), (), up, down) = tokio::join!(
        async { far_write.write_all(&large).await.unwrap() },
        async { client_write.write_all(&sent).await.unwrap() },
        message(&mut far_read),
        message(&mut client_read),
    );
    assert!(up == (BINARY, text.clone().into_bytes()));
    assert!(down == (TEXT, text.into_bytes()));
}
