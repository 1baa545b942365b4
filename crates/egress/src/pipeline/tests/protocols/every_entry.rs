// SPDX-License-Identifier: Apache-2.0
//! Each class of odd request on each entry and in both versions of HTTP: what is refused in one is
//! refused in all, what passes is the same request for the notary, and nothing else reaches the far
//! end.

use super::http2_frames::raw::{END_HEADERS, END_STREAM, GOAWAY, HEADERS, RST_STREAM, Raw};
use super::http2_frames::raw::{block, frame};
use super::stage::*;
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use torno_policy::facts::{Entry, RequestFacts};

/// How a request gets to the gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    CaughtPlain,
    CaughtTls,
    Absolute,
    TunnelPlain,
    TunnelTls,
    CaughtHttp2,
    TunnelHttp2,
}

pub(super) const WAYS: [Way; 7] = [
    Way::CaughtPlain,
    Way::CaughtTls,
    Way::Absolute,
    Way::TunnelPlain,
    Way::TunnelTls,
    Way::CaughtHttp2,
    Way::TunnelHttp2,
];

impl Way {
    pub(super) fn is_http2(self) -> bool {
        matches!(self, Self::CaughtHttp2 | Self::TunnelHttp2)
    }

    pub(super) fn is_tls(self) -> bool {
        !matches!(self, Self::CaughtPlain | Self::Absolute | Self::TunnelPlain)
    }

    pub(super) fn host(self) -> &'static str {
        if self.is_tls() {
            "allow.test"
        } else {
            "plain.test"
        }
    }

    /// A connection to the gate, before any TLS.
    pub(super) async fn arrive(self, stage: &Stage) -> TcpStream {
        match self {
            Self::CaughtPlain => stage.captured(asked("plain.test", 80)).await,
            Self::CaughtTls | Self::CaughtHttp2 => stage.captured(asked("allow.test", 443)).await,
            Self::Absolute => stage.proxy().await,
            Self::TunnelPlain | Self::TunnelTls | Self::TunnelHttp2 => {
                let mut tunnel = stage.proxy().await;
                let port = if self.is_tls() { 443 } else { 80 };
                let name = self.host();
                let connect =
                    format!("CONNECT {name}:{port} HTTP/1.1\r\nHost: {name}:{port}\r\n\r\n");
                let said = talk(&mut tunnel, connect.as_bytes()).await;
                assert!(said.contains(" 200 "), "{said}");
                tunnel
            }
        }
    }
}

/// One odd request. `@` in the host is the name that was dialled.
struct Odd {
    /// Its number in docs/attacks.md.
    attack: &'static str,
    method: &'static str,
    host: &'static str,
    path: &'static str,
    /// One more field.
    field: Option<(&'static str, &'static str)>,
    /// One of these reasons; none for a request that passes.
    refused: &'static [&'static str],
}

const USUAL: Odd = Odd {
    attack: "",
    method: "GET",
    host: "@",
    path: "/a",
    field: None,
    refused: &[],
};

const fn host(attack: &'static str, host: &'static str, refused: &'static [&'static str]) -> Odd {
    Odd {
        attack,
        host,
        refused,
        ..USUAL
    }
}

const fn path(attack: &'static str, path: &'static str) -> Odd {
    Odd {
        attack,
        path,
        refused: &["bad_path", "malformed_request"],
        ..USUAL
    }
}

const fn method(attack: &'static str, method: &'static str) -> Odd {
    Odd {
        attack,
        method,
        refused: &["bad_method", "malformed_request", "unknown_protocol"],
        ..USUAL
    }
}

/// A field that is dropped: the request passes without it.
const fn dropped(attack: &'static str, name: &'static str, value: &'static str) -> Odd {
    Odd {
        attack,
        field: Some((name, value)),
        ..USUAL
    }
}

const BAD: &[&str] = &["bad_host", "malformed_request", "names_disagree"];
const PORT: &[&str] = &["bad_port", "malformed_request", "bad_host"];
const NAMES: &[&str] = &["names_disagree"];

/// Classes A, C, F to I: what can be said on every entry in both versions. Framing (class D) and
/// upgrades (E) have a form of their own in each: `every_framing.rs`.
const ODD: &[Odd] = &[
    host("001", "@\0", BAD),
    host("001", "evil.test\0.@", BAD),
    host("003", "user@allow.test", BAD),
    host("003", "allow.test@evil.test", BAD),
    host("004", "@..", BAD),
    host("004", ".@", BAD),
    host("005", "x@", NAMES),
    host("005", "@.evil.test", NAMES),
    host("007", "xn--@", BAD),
    host("009", "[@]", BAD),
    host("010", "%61llow.test", BAD),
    host("010", "@%00", BAD),
    host("011", "@/x", BAD),
    host("011", "@?x", BAD),
    host("011", "@#x", BAD),
    host("011", "@\\x", BAD),
    host("014", "@:0", PORT),
    host("014", "@:65536", PORT),
    host("014", "@:+80", PORT),
    host("014", "@:8443", NAMES),
    host("037", "other.test", NAMES),
    host("045", "@, other.test", BAD),
    path("073", "/a/../b"),
    path("073", "/a/./b"),
    path("073", "/.."),
    path("073", "/a/%2e%2e/b"),
    path("073", "/a/%2E/b"),
    path("073", "/a//b"),
    path("075", "/a%"),
    path("075", "/a%2"),
    path("075", "/a%zz"),
    path("075", "/a%00b"),
    path("075", "/a%5cb"),
    path("075", "/a%252e%252e/b"),
    path("075", "/a%2f..%2fb"),
    path("075", "/a%c0%ae"),
    path("075", "/a\\b"),
    path("075", "/a;b"),
    path("077", "/a#b"),
    path("077", "/a?b#c"),
    method("080", "get"),
    method("080", "TRACE"),
    method("080", "TRACK\0"),
    method("080", "G ET"),
    Odd {
        attack: "080",
        path: "/a?_method=DELETE",
        refused: &["bad_method"],
        ..USUAL
    },
    Odd {
        attack: "080",
        path: "/a?%5Fmethod=DELETE",
        refused: &["bad_method"],
        ..USUAL
    },
    dropped("080", "x-http-method-override", "DELETE"),
    dropped("095", "x-original-url", "/b"),
    dropped("095", "x-forwarded-host", "evil.test"),
    dropped("095", "x-host", "evil.test"),
    dropped("097", "x-forwarded-for", "127.0.0.1"),
    dropped("097", "x_a", "b"),
    dropped("118", "proxy-authorization", "Basic YTpi"),
    dropped("124", "via", "1.1 x"),
];

/// What came of one request: its reason, or that it passed.
async fn outcome(stage: &Stage, way: Way, odd: &Odd) -> String {
    let host = odd.host.replace('@', way.host());
    // A user's name is spelled with the sign that stands for the host.
    let host = match odd.host {
        "user@allow.test" | "allow.test@evil.test" => odd.host.to_owned(),
        _ => host,
    };
    let stream = way.arrive(stage).await;
    if way.is_http2() {
        let tls = stage.tls_speaking(stream, "allow.test", &[b"h2"]).await;
        return over_http2(Raw(tls.unwrap()), odd, &host).await;
    }
    let before = if way == Way::Absolute {
        format!("http://{host}")
    } else {
        String::new()
    };
    let (method, path) = (odd.method, odd.path);
    let field = odd
        .field
        .map(|(name, value)| format!("{name}: {value}\r\n"));
    let request = format!(
        "{method} {before}{path} HTTP/1.1\r\nHost: {host}\r\n{}Connection: close\r\n\r\n",
        field.unwrap_or_default()
    );
    let mut stream = stream;
    let said = if way.is_tls() {
        let mut tls = stage.tls(stream, "allow.test").await;
        talk(&mut tls, request.as_bytes()).await
    } else {
        talk(&mut stream, request.as_bytes()).await
    };
    reason(said.as_bytes())
}

async fn over_http2(raw: Raw, odd: &Odd, host: &str) -> String {
    let mut fields = vec![
        (":method", odd.method),
        (":scheme", "https"),
        (":authority", host),
        (":path", odd.path),
    ];
    fields.extend(odd.field);
    fields_sent(raw, &fields).await
}

/// Sends fields as a whole request, and what came of it.
pub(super) async fn fields_sent(mut raw: Raw, fields: &[(&str, &str)]) -> String {
    raw.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0")
        .await;
    raw.send(&frame(HEADERS, END_STREAM | END_HEADERS, 1, &block(fields)))
        .await;
    loop {
        let mut header = [0; 9];
        let read = tokio::time::timeout(Duration::from_secs(3), raw.0.read_exact(&mut header));
        if !matches!(read.await, Ok(Ok(_))) {
            return "the end".to_owned();
        }
        let length = u32::from_be_bytes([0, header[0], header[1], header[2]]);
        let mut payload = vec![0; usize::try_from(length).unwrap()];
        raw.0.read_exact(&mut payload).await.unwrap();
        match header[3] {
            GOAWAY | RST_STREAM => return "reset".to_owned(),
            // DATA: the body of an answer or of a refusal.
            0 if length > 0 => return reason(&payload),
            _ => {}
        }
    }
}

/// The reason in a refusal; `passed` for the far end's own answer.
pub(super) fn reason(said: &[u8]) -> String {
    let said = String::from_utf8_lossy(said);
    if said.ends_with("ok") {
        return "passed".to_owned();
    }
    let reason = said.split("\"code\":\"").nth(1);
    reason
        .and_then(|rest| rest.split('"').next())
        .unwrap_or(&said)
        .to_owned()
}

// ATTACK: 001, 003, 004, 005, 007, 009, 010, 011, 014, 015, 037, 045, 073, 075, 077, 080, 095, 097
// ATTACK: 118, 124
#[tokio::test]
async fn each_class_of_odd_request_ends_alike_on_every_entry_and_in_both_versions() {
    let stage = stage(Notary::yes(), fixed(OK)).await;
    let mut wrong = Vec::new();
    let mut passed: Vec<Vec<RequestFacts>> = Vec::new();
    for odd in ODD.iter().chain([&USUAL]) {
        let mark = stage.notary.asked.lock().unwrap().len();
        for way in WAYS {
            // Nothing was dialled there that an absolute URL could disagree with.
            if way == Way::Absolute && odd.refused == NAMES {
                continue;
            }
            let came = outcome(&stage, way, odd).await;
            let is_right = match odd.refused {
                [] => came == "passed",
                reasons => {
                    // In frames and fields some of it can't be said at all, and a fragment is gone
                    // before anybody reads the path (decision 0026).
                    let is_gone = odd.path.contains('#') && came == "passed";
                    let is_unsaid = way.is_http2() && (came == "reset" || is_gone);
                    reasons.contains(&came.as_str()) || is_unsaid
                }
            };
            if !is_right {
                let Odd {
                    attack,
                    method,
                    host,
                    path,
                    ..
                } = odd;
                wrong.push(format!(
                    "{attack} {way:?} {method:?} {host:?} {path:?}: {came}"
                ));
            }
        }
        passed.push(stage.notary.asked.lock().unwrap()[mark..].to_vec());
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    for (odd, asked) in ODD.iter().chain([&USUAL]).zip(passed) {
        let count = match (odd.refused, odd.path.split_once('#')) {
            ([], _) => WAYS.len(),
            (_, None) => 0,
            (_, Some((path, _))) => {
                assert!(asked.iter().all(|facts| facts.path.to_string() == path));
                2
            }
        };
        assert_eq!(asked.len(), count, "{} {:?}", odd.attack, odd.field);
        // The notary is asked the same of each, but for the entry and the two names.
        let alike = |mut facts: RequestFacts| {
            facts.entry = Entry::Captured;
            (
                facts.method,
                facts.path,
                facts.presented,
                facts.own_credentials,
                facts.websocket,
            )
        };
        let mut alike = asked.into_iter().map(alike);
        let first = alike.next();
        assert!(alike.all(|facts| Some(facts) == first), "{}", odd.attack);
    }
    for request in stage.origin.requests.lock().unwrap().iter() {
        let request = String::from_utf8_lossy(request).to_ascii_lowercase();
        for (name, _) in ODD.iter().filter_map(|odd| odd.field) {
            assert!(!request.contains(&format!("\r\n{name}:")), "{request}");
        }
    }
}
