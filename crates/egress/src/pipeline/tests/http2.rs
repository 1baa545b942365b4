// SPDX-License-Identifier: Apache-2.0
//! Well-made HTTP/2 of a client, end to end.

use super::stage::*;
use crate::Limits;
use bytes::Bytes;
use h2::client::SendRequest;
use h2::{RecvStream, SendStream};
use http::{HeaderMap, Request, Response};
use std::future::poll_fn;
use std::time::Duration;
use tokio::time::timeout;
use torno_notary_protocol::gate::End;
use torno_policy::Reason;
use torno_policy::names::CredentialName;

/// A connection of a client to allow.test.
pub(super) struct Client(pub(super) SendRequest<Bytes>);

impl Client {
    pub(super) async fn to(stage: &Stage) -> Self {
        let stream = stage.captured(asked("allow.test", 443)).await;
        let tls = stage.tls_speaking(stream, "allow.test", &[b"h2", b"http/1.1"]);
        let tls = tls.await.unwrap();
        assert_eq!(tls.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
        let (requests, connection) = h2::client::Builder::new()
            .initial_connection_window_size(8 << 20)
            .handshake(tls)
            .await
            .unwrap();
        tokio::spawn(async move {
            // A test that ends the connection sees it elsewhere.
            let _ = connection.await;
        });
        Self(requests)
    }

    /// Opens a stream; the body is sent on what comes second.
    pub(super) async fn open(
        &self,
        request: Request<()>,
        is_whole: bool,
    ) -> (h2::client::ResponseFuture, SendStream<Bytes>) {
        let mut ready = self.0.clone().ready().await.unwrap();
        ready.send_request(request, is_whole).unwrap()
    }

    pub(super) async fn get(&self, path: &str) -> Told {
        let (answer, _) = self.open(to(path).body(()).unwrap(), true).await;
        told(answer.await.unwrap()).await
    }
}

pub(super) fn to(path: &str) -> http::request::Builder {
    Request::builder().uri(format!("https://allow.test{path}"))
}

/// A whole answer.
#[derive(Debug)]
pub(super) struct Told {
    pub(super) status: u16,
    pub(super) fields: HeaderMap,
    pub(super) body: String,
    pub(super) trailers: HeaderMap,
}

impl Told {
    pub(super) fn field(&self, name: &str) -> &str {
        self.fields.get(name).map_or("", |v| v.to_str().unwrap())
    }
}

pub(super) async fn told(answer: Response<RecvStream>) -> Told {
    let (parts, mut stream) = answer.into_parts();
    let mut body = Vec::new();
    while let Some(piece) = stream.data().await {
        let piece = piece.unwrap();
        body.extend_from_slice(&piece);
        stream.flow_control().release_capacity(piece.len()).unwrap();
    }
    Told {
        status: parts.status.as_u16(),
        fields: parts.headers,
        body: String::from_utf8(body).unwrap(),
        trailers: stream.trailers().await.unwrap().unwrap_or_default(),
    }
}

#[tokio::test]
async fn a_stream_is_judged_injected_and_scrubbed_like_a_request_of_http1() {
    // ATTACK: 105
    let echo = format!(
        "HTTP/1.1 200 OK\r\nX-Echo: Bearer {SECRET}\r\nContent-Length: {}\r\n\r\n{SECRET}",
        SECRET.len()
    );
    let stage = stage(Notary::bearer(), fixed(echo)).await;
    let client = Client::to(&stage).await;
    let placeholder = placeholder();
    let request = to("/public/x?a=b")
        .header("authorization", format!("Bearer {}", placeholder.as_str()))
        .header("cookie", "a=1")
        .header("x-forwarded-for", "10.0.0.1")
        .header("te", "trailers")
        .header("accept", "text/plain")
        .body(());
    let (answer, _) = client.open(request.unwrap(), true).await;
    let told = told(answer.await.unwrap()).await;
    let sent = stage.origin.request(0);
    let injected = format!("authorization: Bearer {SECRET}\r\n");
    assert!(
        sent.starts_with("GET /public/x?a=b HTTP/1.1\r\nhost: allow.test\r\n"),
        "{sent}"
    );
    assert!(
        sent.contains(&injected) && sent.contains("accept: text/plain\r\n"),
        "{sent}"
    );
    for dropped in ["te:", "forwarded", "transfer-encoding", "cookie"] {
        assert!(!sent.contains(dropped), "{sent}");
    }
    assert_eq!(
        (told.status, told.body.as_str()),
        (200, placeholder.as_str())
    );
    assert_eq!(
        told.field("x-echo"),
        format!("Bearer {}", placeholder.as_str())
    );
    let asked = stage.notary.asked.lock().unwrap();
    assert_eq!(asked[0].presented.len(), 1);
    assert_eq!(asked[0].own_credentials, ["cookie"]);
    let outcomes = stage.notary.outcomes.lock().unwrap();
    assert_eq!(outcomes[0].end, End::Completed { status: 200 });
}

#[tokio::test]
async fn crumbs_of_a_cookie_are_one_cookie() {
    let own = Yes {
        own_credentials: true,
        ..Yes::default()
    };
    let stage = stage(Notary::new(move |_| Ok(own.clone())), fixed(OK)).await;
    let client = Client::to(&stage).await;
    let request = to("/")
        .header("cookie", "a=1")
        .header("cookie", "b=2")
        .body(());
    let (answer, _) = client.open(request.unwrap(), true).await;
    assert_eq!(told(answer.await.unwrap()).await.status, 200);
    let sent = stage.origin.request(0);
    assert!(sent.contains("cookie: a=1; b=2\r\n"), "{sent}");
}

#[tokio::test]
async fn bodies_and_trailers_cross_both_ways() {
    let script = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n\
                  \0PAUSE2\r\nde\r\n0\r\nX-Sum: 1\r\n\r\n";
    let stage = stage(Notary::yes(), fixed(script)).await;
    let client = Client::to(&stage).await;
    let request = to("/u").method("POST").body(()).unwrap();
    let (answer, mut body) = client.open(request, false).await;
    body.send_data(Bytes::from_static(b"hello"), false).unwrap();
    let mut trailers = HeaderMap::new();
    trailers.insert("x-t", "2".parse().unwrap());
    trailers.insert("authorization", "no".parse().unwrap());
    body.send_trailers(trailers).unwrap();
    let told_first = told(answer.await.unwrap()).await;
    assert_eq!(told_first.body, "abcde");
    assert_eq!(told_first.trailers["x-sum"], "1");
    let sent = stage.origin.request(0);
    assert!(
        sent.ends_with("5\r\nhello\r\n0\r\nx-t: 2\r\n\r\n"),
        "{sent}"
    );
    // With a length, and with `100-continue`.
    let request = to("/u").method("PUT").header("content-length", "5");
    let request = request.header("expect", "100-continue").body(()).unwrap();
    let (mut answer, mut body) = client.open(request, false).await;
    let interim = poll_fn(|cx| answer.poll_informational(cx)).await;
    assert_eq!(interim.unwrap().unwrap().status(), 100);
    body.send_data(Bytes::from_static(b"whole"), true).unwrap();
    assert_eq!(told(answer.await.unwrap()).await.status, 200);
    let sent = stage.origin.request(1);
    assert!(
        sent.contains("content-length: 5\r\n") && sent.ends_with("\r\n\r\nwhole"),
        "{sent}"
    );
}

#[tokio::test]
async fn large_bodies_stream_both_ways() {
    let size = 3 << 20;
    let large = format!(
        "HTTP/1.1 200 OK\r\nContent-Length: {size}\r\n\r\n{}",
        "y".repeat(size)
    );
    let stage = stage(Notary::yes(), fixed(large)).await;
    let client = Client::to(&stage).await;
    let request = to("/u")
        .method("POST")
        .header("content-length", size)
        .body(());
    let (answer, mut body) = client.open(request.unwrap(), false).await;
    let sending = async {
        let mut left = size;
        while left > 0 {
            body.reserve_capacity(left);
            let room = poll_fn(|cx| body.poll_capacity(cx)).await.unwrap().unwrap();
            left -= room;
            body.send_data(Bytes::from(vec![b'x'; room]), left == 0)
                .unwrap();
        }
    };
    let answering = async { told(answer.await.unwrap()).await };
    let ((), told) = tokio::join!(sending, answering);
    assert_eq!(told.body.len(), size);
    assert!(stage.origin.request(0).ends_with(&"x".repeat(size)));
}

#[tokio::test]
async fn a_stream_that_is_not_read_or_sent_holds_up_no_other() {
    let size = 4 << 20;
    let large = format!(
        "HTTP/1.1 200 OK\r\nContent-Length: {size}\r\n\r\n{}",
        "y".repeat(size)
    );
    let script: Script = std::sync::Arc::new(move |request| {
        let is_large = request.starts_with(b"GET /large");
        if is_large {
            large.clone().into_bytes()
        } else {
            OK.into()
        }
    });
    let stage = stage(Notary::yes(), script).await;
    let client = Client::to(&stage).await;
    let mut held = Vec::new();
    for _ in 0..5 {
        // Read no further than the fields; and a body that does not go on.
        let (answer, _) = client.open(to("/large").body(()).unwrap(), true).await;
        let answer = answer.await.unwrap();
        let post = to("/slow").method("POST").body(()).unwrap();
        let (pending, mut body) = client.open(post, false).await;
        body.send_data(Bytes::from_static(b"begun"), false).unwrap();
        held.push((answer, pending, body));
    }
    for _ in 0..20 {
        let quick = timeout(Duration::from_secs(3), client.get("/quick"));
        assert_eq!(quick.await.unwrap().body, "ok");
    }
    drop(held);
}

#[tokio::test]
async fn a_refusal_or_a_panic_of_one_stream_leaves_the_others() {
    let notary = Notary::new(|facts| match facts.path.path() {
        "/panic" => panic!("on purpose"),
        "/no" => Err(no(Reason::PathNotGranted)),
        _ => Ok(Yes::default()),
    });
    let stage = stage(notary, fixed(OK)).await;
    let client = Client::to(&stage).await;
    let (refused, panicked, good) =
        tokio::join!(client.get("/no"), client.get("/panic"), client.get("/yes"));
    assert_eq!(refused.status, 403);
    assert_eq!(refused.field("content-type"), "application/json");
    assert!(refused.body.contains("path_not_granted"), "{refused:?}");
    assert!(panicked.body.contains("undecidable"), "{panicked:?}");
    assert_eq!(good.body, "ok");
    assert_eq!(client.get("/yes").await.body, "ok");
    assert_eq!(stage.reasons(), [Reason::Undecidable]);
}

#[tokio::test]
async fn a_refused_stream_is_not_reset_while_its_body_still_comes() {
    let notary = Notary::new(|_| Err(no(Reason::PathNotGranted)));
    let stage = stage(notary, fixed(OK)).await;
    let client = Client::to(&stage).await;
    let request = to("/no").method("POST").body(()).unwrap();
    let (answer, mut body) = client.open(request, false).await;
    let refused = told(answer.await.unwrap()).await;
    assert_eq!(refused.status, 403);
    let reset = std::future::poll_fn(|cx| body.poll_reset(cx));
    let reset = tokio::time::timeout(Duration::from_millis(300), reset).await;
    assert!(reset.is_err(), "{reset:?}");
    body.send_data(Bytes::from_static(b"late"), true).unwrap();
    assert_eq!(client.get("/no").await.status, 403);
}

#[tokio::test]
async fn a_stream_for_another_host_is_misdirected_and_no_other_host_is_reached() {
    // ATTACK: 066
    let stage = stage(Notary::yes(), fixed(OK)).await;
    let client = Client::to(&stage).await;
    for uri in [
        "https://other.test/",
        "https://allow.test:8443/",
        "https://sub.allow.test/",
    ] {
        let request = Request::builder().uri(uri).body(()).unwrap();
        let (answer, _) = client.open(request, true).await;
        let told = told(answer.await.unwrap()).await;
        assert_eq!(told.status, 421, "{uri}: {told:?}");
        assert!(told.body.contains("names_disagree"), "{told:?}");
    }
    let request = to("/").header("host", "other.test").body(()).unwrap();
    let (answer, _) = client.open(request, true).await;
    assert_eq!(told(answer.await.unwrap()).await.status, 421);
    assert_eq!(stage.origin.count(), 0);
    let request = to("/").header("host", "allow.test").body(()).unwrap();
    let (answer, _) = client.open(request, true).await;
    assert_eq!(told(answer.await.unwrap()).await.status, 200);
}

#[tokio::test]
async fn a_stream_that_is_refused_at_once_has_no_placeholder_in_its_record() {
    // ATTACK: 110
    let stage = stage(Notary::yes(), fixed(OK)).await;
    let client = Client::to(&stage).await;
    let path = format!("/bot{}/getMe", placeholder().as_str());
    let request = to(&path).header("host", "other.test").body(()).unwrap();
    let (answer, _) = client.open(request, true).await;
    assert_eq!(told(answer.await.unwrap()).await.status, 421);
    let refused = stage.notary.refused.lock().unwrap();
    assert!(!refused.is_empty());
    for one in refused.iter() {
        assert!(
            !one.target.contains(placeholder().as_str()),
            "{}",
            one.target
        );
    }
}

#[tokio::test]
async fn a_placeholder_in_a_trailer_of_a_stream_ends_the_request() {
    // ATTACK: 086
    let stage = stage(Notary::bearer(), fixed(OK)).await;
    let client = Client::to(&stage).await;
    let request = to("/u").method("POST").body(()).unwrap();
    let (answer, mut body) = client.open(request, false).await;
    body.send_data(Bytes::from_static(b"hello"), false).unwrap();
    let mut trailers = HeaderMap::new();
    trailers.insert("x-t", placeholder().as_str().parse().unwrap());
    body.send_trailers(trailers).unwrap();
    let told = told(answer.await.unwrap()).await;
    assert!(
        told.body.contains("credential_endpoint_mismatch"),
        "{told:?}"
    );
    assert_eq!(stage.origin.count(), 0);
}

#[tokio::test]
async fn a_revoked_credential_resets_its_streams_alone_and_a_kill_ends_the_connection() {
    // ATTACK: 101, 155
    let script = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: 1\n\n";
    let notary = Notary::new(|facts| {
        let slot = (facts.path.path() == "/bound").then(bearer);
        Ok(Yes {
            slot,
            ..Yes::default()
        })
    });
    let stage = stage(notary, fixed(script)).await;
    let client = Client::to(&stage).await;
    let mut streams = Vec::new();
    for path in ["/bound", "/free"] {
        let (answer, _) = client.open(to(path).body(()).unwrap(), true).await;
        let mut stream = answer.await.unwrap().into_body();
        assert_eq!(
            stream.data().await.unwrap().unwrap(),
            "data: 1\n\n",
            "not held"
        );
        streams.push(stream);
    }
    let [mut bound, mut free] = <[RecvStream; 2]>::try_from(streams).unwrap();
    let c1 = CredentialName::parse("c1").unwrap();
    stage.pipeline.revoke(Some(&c1));
    let end = timeout(Duration::from_secs(1), bound.data()).await.unwrap();
    assert!(end.unwrap().unwrap_err().is_reset());
    assert!(
        timeout(Duration::from_millis(100), free.data())
            .await
            .is_err()
    );
    stage.pipeline.revoke(None);
    let end = timeout(Duration::from_secs(1), free.data()).await.unwrap();
    assert!(end.unwrap().is_err());
    assert!(client.0.clone().ready().await.is_err());
    let outcomes = stage.notary.outcomes.lock().unwrap();
    assert_eq!(outcomes[0].end, End::Aborted { status: Some(200) });
}

#[tokio::test]
async fn a_stream_that_its_client_left_is_dropped_at_once() {
    let events = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: 1\n\n";
    let script: Script = std::sync::Arc::new(move |request| {
        let is_silent = request.starts_with(b"GET /silent");
        if is_silent { Vec::new() } else { events.into() }
    });
    let stage = stage(Notary::yes(), script).await;
    let client = Client::to(&stage).await;
    let ended = async |count: usize| {
        for _ in 0..100 {
            if stage.notary.outcomes.lock().unwrap().len() == count {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("the exchange went on");
    };
    // While its answer comes, and before there is one.
    let (answer, mut body) = client.open(to("/").body(()).unwrap(), true).await;
    let answer = answer.await.unwrap();
    body.send_reset(h2::Reason::CANCEL);
    drop(answer);
    ended(1).await;
    let (_answer, mut body) = client.open(to("/silent").body(()).unwrap(), true).await;
    while stage.origin.count() < 2 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    body.send_reset(h2::Reason::CANCEL);
    ended(2).await;
}

#[tokio::test]
async fn streams_take_places_among_the_sessions_connections() {
    let script = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: 1\n\n";
    let limits = Limits {
        connections_max: 3,
        ..Limits::default()
    };
    let stage = stage_with(Notary::yes(), fixed(script), limits).await;
    let client = Client::to(&stage).await;
    let mut held = Vec::new();
    for _ in 0..2 {
        let (answer, body) = client.open(to("/").body(()).unwrap(), true).await;
        held.push((answer.await.unwrap(), body));
    }
    // Nothing is held for it: it may be tried again on another connection (RFC 9113 §8.7).
    let (answer, _body) = client.open(to("/").body(()).unwrap(), true).await;
    let refused = answer.await.unwrap_err();
    assert_eq!(refused.reason(), Some(h2::Reason::REFUSED_STREAM));
    assert_eq!(stage.reasons(), [Reason::LimitReached]);
    assert_eq!(stage.notary.asked.lock().unwrap().len(), 2);
    drop(held);
    let mut again = None;
    for _ in 0..50 {
        tokio::time::sleep(Duration::from_millis(20)).await;
        let (answer, _body) = client.open(to("/").body(()).unwrap(), true).await;
        again = answer.await.ok();
        if again.is_some() {
            break;
        }
    }
    assert!(again.is_some(), "its place is free again");
}

#[tokio::test]
async fn an_idle_connection_is_told_to_go_away_and_a_busy_one_is_not() {
    let limits = Limits {
        idle_wait: Duration::from_millis(200),
        ..Limits::default()
    };
    let script = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n";
    let script: Script = std::sync::Arc::new(move |request| {
        let is_long = request.starts_with(b"GET /long");
        if is_long { script.into() } else { OK.into() }
    });
    let stage = stage_with(Notary::yes(), script, limits).await;
    let client = Client::to(&stage).await;
    let (answer, _body) = client.open(to("/long").body(()).unwrap(), true).await;
    let answer = answer.await.unwrap();
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(client.get("/").await.body, "ok", "busy");
    drop(answer);
    drop(_body);
    tokio::time::sleep(Duration::from_millis(600)).await;
    assert!(client.0.clone().ready().await.is_err(), "idle");
}
