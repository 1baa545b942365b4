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
use torno_notary_protocol::gate::End;
use torno_policy::Reason;
use torno_policy::binding::Slot;
use torno_policy::names::{Method, Scheme};
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

async fn staged_with(kind: Far, access: Access, limits: crate::Limits) -> (Stage, Told) {
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

#[tokio::test]
async fn a_far_end_that_proves_nothing_gets_no_password() {
    for (kind, reason, unlocked) in [
        (Far::NoTls, Reason::UpstreamTls, 0),
        (Far::Unverified, Reason::UpstreamTls, 0),
        (Far::Trusting, Reason::UpstreamResponse, 1),
        (Far::Md5, Reason::UpstreamResponse, 1),
        (Far::Impostor, Reason::UpstreamResponse, 1),
    ] {
        let (stage, told) = staged(kind, Access::Read).await;
        let (_, _, heard) = log_in(&stage, placeholder().as_str()).await;
        assert!(
            text(&heard).contains(reason.code()),
            "{kind:?}: {}",
            text(&heard)
        );
        // No password and no proof of it before the far end is verified (I5).
        assert_eq!(*stage.notary.unlocks.lock().unwrap(), unlocked, "{kind:?}");
        let said = told.lock().unwrap().concat();
        assert!(!said.contains(SECRET), "{kind:?}");
        let outcomes = stage.notary.outcomes.lock().unwrap();
        assert!(
            matches!(&outcomes[0].end, End::Refused(r) if r.reason == reason),
            "{kind:?}"
        );
    }
}

#[tokio::test]
async fn whoever_does_not_know_the_placeholder_reaches_nobody() {
    let (stage, told) = staged(Far::Good, Access::Read).await;
    for wrong in ["", SECRET, "TRNOwrong"] {
        let (_, _, heard) = log_in(&stage, wrong).await;
        assert!(text(&heard).contains("28P01"), "{}", text(&heard));
    }
    assert!(stage.dialer.dialled.lock().unwrap().is_empty());
    assert!(told.lock().unwrap().is_empty());
    assert_eq!(*stage.notary.unlocks.lock().unwrap(), 0);
}

#[tokio::test]
async fn a_session_is_told_to_read_is_searched_and_refused_in_step() {
    let (stage, told) = staged(Far::Good, Access::Read).await;
    let (mut io, mut read, heard) = log_in(&stage, placeholder().as_str()).await;
    assert_eq!(heard.last().unwrap().0, b'Z', "{}", text(&heard));
    let key = heard.iter().find(|(kind, _)| *kind == b'K').unwrap();
    assert_ne!(key.1, b"\0\0\0\x07\0\0\0\x09", "the far end's own key");
    let mut answers = Vec::new();
    for statement in ["select 1", "insert into t values (1)", "select 2"] {
        let query = [statement.as_bytes(), b"\0"].concat();
        io.write_all(&messages(&[(b'Q', &query)])).await.unwrap();
        while let Some((kind, body)) = message(&mut io, &mut read).await {
            answers.push((kind, body));
            if kind == b'Z' {
                break;
            }
        }
    }
    let kinds: Vec<u8> = answers.iter().map(|(kind, _)| *kind).collect();
    assert_eq!(kinds, b"DCZEZDCZ");
    assert!(!text(&answers).contains(SECRET));
    assert!(text(&answers).contains(placeholder().as_str()));
    assert!(text(&answers).contains("42501"));
    drop(io);
    let told = told.lock().unwrap().clone();
    assert!(
        told[0].contains("default_transaction_read_only on"),
        "{told:?}"
    );
    let guards = told
        .iter()
        .filter(|t| t.starts_with("SET SESSION CHARACTERISTICS"));
    assert_eq!(guards.count(), 2, "{told:?}");
    assert!(!told.iter().any(|t| t.contains("insert")), "{told:?}");
    let asked = stage.notary.asked.lock().unwrap();
    let methods: Vec<&str> = asked
        .iter()
        .map(|facts| Method::as_str(&facts.method))
        .collect();
    assert_eq!(methods, ["START", "READ", "WRITE"]);
    assert_eq!(asked[0].path.path(), "/shop/app");
}

#[tokio::test]
async fn a_session_of_a_database_has_its_budgets_too() {
    let host = crate::HostLimits::default;
    for (limits, rule) in [
        (
            crate::HostLimits {
                egress_bytes_max: 600,
                ..host()
            },
            "limits.each_host.egress",
        ),
        (
            crate::HostLimits {
                ingress_bytes_max: 600,
                ..host()
            },
            "limits.each_host.ingress",
        ),
        (
            crate::HostLimits {
                streams_max: 0,
                ..host()
            },
            "limits.each_host.streams",
        ),
    ] {
        let limits = crate::Limits {
            each_host: limits,
            ..crate::Limits::default()
        };
        let (stage, _told) = staged_with(Far::Good, Access::Write, limits).await;
        let (mut io, mut read, mut heard) = log_in(&stage, placeholder().as_str()).await;
        for _ in 0..50 {
            let query = messages(&[(b'Q', b"select 1\0")]);
            if io.write_all(&query).await.is_err() {
                break;
            }
            while let Some((kind, body)) = message(&mut io, &mut read).await {
                heard.push((kind, body));
                if kind == b'Z' {
                    break;
                }
            }
        }
        let told = heard.iter().rev().find(|(kind, _)| *kind == b'E').unwrap();
        let told = String::from_utf8_lossy(&told.1).into_owned();
        assert!(
            told.contains("53400") && told.contains(rule),
            "{rule}: {told}"
        );
        let outcomes = stage.notary.outcomes.lock().unwrap();
        let by = |outcome: &torno_notary_protocol::gate::Outcome| match &outcome.end {
            torno_notary_protocol::gate::End::Refused(refusal) => refusal.rule.as_str() == rule,
            _ => false,
        };
        assert!(outcomes.iter().any(by), "{rule}: {outcomes:?}");
    }
}

#[tokio::test]
async fn a_tripwire_in_what_is_said_to_a_database_never_reaches_it() {
    let value = tripwire().value;
    let hex = data_encoding::HEXLOWER.encode(value.as_bytes());
    for said in [&value, &hex] {
        let (stage, told) = staged(Far::Good, Access::Read).await;
        let (mut io, mut read, _) = log_in(&stage, placeholder().as_str()).await;
        let query = format!("select '{said}'\0");
        io.write_all(&messages(&[(b'Q', query.as_bytes())]))
            .await
            .unwrap();
        let mut heard = Vec::new();
        while let Some(one) = message(&mut io, &mut read).await {
            let is_ready = one.0 == b'Z';
            heard.push(one);
            if is_ready {
                break;
            }
        }
        assert!(text(&heard).contains("tripwire"), "{}", text(&heard));
        drop(io);
        assert!(!told.lock().unwrap().concat().contains(said.as_str()));
        let outcomes = stage.notary.outcomes.lock().unwrap();
        let tripped = |end: &End| matches!(end, End::Refused(r) if r.reason == Reason::Tripwire);
        assert!(outcomes.iter().any(|outcome| tripped(&outcome.end)));
    }
}

#[tokio::test]
async fn a_tripwire_in_the_start_of_a_connection_never_reaches_the_database() {
    let value = tripwire().value;
    let hex = data_encoding::HEXLOWER.encode(value.as_bytes());
    for said in [&value, &hex] {
        let (stage, told) = staged(Far::Good, Access::Read).await;
        let client = Client {
            settings: format!("application_name\0{said}\0"),
            ..Client::default()
        };
        let (_, _, heard) = log_in_as(&stage, &client).await;
        let told = told.lock().unwrap().concat();
        assert!(!told.contains(said.as_str()), "it left: {told}");
        assert!(text(&heard).contains("tripwire"), "{}", text(&heard));
    }
}

#[tokio::test]
async fn what_a_client_brings_is_counted_from_its_start_on() {
    let (origin, identity, told) = far_end(Far::Good).await;
    let notary = Notary::new(|_| {
        Ok(Yes {
            slot: Some(Slot::Postgres {
                access: Access::Write,
                role: None,
            }),
            ..Yes::default()
        })
    });
    let limits = crate::Limits {
        egress_bytes_max: 100,
        ..crate::Limits::default()
    };
    let stage = stage_at(notary, (&identity, origin), fixed(""), limits).await;
    let client = Client {
        settings: format!("application_name\0{}\0", "a".repeat(100)),
        ..Client::default()
    };
    let (_, _, heard) = log_in_as(&stage, &client).await;
    assert!(text(&heard).contains("limit_reached"), "{}", text(&heard));
    assert!(told.lock().unwrap().is_empty());
    assert!(stage.dialer.dialled.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_role_of_a_writing_connection_is_not_put_off_by_a_text_that_is_unclear() {
    let (stage, told) = staged(Far::Good, Access::Write).await;
    let (mut io, mut read, _) = log_in(&stage, placeholder().as_str()).await;
    for statement in [
        "create role spy login superuser password U&'x'",
        "reset role; delete from t where a = U&'x'",
        "copy (select 1) to program U&'id'",
    ] {
        let query = [statement.as_bytes(), b"\0"].concat();
        io.write_all(&messages(&[(b'Q', &query)])).await.unwrap();
        while let Some((kind, _)) = message(&mut io, &mut read).await {
            if kind == b'Z' {
                break;
            }
        }
    }
    drop(io);
    let told = told.lock().unwrap().clone();
    assert!(!told.iter().any(|t| t.contains("U&'")), "{told:?}");
}
