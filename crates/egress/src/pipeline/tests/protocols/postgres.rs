// SPDX-License-Identifier: Apache-2.0
//! Connections to a database: a client that logs in by the placeholder, and far ends that are what
//! they should be, or not.

use super::stage::*;
use crate::postgres::Salted;
use crate::postgres::frame::{put, take};
use bytes::BytesMut;
use data_encoding::BASE64;
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use torno_policy::Reason;
use torno_policy::binding::Slot;
use torno_policy::names::Scheme;
use torno_policy::postgres::Access;

/// What a far end does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Far {
    NoTls,
    Unverified,
    Trusting,
    Md5,
    Impostor,
    /// It opens a session and says nothing more.
    Silent,
    /// It takes its time before it says that it speaks TLS.
    Slow,
    Good,
}

const SALT: &str = "W22ZaJ0SNY7soEsUEjb6gQ==";

pub(super) async fn message<S: AsyncRead + Unpin>(
    io: &mut S,
    read: &mut BytesMut,
) -> Option<(u8, Vec<u8>)> {
    loop {
        if let Some(frame) = take(read, 1 << 20).unwrap() {
            return Some((frame.kind, frame.body.to_vec()));
        }
        if io.read_buf(read).await.unwrap_or(0) == 0 {
            return None;
        }
    }
}

pub(super) fn messages(all: &[(u8, &[u8])]) -> Vec<u8> {
    let mut out = Vec::new();
    all.iter()
        .for_each(|(kind, body)| put(*kind, body, &mut out));
    out
}

/// Proof and signature of one login, as both ends compute them.
fn signed(password: &str, bare: &str, server: &str, last: &str) -> ([u8; 32], [u8; 32]) {
    let salt = BASE64.decode(SALT.as_bytes()).unwrap();
    let salt = match server.split(",s=").nth(1).and_then(|s| s.split(',').next()) {
        Some(said) => BASE64.decode(said.as_bytes()).unwrap(),
        None => salt,
    };
    let salted = Salted::new(password.as_bytes(), &salt, 4096);
    let text = format!("{bare},{server},{last}");
    (
        salted.proof(text.as_bytes()),
        salted.server_signature(text.as_bytes()),
    )
}

/// Everything that a far end was told, as text.
pub(super) type Told = Arc<Mutex<Vec<String>>>;

pub(super) async fn far_end(kind: Far) -> (Origin, Identity, Told) {
    let identity = identity(&["allow.test", "other.test"]);
    let other = super::stage::identity(&["wrong.test"]);
    let shown = if kind == Far::Unverified {
        &other
    } else {
        &identity
    };
    let acceptor = acceptor(shown, &[]);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let origin = Origin {
        address: listener.local_addr().unwrap(),
        requests: Arc::default(),
        connections: Arc::default(),
    };
    let told = Told::default();
    let heard = told.clone();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (acceptor, heard) = (acceptor.clone(), heard.clone());
            tokio::spawn(async move { answer(stream, kind, acceptor, heard).await });
        }
    });
    (origin, identity, told)
}

async fn answer(mut tcp: TcpStream, kind: Far, acceptor: tokio_rustls::TlsAcceptor, told: Told) {
    let mut request = [0; 8];
    tcp.read_exact(&mut request).await.unwrap();
    assert_eq!(request, *b"\0\0\0\x08\x04\xd2\x16\x2f");
    if kind == Far::Slow {
        tokio::time::sleep(std::time::Duration::from_millis(700)).await;
    }
    let word: &[u8] = if kind == Far::NoTls { b"N" } else { b"S" };
    tcp.write_all(word).await.unwrap();
    if kind == Far::NoTls {
        return;
    }
    let Ok(mut io) = acceptor.accept(tcp).await else {
        return;
    };
    let length = io.read_u32().await.unwrap();
    let mut start = vec![0; length as usize - 4];
    io.read_exact(&mut start).await.unwrap();
    told.lock()
        .unwrap()
        .push(String::from_utf8_lossy(&start[4..]).replace('\0', " "));
    let first: &[u8] = match kind {
        Far::Trusting => b"\0\0\0\0",
        Far::Md5 => b"\0\0\0\x05salt",
        _ => b"\0\0\0\x0aSCRAM-SHA-256\0\0",
    };
    io.write_all(&messages(&[(b'R', first)])).await.unwrap();
    let mut read = BytesMut::new();
    let Some((_, initial)) = message(&mut io, &mut read).await else {
        return;
    };
    let initial = String::from_utf8_lossy(&initial).into_owned();
    let bare = initial.split("y,,").nth(1).unwrap();
    let nonce = bare.strip_prefix("n=,r=").unwrap();
    let server = format!("r={nonce}added,s={SALT},i=4096");
    let body = [&b"\0\0\0\x0b"[..], server.as_bytes()].concat();
    io.write_all(&messages(&[(b'R', &body)])).await.unwrap();
    let (_, last) = message(&mut io, &mut read).await.unwrap();
    let last = String::from_utf8(last).unwrap();
    let (without, proof) = last.split_once(",p=").unwrap();
    let (expected, signature) = signed(SECRET, bare, &server, without);
    assert_eq!(BASE64.encode(&expected), proof);
    let known = if kind == Far::Impostor {
        [7; 32]
    } else {
        signature
    };
    let end = [&b"\0\0\0\x0cv="[..], BASE64.encode(&known).as_bytes()].concat();
    let ready = messages(&[
        (b'R', &end),
        (b'R', b"\0\0\0\0"),
        (b'S', b"client_encoding\0UTF8\0"),
        (b'K', b"\0\0\0\x07\0\0\0\x09"),
        (b'Z', b"I"),
    ]);
    io.write_all(&ready).await.unwrap();
    while let Some((_, body)) = message(&mut io, &mut read).await {
        told.lock()
            .unwrap()
            .push(String::from_utf8_lossy(&body).replace('\0', " "));
        if kind == Far::Silent {
            continue;
        }
        let leak = format!("\0\x01\0\0\0\x20{SECRET}");
        let rows = messages(&[(b'D', leak.as_bytes()), (b'C', b"SELECT 1\0"), (b'Z', b"I")]);
        let quiet = messages(&[(b'C', b"SET\0"), (b'Z', b"I")]);
        let is_rows = body.starts_with(b"select");
        io.write_all(if is_rows { &rows } else { &quiet })
            .await
            .unwrap();
    }
}

pub(super) async fn staged(kind: Far, access: Access) -> (Stage, Told) {
    staged_with(kind, access, crate::Limits::default()).await
}

pub(super) async fn staged_with(kind: Far, access: Access, limits: crate::Limits) -> (Stage, Told) {
    let (origin, identity, told) = far_end(kind).await;
    let notary = Notary::new(move |facts| {
        assert_eq!(facts.endpoint.scheme, Scheme::Postgres);
        if access == Access::Read && facts.method.as_str() == "WRITE" {
            return Err(no(Reason::BindingNotGranted));
        }
        Ok(Yes {
            slot: Some(Slot::Postgres { access, role: None }),
            ..Yes::default()
        })
    });
    let script = fixed("");
    (
        stage_at(notary, (&identity, origin), script, limits).await,
        told,
    )
}

/// A client in clear, and all that it heard when its login is over.
pub(super) async fn log_in(
    stage: &Stage,
    password: &str,
) -> (TcpStream, BytesMut, Vec<(u8, Vec<u8>)>) {
    let client = Client {
        password: password.to_owned(),
        ..Client::default()
    };
    log_in_as(stage, &client).await
}

/// How a client logs in.
pub(super) struct Client {
    pub(super) password: String,
    /// Of its start, behind user and database.
    pub(super) settings: String,
    /// Before it proves its password.
    pub(super) pause: std::time::Duration,
}

impl Default for Client {
    fn default() -> Self {
        Self {
            password: placeholder().as_str().to_owned(),
            settings: String::new(),
            pause: std::time::Duration::ZERO,
        }
    }
}

pub(super) async fn log_in_as(
    stage: &Stage,
    client: &Client,
) -> (TcpStream, BytesMut, Vec<(u8, Vec<u8>)>) {
    let Client {
        password,
        settings,
        pause,
    } = client;
    let mut io = stage.captured(asked("allow.test", 5432)).await;
    let start = format!("\0\x03\0\0user\0app\0database\0shop\0{settings}\0");
    let start = start.as_bytes();
    io.write_u32(u32::try_from(start.len() + 4).unwrap())
        .await
        .unwrap();
    io.write_all(start).await.unwrap();
    let mut read = BytesMut::new();
    let mut heard = Vec::new();
    let (bare, header) = ("n=,r=0123456789abcdef", "n,,");
    while let Some((kind, body)) = message(&mut io, &mut read).await {
        match (kind, body.get(3).copied()) {
            (b'R', Some(10)) => {
                let first = format!("{header}{bare}");
                let length = u32::try_from(first.len()).unwrap().to_be_bytes();
                let body = [b"SCRAM-SHA-256\0", &length[..], first.as_bytes()].concat();
                io.write_all(&messages(&[(b'p', &body)])).await.unwrap();
            }
            (b'R', Some(11)) => {
                tokio::time::sleep(*pause).await;
                let server = String::from_utf8(body[4..].to_vec()).unwrap();
                let nonce = server.split(',').next().unwrap();
                let without = format!("c=biws,{nonce}");
                let (proof, _) = signed(password, bare, &server, &without);
                let last = format!("{without},p={}", BASE64.encode(&proof));
                io.write_all(&messages(&[(b'p', last.as_bytes())]))
                    .await
                    .unwrap();
            }
            _ => {
                heard.push((kind, body));
                if kind == b'Z' || kind == b'E' {
                    break;
                }
            }
        }
    }
    (io, read, heard)
}

pub(super) fn text(heard: &[(u8, Vec<u8>)]) -> String {
    let all = heard.iter().map(|(_, body)| String::from_utf8_lossy(body));
    all.collect::<Vec<_>>().join("|")
}
