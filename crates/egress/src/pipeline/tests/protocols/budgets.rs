// SPDX-License-Identifier: Apache-2.0
//! Budgets of a session and of each of its hosts: what comes in stops in its midst, and one host's
//! streams leave another's alone.

use super::http2::{Client, to};
use super::stage::*;
use crate::{HostLimits, Limits};
use std::sync::Arc;
use std::time::Duration;
use torno_notary_protocol::gate::End;

/// Either budget, the other left wide, and its name.
fn both() -> [(Limits, &'static str); 2] {
    let limits = |session: u64, host: u64| Limits {
        ingress_bytes_max: session,
        each_host: HostLimits {
            ingress_bytes_max: host,
            ..HostLimits::default()
        },
        ..Limits::default()
    };
    [
        (limits(10_000, 1 << 30), "limits.ingress"),
        (limits(1 << 30, 10_000), "limits.each_host.ingress"),
    ]
}

async fn ended(stage: &Stage, at: usize) -> String {
    for _ in 0..500 {
        if let Some(outcome) = stage.notary.outcomes.lock().unwrap().get(at) {
            return match &outcome.end {
                End::Refused(refusal) => refusal.rule.to_string(),
                other => panic!("{other:?}"),
            };
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("it did not end");
}

#[tokio::test]
async fn trailers_of_answers_count_as_what_comes_in() {
    let (body, trailer) = ("x".repeat(7_000), "y".repeat(4_000));
    let answer = format!(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\
         1b58\r\n{body}\r\n0\r\nX-T: {trailer}\r\n\r\n"
    );
    for (limits, rule) in both() {
        let stage = stage_with(Notary::yes(), fixed(&answer), limits).await;
        let heard = stage.send(get("/")).await;
        assert!(!heard.contains("yyyy"), "{}", heard.len());
        assert_eq!(ended(&stage, 0).await, rule);
    }
}

#[tokio::test]
async fn what_comes_in_stops_in_its_midst() {
    // ATTACK: 163
    let large = format!("HTTP/1.1 200 OK\r\n\r\n{}", "x".repeat(2_000_000));
    for (limits, rule) in both() {
        let stage = stage_with(Notary::yes(), fixed(&large), limits.clone()).await;
        let heard = stage.send(get("/")).await;
        assert!(heard.matches('x').count() <= 10_000, "{}", heard.len());
        assert_eq!(ended(&stage, 0).await, rule);

        let stage = stage_with(Notary::yes(), fixed(&large), limits).await;
        let client = Client::to(&stage).await;
        let (answer, _body) = client.open(to("/").body(()).unwrap(), true).await;
        let mut came = 0;
        if let Ok(answer) = answer.await {
            let mut body = answer.into_body();
            while let Some(Ok(piece)) = body.data().await {
                came += piece.len();
            }
        }
        assert!(came <= 10_000, "{came}");
        assert_eq!(ended(&stage, 0).await, rule);
    }
}

#[tokio::test]
async fn what_is_spent_at_one_host_is_left_at_another() {
    let limits = Limits {
        each_host: HostLimits {
            egress_bytes_max: 400,
            streams_max: 1,
            ..HostLimits::default()
        },
        ..Limits::default()
    };
    let held = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: 1\n\n";
    let script: Script = Arc::new(move |request| {
        let is_long = request.starts_with(b"GET /long");
        if is_long { held.into() } else { OK.into() }
    });
    let stage = stage_with(Notary::yes(), script, limits).await;
    let client = Client::to(&stage).await;
    let (answer, body) = client.open(to("/long").body(()).unwrap(), true).await;
    let answer = answer.await.unwrap();
    let heard = stage.send(get("/")).await;
    assert!(heard.starts_with("HTTP/1.1 429 "), "{heard}");
    assert!(heard.contains("let requests to this host end"), "{heard}");
    assert_eq!(ended(&stage, 0).await, "limits.each_host.streams");
    let elsewhere = async |body: &str| {
        let io = stage.captured(asked("other.test", 443)).await;
        let mut tls = stage.tls(io, "other.test").await;
        let request = format!(
            "POST / HTTP/1.1\r\nHost: other.test\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        talk(&mut tls, request.as_bytes()).await
    };
    assert!(elsewhere("").await.ends_with("ok"));
    let heard = elsewhere(&"x".repeat(400)).await;
    assert!(heard.contains("may send to one host is spent"), "{heard}");
    drop((answer, body));
    for _ in 0..100 {
        if stage.send(get("/")).await.ends_with("ok") {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("its place is free again");
}
