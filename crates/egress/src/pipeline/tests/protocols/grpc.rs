// SPDX-License-Identifier: Apache-2.0
//! gRPC: HTTP/2 to the far end too, and refusals that its clients can read.

use super::http2::{Client, to, told};
use super::stage::*;
use crate::Limits;
use bytes::Bytes;
use h2::server::SendResponse;
use h2::{RecvStream, SendStream};
use http::{HeaderMap, Request, Response};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::net::TcpListener;
use torno_notary_protocol::gate::End;
use torno_policy::Reason;
use torno_policy::names::CredentialName;

/// A far end of gRPC: answers each piece of a body with the same piece, at once, and gives back
/// its metadata at the start and in the trailers. `/early` ends before the body does, `/stand`
/// never, `/packed` says that its messages are packed.
async fn far_end(identity: &Identity, seen: Arc<Mutex<Vec<Request<()>>>>) -> Origin {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let origin = Origin {
        address: listener.local_addr().unwrap(),
        requests: Arc::default(),
        connections: Arc::default(),
    };
    let connections = Arc::clone(&origin.connections);
    let acceptor = acceptor(identity, &[b"h2", b"http/1.1"]);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            *connections.lock().unwrap() += 1;
            let Ok(tls) = acceptor.accept(stream).await else {
                continue;
            };
            assert_eq!(tls.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
            let seen = Arc::clone(&seen);
            tokio::spawn(async move {
                let mut connection = h2::server::handshake(tls).await.unwrap();
                while let Some(Ok((request, respond))) = connection.accept().await {
                    let (parts, body) = request.into_parts();
                    let request = Request::from_parts(parts, ());
                    seen.lock().unwrap().push(request.clone());
                    tokio::spawn(echo(request, body, respond));
                }
            });
        }
    });
    origin
}

async fn echo(request: Request<()>, mut body: RecvStream, mut respond: SendResponse<Bytes>) {
    let mut metadata = HeaderMap::new();
    metadata.insert("content-type", "application/grpc".parse().unwrap());
    if let Some(value) = request.headers().get("authorization") {
        metadata.insert("x-echo", value.clone());
    }
    if request.uri().path() == "/packed" {
        metadata.insert("grpc-encoding", "gzip".parse().unwrap());
    }
    let mut answer = Response::new(());
    *answer.headers_mut() = metadata.clone();
    let mut stream = respond.send_response(answer, false).unwrap();
    while request.uri().path() != "/early"
        && let Some(Ok(piece)) = body.data().await
    {
        body.flow_control().release_capacity(piece.len()).unwrap();
        if stream.send_data(piece, false).is_err() {
            return;
        }
    }
    if request.uri().path() == "/stand" {
        std::future::pending::<()>().await;
    }
    metadata.remove("content-type");
    metadata.insert("grpc-status", "0".parse().unwrap());
    if request.uri().path() != "/early"
        && let Ok(Some(trailers)) = body.trailers().await
    {
        metadata.extend(trailers);
    }
    let _ = stream.send_trailers(metadata);
}

type Seen = Arc<Mutex<Vec<Request<()>>>>;

async fn grpc_stage(notary: Arc<Notary>) -> (Stage, Seen) {
    let identity = identity(&["allow.test", "other.test"]);
    let seen = Seen::default();
    let far = far_end(&identity, Arc::clone(&seen)).await;
    let stage = stage_at(notary, (&identity, far), fixed(OK), Limits::default());
    (stage.await, seen)
}

fn call(path: &str) -> http::request::Builder {
    to(path)
        .method("POST")
        .header("content-type", "application/grpc")
        .header("te", "trailers")
}

async fn send(body: &mut SendStream<Bytes>, piece: &'static [u8]) {
    body.send_data(Bytes::from_static(piece), false).unwrap();
}

#[tokio::test]
async fn a_call_is_carried_with_its_trailers_and_its_metadata_is_injected_and_scrubbed() {
    // ATTACK: 105
    let (stage, seen) = grpc_stage(Notary::bearer()).await;
    let client = Client::to(&stage).await;
    let placeholder = placeholder();
    let shown = format!("Bearer {}", placeholder.as_str());
    for _ in 0..2 {
        let request = call("/pkg.Service/Method")
            .header("authorization", &shown)
            .header("grpc-timeout", "5S")
            .header("grpc-accept-encoding", "gzip")
            .header("x-forwarded-for", "10.0.0.1")
            .body(());
        let (answer, mut body) = client.open(request.unwrap(), false).await;
        send(&mut body, b"\0\0\0\0\x02hi").await;
        let mut trailers = HeaderMap::new();
        trailers.insert("x-sum", "7".parse().unwrap());
        trailers.insert("x-api-key", "mine".parse().unwrap());
        body.send_trailers(trailers).unwrap();
        let told = told(answer.await.unwrap()).await;
        assert_eq!((told.status, told.body.as_str()), (200, "\0\0\0\0\x02hi"));
        assert_eq!(told.field("x-echo"), shown);
        assert_eq!(told.trailers["x-echo"], shown.as_str());
        assert_eq!(told.trailers["grpc-status"], "0");
        assert_eq!(told.trailers["x-sum"], "7");
        assert!(!told.trailers.contains_key("x-api-key"));
    }
    let seen = seen.lock().unwrap();
    assert_eq!(seen.len(), 2);
    let sent = seen[0].headers();
    let injected = &sent["authorization"];
    assert_eq!(injected, format!("Bearer {SECRET}").as_str());
    assert_eq!(sent["te"], "trailers");
    assert_eq!(sent["grpc-timeout"], "5S");
    for dropped in [
        "grpc-accept-encoding",
        "x-forwarded-for",
        "host",
        "transfer-encoding",
    ] {
        assert!(!sent.contains_key(dropped), "{sent:?}");
    }
    assert_eq!(seen[0].uri(), "https://allow.test/pkg.Service/Method");
    assert_eq!(*stage.origin.connections.lock().unwrap(), 1, "used again");
    let outcomes = stage.notary.outcomes.lock().unwrap();
    assert_eq!(outcomes[0].end, End::Completed { status: 200 });
    assert_eq!(outcomes[0].reflected, 2);
}

#[tokio::test]
async fn a_message_that_gives_a_credential_back_ends_its_call() {
    // ATTACK: 105
    let (stage, _) = grpc_stage(Notary::bearer()).await;
    let client = Client::to(&stage).await;
    let (answer, mut body) = client.open(call("/back").body(()).unwrap(), false).await;
    send(&mut body, b"\0\0\0\0\0").await;
    let mut answer = answer.await.unwrap().into_body();
    assert_eq!(answer.data().await.unwrap().unwrap(), "\0\0\0\0\0");
    let message = [&b"\0\0\0\0\x20"[..], SECRET.as_bytes()].concat();
    body.send_data(Bytes::from(message), false).unwrap();
    let end = tokio::time::timeout(Duration::from_secs(2), answer.data()).await;
    assert!(end.unwrap().unwrap().unwrap_err().is_reset());
    let outcomes = stage.notary.outcomes.lock().unwrap();
    assert!(matches!(outcomes[0].end, End::Refused(_)), "{outcomes:?}");
}

#[tokio::test]
async fn both_ways_of_a_call_stream_at_once() {
    // With a credential, so that answers are searched: nothing of a whole message is held.
    let (stage, _) = grpc_stage(Notary::bearer()).await;
    let client = Client::to(&stage).await;
    let (answer, mut body) = client.open(call("/bidi").body(()).unwrap(), false).await;
    let mut answer = answer.await.unwrap().into_body();
    for piece in [&b"\0\0\0\0\x03ghp"[..], b"\0\0\0\0\0", b"\0\0\0\0\x04CANA"] {
        send(&mut body, piece).await;
        let heard = tokio::time::timeout(Duration::from_secs(2), answer.data());
        assert_eq!(heard.await.unwrap().unwrap().unwrap(), piece);
    }
    body.send_data(Bytes::new(), true).unwrap();
    assert!(answer.data().await.is_none());
    assert_eq!(
        answer.trailers().await.unwrap().unwrap()["grpc-status"],
        "0"
    );
}

#[tokio::test]
async fn a_far_end_may_end_a_call_before_its_body_does() {
    let (stage, _) = grpc_stage(Notary::yes()).await;
    let client = Client::to(&stage).await;
    let (answer, mut body) = client.open(call("/early").body(()).unwrap(), false).await;
    send(&mut body, b"begun").await;
    let told = tokio::time::timeout(Duration::from_secs(3), async {
        told(answer.await.unwrap()).await
    });
    assert_eq!(told.await.unwrap().trailers["grpc-status"], "0");
}

#[tokio::test]
async fn a_refused_call_is_told_as_its_clients_read_it() {
    let notary = Notary::new(|_| Err(no(Reason::PathNotGranted)));
    let (stage, seen) = grpc_stage(notary).await;
    let client = Client::to(&stage).await;
    for kind in [
        "application/grpc",
        "application/grpc+proto",
        "application/grpc; a=b",
    ] {
        let request = to("/no").method("POST").header("content-type", kind);
        let request = request.header("te", "trailers").body(()).unwrap();
        let (answer, mut body) = client.open(request, false).await;
        send(&mut body, b"begun").await;
        let answer = answer.await.unwrap();
        assert!(answer.body().is_end_stream(), "trailers only");
        let told = told(answer).await;
        assert_eq!(told.status, 200);
        assert_eq!(told.field("content-type"), "application/grpc");
        assert_eq!(told.field("grpc-status"), "7");
        let message = told.field("grpc-message");
        assert!(
            message.contains("path_not_granted") && message.contains("ask for"),
            "{message}"
        );
    }
    assert_eq!(seen.lock().unwrap().len(), 0);
}

#[tokio::test]
async fn without_http2_at_the_far_end_a_call_is_refused_and_nothing_is_sent() {
    let stage = stage(Notary::bearer(), fixed(OK)).await;
    let client = Client::to(&stage).await;
    let (answer, mut body) = client.open(call("/").body(()).unwrap(), false).await;
    send(&mut body, b"begun").await;
    let told = told(answer.await.unwrap()).await;
    assert_eq!(told.field("grpc-status"), "14");
    assert!(told.field("grpc-message").contains("HTTP/2"), "{told:?}");
    assert_eq!(stage.origin.count(), 0);
    // gRPC-Web is a request like any other, and its refusals too.
    let request = to("/web")
        .method("POST")
        .header("content-type", "application/grpc-web");
    let (answer, _) = client.open(request.body(()).unwrap(), true).await;
    assert_eq!(self::told(answer.await.unwrap()).await.body, "ok");
}

#[tokio::test]
async fn packed_messages_do_not_pass_where_they_would_have_to_be_searched() {
    let (stage, _) = grpc_stage(Notary::bearer()).await;
    let client = Client::to(&stage).await;
    let (answer, mut body) = client.open(call("/packed").body(()).unwrap(), false).await;
    body.send_data(Bytes::new(), true).unwrap();
    let told = told(answer.await.unwrap()).await;
    assert_eq!(told.field("grpc-status"), "14", "{told:?}");
    assert!(told.field("grpc-message").contains("searched"), "{told:?}");
}

#[tokio::test]
async fn a_revoked_credential_ends_its_call_at_both_ends() {
    // ATTACK: 101, 155
    let (stage, _) = grpc_stage(Notary::bearer()).await;
    let client = Client::to(&stage).await;
    let (answer, mut body) = client.open(call("/stand").body(()).unwrap(), false).await;
    send(&mut body, b"\0\0\0\0\0").await;
    let mut answer = answer.await.unwrap().into_body();
    assert_eq!(answer.data().await.unwrap().unwrap(), "\0\0\0\0\0");
    stage
        .pipeline
        .revoke(Some(&CredentialName::parse("c1").unwrap()));
    let end = tokio::time::timeout(Duration::from_secs(1), answer.data()).await;
    assert!(end.unwrap().unwrap().unwrap_err().is_reset());
    let outcomes = stage.notary.outcomes.lock().unwrap();
    assert_eq!(outcomes[0].end, End::Aborted { status: Some(200) });
}

#[tokio::test]
async fn a_connection_of_one_protocol_serves_no_request_of_the_other() {
    let (stage, seen) = grpc_stage(Notary::yes()).await;
    let client = Client::to(&stage).await;
    let (answer, mut body) = client.open(call("/one").body(()).unwrap(), false).await;
    body.send_data(Bytes::new(), true).unwrap();
    assert_eq!(
        told(answer.await.unwrap()).await.trailers["grpc-status"],
        "0"
    );
    // The far end above chooses HTTP/1.1 for this, and fails it: it has its own connection.
    let (answer, _) = client.open(to("/plain").body(()).unwrap(), true).await;
    assert_eq!(answer.await.unwrap().status(), 502);
    assert_eq!(*stage.origin.connections.lock().unwrap(), 2);
    assert_eq!(seen.lock().unwrap().len(), 1);
}
