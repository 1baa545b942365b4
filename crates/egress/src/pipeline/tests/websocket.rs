// SPDX-License-Identifier: Apache-2.0
//! WebSockets through the whole pipeline: a raw client, and a raw far end over plain HTTP.

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
async fn a_websocket_is_judged_opened_by_us_and_ends_with_one_report() {
    // ATTACK: 062, 097
    let mut socket = socket_with(Limits::default(), "Authorization: mine\r\n", "X-A: 1\r\n").await;
    assert!(socket.stage.notary.asked.lock().unwrap()[0].websocket);
    let asked = socket.asked.to_ascii_lowercase();
    assert!(asked.starts_with("get /socket http/1.1\r\nhost: plain.test\r\n"));
    assert_eq!(asked.matches("authorization").count(), 1, "{asked}");
    assert!(
        socket
            .asked
            .contains(&format!("authorization: Bearer {SECRET}\r\n"))
    );
    for line in [
        "\r\nupgrade: websocket\r\n",
        "\r\nconnection: Upgrade\r\n",
        "\r\nsec-websocket-version: 13\r\n",
        "\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n",
    ] {
        assert_eq!(socket.asked.matches(line).count(), 1, "{}", socket.asked);
    }
    assert!(!asked.contains("extensions"), "{asked}");
    assert!(
        socket
            .told
            .contains(&format!("\r\nsec-websocket-accept: {ACCEPT}\r\n"))
    );
    assert!(socket.told.contains("\r\nX-A: 1\r\n"));

    let (client, far) = (&mut socket.client, &mut socket.far);
    client.write_all(&masked(TEXT, "hello")).await.unwrap();
    let (first, is_masked, payload) = heard(far).await.unwrap();
    assert_eq!(
        (first, is_masked, payload.as_slice()),
        (TEXT, true, &b"hello"[..])
    );
    far.write_all(&frame(BINARY, [0xff; 300])).await.unwrap();
    let (first, is_masked, payload) = heard(client).await.unwrap();
    assert_eq!((first, is_masked, payload.len()), (BINARY, false, 300));
    client.write_all(&masked(PING, "p")).await.unwrap();
    assert_eq!(heard(far).await.unwrap().0, PING);
    client
        .write_all(&masked(CLOSE, b"\x0b\xb8bye"))
        .await
        .unwrap();
    assert_eq!(heard(far).await.unwrap().2, b"\x0b\xb8bye");
    // It is not over before both have said so.
    far.write_all(&frame(TEXT, "last")).await.unwrap();
    far.write_all(&frame(CLOSE, b"\x0b\xb8")).await.unwrap();
    assert_eq!(message(client).await.1, b"last");
    assert_eq!(close_code(client).await, 3000);
    assert_eq!(client.read(&mut [0]).await.unwrap(), 0);
    let outcome = socket.outcome().await;
    assert_eq!(outcome.end, End::Completed { status: 101 });
    assert_eq!(
        (outcome.sent_bytes, outcome.received_bytes),
        (5 + 1 + 5, 300 + 4 + 2)
    );
    assert_eq!(socket.stage.notary.outcomes.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn a_far_end_that_does_not_shake_hands_gets_no_frame_and_the_client_a_refusal() {
    // ATTACK: 060
    let line = format!("Sec-WebSocket-Accept: {ACCEPT}");
    let good = switched("");
    for answer in [
        good.replace(&line, "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOO="),
        good.replace(&line, "X: 1"),
        good.replace(&line, &format!("{line}\r\n{line}")),
        good.replace("HTTP/1.1 101", "HTTP/1.0 101"),
        good.replace("Upgrade: websocket", "Upgrade: h2c"),
        good.replace("Upgrade: websocket", "X: 1"),
        good.replace("Connection: Upgrade", "Connection: keep-alive"),
        switched("Sec-WebSocket-Extensions: permessage-deflate\r\n"),
        switched("Sec-WebSocket-Protocol: unasked\r\n"),
        switched(&format!("Sec-WebSocket-Protocol: {SECRET}\r\n")),
        switched("Sec-WebSocket-Protocol: a\r\nSec-WebSocket-Protocol: a\r\n"),
        switched("Content-Length: 5\r\n"),
        switched("Transfer-Encoding: chunked\r\n"),
    ] {
        let stage = stage(Notary::bearer(), fixed(OK)).await;
        let offer = handshake("Sec-WebSocket-Protocol: a, b\r\n");
        let request = [offer.into_bytes(), masked(TEXT, "early")].concat();
        let (mut client, mut far, _) = asking(&stage, request).await;
        far.write_all(answer.as_bytes()).await.unwrap();
        let said = hear(&mut client).await;
        assert!(said.starts_with("HTTP/1.1 502 "), "{answer}: {said}");
        assert!(said.contains("upstream_response"), "{answer}: {said}");
        assert!(!said.contains(SECRET), "{said}");
        assert_eq!(hear(&mut far).await, "", "{answer}");
    }
}

#[tokio::test]
async fn an_ordinary_answer_to_a_handshake_is_one_and_the_next_request_is_judged() {
    // ATTACK: 060
    let stage = stage(Notary::bearer(), fixed(OK)).await;
    let next = "GET /second HTTP/1.1\r\nHost: plain.test\r\n\r\n";
    let request = format!("{}{next}", handshake(""));
    let (mut client, mut far, _) = asking(&stage, &request).await;
    assert_eq!(
        hear(&mut far).await,
        "",
        "nothing goes out before the answer"
    );
    far.write_all(OK.as_bytes()).await.unwrap();
    let second = head(&mut far).await;
    assert!(second.starts_with("GET /second HTTP/1.1\r\n"), "{second}");
    assert!(!second.contains("upgrade"), "{second}");
    far.write_all(OK.as_bytes()).await.unwrap();
    assert_eq!(
        hear(&mut client).await.matches("HTTP/1.1 200 OK").count(),
        2
    );
    let asked = stage.notary.asked.lock().unwrap();
    assert_eq!((asked.len(), asked[1].websocket), (2, false));
}

#[tokio::test]
async fn a_websocket_that_is_not_granted_or_not_well_formed_goes_nowhere() {
    // ATTACK: 059, 062
    let refusing = Notary::new(|facts| match facts.websocket {
        true => Err(no(Reason::WebsocketNotGranted)),
        false => Ok(Yes::default()),
    });
    let stage = stage(refusing, fixed(OK)).await;
    let mut client = stage.captured(asked("plain.test", 80)).await;
    let said = talk(&mut client, handshake("").as_bytes()).await;
    assert!(said.starts_with("HTTP/1.1 403 ") && said.contains("websocket_not_granted"));
    let get = b"GET / HTTP/1.1\r\nHost: plain.test\r\n\r\n";
    assert!(
        talk(&mut client, get).await.ends_with("ok"),
        "the connection goes on"
    );
    let asked_once = stage.notary.asked.lock().unwrap().len();
    for (from, to) in [
        ("GET /socket", "POST /socket"),
        ("Upgrade: websocket", "Upgrade: websocket, h2c"),
        ("Version: 13", "Version: 12"),
        ("Connection: Upgrade", "Connection: keep-alive"),
        (
            "Connection: Upgrade",
            "Content-Length: 1\r\nConnection: Upgrade",
        ),
    ] {
        let mut client = stage.captured(asked("plain.test", 80)).await;
        let request = handshake("").replace(from, to);
        let said = talk(&mut client, request.as_bytes()).await;
        assert!(said.starts_with("HTTP/1.1 400 "), "{to}: {said}");
    }
    assert_eq!(stage.notary.asked.lock().unwrap().len(), asked_once);
}

#[tokio::test]
async fn what_comes_early_is_frames_once_the_far_end_agreed() {
    // ATTACK: 060
    let stage = stage(Notary::yes(), fixed(OK)).await;
    let request = [handshake("").into_bytes(), masked(TEXT, "early")].concat();
    let (_client, mut far, _) = asking(&stage, request).await;
    assert_eq!(hear(&mut far).await, "");
    let answer = [switched("").into_bytes(), frame(TEXT, "at once")].concat();
    far.write_all(&answer).await.unwrap();
    assert_eq!(message(&mut far).await, (TEXT, b"early".to_vec()));
}

#[tokio::test]
async fn the_answer_names_a_subprotocol_that_was_offered_and_is_scrubbed() {
    let offer = "Sec-WebSocket-Protocol: chat, other\r\n";
    let answer = format!(
        "Sec-WebSocket-Protocol: other\r\nX-Echo: {SECRET}\r\nSet-Cookie: a={SECRET}\r\n\
         Sec-WebSocket-Version: 13\r\n"
    );
    let socket = socket_with(Limits::default(), offer, &answer).await;
    assert!(
        socket
            .asked
            .contains("\r\nsec-websocket-protocol: chat, other\r\n")
    );
    assert!(
        socket
            .told
            .contains("\r\nsec-websocket-protocol: other\r\n")
    );
    let told = socket.told.to_ascii_lowercase();
    assert!(
        !told.contains("cookie") && !told.contains("version"),
        "{told}"
    );
    assert!(!socket.told.contains(SECRET), "{}", socket.told);
    assert!(
        socket
            .told
            .contains(&format!("X-Echo: {}\r\n", placeholder().as_str()))
    );
}

#[tokio::test]
async fn a_secret_in_a_text_is_replaced_however_it_is_cut() {
    // ATTACK: 105
    let shown = placeholder();
    for at in [0, 1, 11, 12, SECRET.len() - 1, SECRET.len()] {
        let mut socket = socket().await;
        let (start, end) = SECRET.split_at(at);
        let parts = [
            frame(0x01, format!("see {start}")),
            frame(PING, "between"),
            frame(0x00, ""),
            frame(0x80, format!("{end}!")),
            frame(TEXT, format!("{SECRET} again")),
        ];
        for part in parts {
            socket.far.write_all(&part).await.unwrap();
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        let (mut text, mut pings) = (Vec::new(), 0);
        loop {
            let (first, _, payload) = heard(&mut socket.client).await.unwrap();
            match first {
                PING => pings += 1,
                _ => text.extend(payload),
            }
            if first & 0x80 != 0 && first != PING {
                break;
            }
        }
        assert_eq!(pings, 1);
        let shown = shown.as_str();
        assert_eq!(
            String::from_utf8(text).unwrap(),
            format!("see {shown}!"),
            "cut at {at}"
        );
        let again = message(&mut socket.client).await.1;
        assert_eq!(again, format!("{shown} again").as_bytes());
        drop(socket.far);
        drop(socket.client);
        let outcomes = async {
            while socket.stage.notary.outcomes.lock().unwrap().is_empty() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(5), outcomes)
            .await
            .unwrap();
        let outcome = socket.stage.notary.outcomes.lock().unwrap()[0].clone();
        assert_eq!(outcome.reflected, 2);
        assert_eq!(outcome.end, End::Aborted { status: Some(101) });
    }
}

#[tokio::test]
async fn a_secret_where_nothing_can_stand_in_its_place_ends_the_websocket_with_1008() {
    // ATTACK: 105
    let (half, rest) = SECRET.split_at(15);
    for frames in [
        frame(BINARY, format!("\0\0{SECRET}\0")),
        [
            frame(0x02, format!("x{half}")),
            frame(0x80, format!("{rest}y")),
        ]
        .concat(),
        frame(PING, SECRET),
        frame(0x8a, SECRET),
    ] {
        let mut socket = socket().await;
        socket.far.write_all(&frames).await.unwrap();
        let mut said = Vec::new();
        let code = loop {
            let (first, _, payload) = heard(&mut socket.client).await.unwrap();
            if first == CLOSE {
                break u16::from_be_bytes([payload[0], payload[1]]);
            }
            said.extend(payload);
        };
        assert_eq!(code, 1008);
        let passed = memchr::memmem::find(SECRET.as_bytes(), said.get(1..).unwrap_or_default());
        assert!(said.len() <= 1 || passed.is_none(), "{said:?}");
        assert_eq!(close_code(&mut socket.far).await, 1008);
        assert_eq!(socket.refused().await, Reason::UpstreamResponse);
        assert_eq!(socket.outcome().await.reflected, 1);
    }
    // A close frame's code passes, its reason does not.
    let mut socket = socket().await;
    let close = [&b"\x0b\xb8"[..], SECRET.as_bytes()].concat();
    socket.far.write_all(&frame(CLOSE, close)).await.unwrap();
    assert_eq!(heard(&mut socket.client).await.unwrap().2, b"\x0b\xb8");
}

#[tokio::test]
async fn a_placeholder_in_a_frame_stays_one_and_is_counted() {
    // ATTACK: 063, 091
    let mut socket = socket().await;
    let placeholder = placeholder();
    let (start, end) = placeholder.as_str().split_at(20);
    let parts = [
        masked(0x01, start),
        masked(PING, "between"),
        masked(0x80, end),
        masked(BINARY, placeholder.as_str()),
        masked(PING, placeholder.as_str()),
    ];
    for part in &parts {
        socket.client.write_all(part).await.unwrap();
    }
    let mut text = Vec::new();
    for _ in 0..parts.len() {
        let (first, is_masked, payload) = heard(&mut socket.far).await.unwrap();
        assert!(is_masked);
        if first != PING {
            text.extend(payload);
        }
    }
    assert_eq!(
        String::from_utf8(text).unwrap(),
        placeholder.as_str().repeat(2)
    );
    drop(socket.client);
    while socket.stage.notary.outcomes.lock().unwrap().is_empty() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(socket.stage.notary.outcomes.lock().unwrap()[0].carried, 3);
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

#[tokio::test]
async fn a_tripwire_in_pieces_over_messages_ends_a_websocket_with_1008() {
    let mut socket = socket().await;
    let value = tripwire().value.into_bytes();
    // No message holds enough of it to be told.
    for part in [&value[..19], &value[19..30], &value[30..]] {
        let message = masked(TEXT, part);
        // Ended in the middle or not: how is what counts.
        let _written = socket.client.write_all(&message).await;
    }
    assert_eq!(close_code(&mut socket.client).await, 1008);
    assert_eq!(socket.refused().await, Reason::Tripwire);
    assert_eq!(message(&mut socket.far).await.1, value[..19]);
    assert_eq!(close_code(&mut socket.far).await, 1001);
}
